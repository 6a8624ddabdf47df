package croft

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/state"
	"github.com/croftdev/croft/policy"
)

// Config says how a [Client] works. The zero value is usable.
type Config struct {
	// Dir is croft's state directory. Default: $CROFT_DIR, else
	// ${XDG_STATE_HOME:-~/.local/state}/croft. It is made with mode 0700.
	Dir string
	// Helper is the path of the program that becomes starter and warden. Default: a
	// croft of this version on PATH, else this program itself if it called [Init].
	Helper string
	// Policy is what commands may touch in sessions whose CreateOptions name none.
	Policy policy.Policy
	// Sinks receive the events of every session, beside its own events.jsonl.
	Sinks []event.Sink
	// Payload says how much of commands' output the events hold. The zero value: none.
	Payload event.Policy
	// PayloadByOp is laid over Payload for the operations that it names.
	PayloadByOp map[event.Op]event.Policy
	// NoEventLog leaves out the file sessions/<id>/events.jsonl.
	NoEventLog bool
	// OnStep, when set, is called before each recorded step of every session.
	OnStep StepFunc
	// OnProgress, when set, is told how far long work has come: filling, saving,
	// restoring and removing a workspace. Calls are serialized for one operation.
	OnProgress func(Progress)
	// Logger receives what is no error of a call, such as a trash entry that cannot
	// be removed. Nil is silent.
	Logger *slog.Logger
}

// Progress says how far an operation over a whole tree has come.
type Progress struct {
	SessionID string
	Op        string // "fill", "persist", "restore", "remove"
	Files     int64  // entries done
	Bytes     int64  // content bytes done
	Total     int64  // content bytes to do, 0 while unknown
}

// Client creates, finds, resumes and deletes sessions below one state directory.
// It is safe for use by several goroutines. Several clients, also in several
// processes, may share a state directory: one of them at a time holds a session.
type Client struct {
	cfg      Config
	dir      *state.Dir
	launcher *confine.Launcher
	log      *slog.Logger
	sweep    func() // begins a sweep of the trash in the background
	sweeps   sync.WaitGroup
	stop     context.CancelFunc // ends the sweeps

	calls sync.WaitGroup // under way; none begins when closed is set

	mu     sync.Mutex
	held   map[state.ID]*Session // sessions whose lock this client holds
	closed bool
}

// Open opens the state directory, makes it if it is missing, and begins to sweep
// away in the background what earlier processes left to be removed. The caller
// closes the client.
//
// The errors are permission_denied for a state directory that others may write in,
// and not_available for one that cannot be made.
func Open(cfg Config) (*Client, error) {
	if cfg.Dir == "" {
		dir, err := state.ThisHost().StateDir()
		if err != nil {
			return nil, err
		}
		cfg.Dir = dir
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	dir, err := state.Open(cfg.Dir)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{
		cfg: cfg, dir: dir, log: cfg.Logger, stop: stop,
		launcher: confine.NewLauncher(cfg.Helper), held: make(map[state.ID]*Session),
	}
	c.sweep = func() { c.sweeps.Go(func() { c.sweepTrash(ctx) }) }
	c.sweep()
	return c, nil
}

// sweepTrash removes disposable sessions whose holder was killed, and what was left in
// the trash. Whatever cannot be removed stays for the next sweep.
func (c *Client) sweepTrash(ctx context.Context) {
	if err := c.deleteDisposable(ctx); err != nil && ctx.Err() == nil {
		c.log.Warn("a session that its program left behind could not be removed; the next start tries again", "error", err)
	}
	if _, err := c.dir.Sweep(ctx, nil); err != nil && ctx.Err() == nil {
		c.log.Warn("some of the trash could not be removed; the next start tries again", "error", err)
	}
}

// deleteDisposable deletes the disposable sessions that nobody holds: their holder
// deletes them himself, so he was killed. The lock decides, not the record: a holder
// that lives makes Delete fail with session_busy, and one that ends in between has
// deleted the session.
func (c *Client) deleteDisposable(ctx context.Context) error {
	all, err := c.dir.List()
	if err != nil {
		return err
	}
	var errs []error
	for _, l := range all {
		var k kept
		if l.Err != nil || l.Record.Kept != nil || json.Unmarshal(l.Record.Options, &k) != nil || !k.Disposable {
			continue
		}
		if c.holds(l.ID) {
			continue
		}
		switch err := c.Delete(ctx, l.ID.String()); {
		case errors.Is(err, fault.SessionBusy), errors.Is(err, fault.SessionNotFound):
		default:
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// holds reports whether this client has the session's lock.
func (c *Client) holds(id state.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[id] != nil
}

// begin registers a call that uses the client's descriptors, or refuses it when ctx has
// ended or the client is closed. Close waits for end.
func (c *Client) begin(ctx context.Context) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClientClosed()
	}
	c.calls.Add(1)
	return c.calls.Done, nil
}

func errClientClosed() error {
	return &fault.Error{Code: fault.NotAvailable, Message: "the client is closed", Retry: fault.RetryNo}
}

// Close ends what the client itself runs: the sweep and the starter of wardens. It
// waits for calls under way. Sessions that are still live are then shut down without
// being saved; their workspaces stay. It is safe to call more than once.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	left := slices.Collect(maps.Values(c.held))
	c.mu.Unlock()
	c.stop()
	var errs []error
	for _, s := range left {
		errs = append(errs, s.abandonInTurn())
	}
	c.calls.Wait()
	c.sweeps.Wait()
	errs = append(errs, c.launcher.Close(), c.dir.Close())
	return errors.Join(errs...)
}

// hold remembers a session whose lock this client has, or refuses when the client
// is closed.
func (c *Client) hold(s *Session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClientClosed()
	}
	c.held[s.id] = s
	return nil
}

func (c *Client) letGo(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[s.id] == s {
		delete(c.held, s.id)
	}
}

// Info is what is known of a session from its record, without holding it.
type Info struct {
	ID        string    `json:"id"`
	Phase     string    `json:"phase"` // created, starting, running, stopping, stopped or deleting
	Root      string    `json:"root"`  // host path of the workspace
	RootOwned bool      `json:"root_owned"`
	RootReady bool      `json:"root_ready"`
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	// Kept is the code of the failed save for which [Client.With] did not delete the
	// workspace, or empty.
	Kept string `json:"kept,omitempty"`
	// Err is why the record cannot be read; then only ID is set.
	Err error `json:"-"`
}

// Get returns what is known of one session. The errors are invalid_argument for
// what is no id, session_not_found and state_corrupt.
func (c *Client) Get(ctx context.Context, id string) (Info, error) {
	end, err := c.begin(ctx)
	if err != nil {
		return Info{}, err
	}
	defer end()
	sid, err := state.ParseID(id)
	if err != nil {
		return Info{}, err
	}
	rec, err := c.dir.Load(sid)
	if err != nil {
		return Info{}, err
	}
	return infoOf(rec), nil
}

// List returns every session of the state directory, oldest first, and those
// whose record cannot be read last, with their error.
func (c *Client) List(ctx context.Context) ([]Info, error) {
	end, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	all, err := c.dir.List()
	if err != nil {
		return nil, err
	}
	out := make([]Info, len(all))
	for i, l := range all {
		if l.Err != nil {
			out[i] = Info{ID: l.ID.String(), Err: l.Err}
			continue
		}
		out[i] = infoOf(l.Record)
	}
	return out, nil
}

func infoOf(r state.Record) Info {
	info := Info{
		ID: r.ID.String(), Phase: string(r.Phase), Root: r.Root, RootOwned: r.RootOwned, RootReady: r.RootReady,
		Created: r.Created, Updated: r.Updated,
	}
	if r.Kept != nil {
		info.Kept = r.Kept.Why
	}
	return info
}

package croft

import (
	"context"
	"slices"
	"sync"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/root"
	"github.com/croftdev/croft/internal/state"
	"github.com/croftdev/croft/policy"
	"github.com/croftdev/croft/snapshot"
)

// Session is one agent's sandbox: an id, a manifest, a policy, a workspace and its
// processes. [Client.Create] and [Client.Resume] make one; it is used between
// [Session.Start] and [Session.Close].
//
// A Session is safe for use by several goroutines. Calls that change its life
// (Start, Stop, Shutdown, Close, Hydrate) run one after another; a call that waits
// for its turn ends with its context. File operations and commands run side by side.
type Session struct {
	c     *Client
	id    state.ID
	plan  plan
	store snapshot.Store
	turn  chan struct{}   // holds one token: whose turn it is to change the session's life
	start state.StartPlan // of the Start that has the turn

	mu      sync.Mutex
	events  *event.Recorder // nil before the lock is held
	rec     state.Record
	unsaved []string // names that sinks keep out of saves
	// unrecorded: rec holds the fingerprint of a save that is not on disk yet.
	unrecorded bool
	// leaving: the session is deleted when it has been shut down.
	leaving bool
	filled  FillReport
	tree    *root.Tree    // nil until prepared
	cell    *confine.Cell // nil until the warden runs
	lock    *state.Lock   // nil unless this session is live here
	env     []string      // of commands; set with cell
	running bool
	whole   bool       // running, or was since tree was opened: the workspace is filled
	execs   execSet    // calls of Exec that run now
	procs   *processes // nil before the first Spawn

	hooks  []*hook
	closer closeState
}

// hook is one function that runs before the workspace is saved at Close, once.
type hook struct {
	fn  func(context.Context) error
	ran bool
}

// closeState remembers what earlier calls of Close have done.
type closeState struct {
	done     chan struct{} // non-nil while a Close runs; closed when it ends
	finished bool          // the last Close succeeded and no Start came after
	unsaved  bool          // a hook failed: this life is never saved
	released bool          // close_dependencies has run
}

// ID returns the session's id, a UUID in its canonical text form.
func (s *Session) ID() string { return s.id.String() }

// Running reports whether Start has succeeded and Shutdown or Close has not.
// Stop alone leaves a session running.
func (s *Session) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// Alive reports whether the session is running and its warden lives. Unlike Running
// it leaves a start and a finish event, as a question of the agent's program does
// (case EV-009); its only errors are those of sinks that must not fail.
func (s *Session) Alive(ctx context.Context) (bool, error) {
	var alive bool
	err := s.observeResult(ctx, event.OpRunning, nil, func(context.Context) (event.Result, error) {
		if cell := s.liveCell(); cell != nil && s.Running() {
			select {
			case <-cell.Done():
			default:
				alive = true
			}
		}
		return event.Result{Data: []event.Field{event.Bool("alive", alive)}}, nil
	})
	return alive, err
}

// Root returns the path of the workspace as commands see it: the caller's own path
// for a caller's root, and for a workspace of croft's the manifest's root where the
// tier can show it there, else the real path. It is empty before Start.
func (s *Session) Root() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cell == nil {
		return ""
	}
	return s.cell.Root()
}

// HostRoot returns the canonical host path of the workspace, also before Start. It is
// for the program and its operator; do not show it to the agent.
func (s *Session) HostRoot() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rec.Root
}

// Receipt returns what is really enforced on commands, read back from the kernel.
// The error is not_available before Start.
func (s *Session) Receipt() (policy.Receipt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cell == nil {
		return policy.Receipt{}, notStarted("receipt")
	}
	receipt := s.cell.Receipt()
	if s.tree == nil {
		return receipt, nil
	}
	for _, g := range s.tree.GrantRoots() {
		if g.Missing || g.Void {
			receipt.NotEnforced = append(slices.Clone(receipt.NotEnforced), policy.NotEnforced{
				Asked: "grant:" + g.Path, Reason: "nothing was at this path when the session started, or the root of the file system was",
			})
		}
	}
	return receipt, nil
}

// BeforeStop registers a function that runs at Close and at the end of
// [Client.With], before the workspace is saved, in the order of registration. Each
// runs once. If one fails, the others still run, the first error is returned,
// and the workspace is not saved (case LC-024); it stays on disk. A session that
// has been closed refuses a new hook with not_available.
func (s *Session) BeforeStop(fn func(context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closer.finished {
		return &fault.Error{Code: fault.NotAvailable, Op: "before_stop", Retry: fault.RetryNo,
			Message: "the session is closed; register hooks before Close, or start it again"}
	}
	s.hooks = append(s.hooks, &hook{fn: fn})
	return nil
}

// enter waits for the turn to change the session's life and returns the function
// that ends it. A client that is closed meanwhile waits for that function. A context
// that has ended already keeps nobody from a turn that is free: Close must end what is
// live also then.
func (s *Session) enter(ctx context.Context) (leave func(), err error) {
	end, err := s.c.begin(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	done, err := s.takeTurn(ctx)
	if err != nil {
		end()
		return nil, err
	}
	return func() { done(); end() }, nil
}

func (s *Session) takeTurn(ctx context.Context) (leave func(), err error) {
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	default:
	}
	select {
	case s.turn <- struct{}{}:
		return func() { <-s.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// step takes one recorded step, unless OnStep refuses it.
func (s *Session) step(ctx context.Context, st Step, take func(context.Context) error) error {
	if f := s.c.cfg.OnStep; f != nil {
		if err := f(ctx, s.ID(), st); err != nil {
			return err
		}
	}
	return take(ctx)
}

// notStarted is the error of an operation that needs a started session.
func notStarted(op string) error {
	return &fault.Error{Code: fault.NotAvailable, Op: op, Retry: fault.RetryNo,
		Message: "the session is not started; call Start first"}
}

package confine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/policy"
)

// Init says that this program may serve as its own helper: a program that uses the
// package calls it first thing in main.
//
// A process that was started as a helper never gets as far. It is recognised by its
// name and by a handshake on descriptor 3.
func Init() { initCalled.Store(true) }

// Launcher makes cells. In a program that is small when it starts the first one, the
// wardens are forked by a thread of this program; else by the starter, a helper process.
// The tier none always has the starter, to end what a killed program leaves.
// It is safe for use by several goroutines.
type Launcher struct {
	helper  string
	warming sync.WaitGroup // calls of Warm

	mu     sync.Mutex
	remote backend   // the starter; nil before the first start and after it was lost
	near   backend   // the thread of this program, once there was a reason for it
	view   *hostView // read by Warm, for the next Start
	closed bool
}

// backend has wardens forked.
type backend interface {
	// request has a warden forked and told the setup of c. The descriptors are the
	// warden's ends of its sockets and those that the setup refers to; they stay the
	// caller's. It returns when the pid is known; after an error c has ended.
	request(c *Cell, control, spawn int, dirs []int) error
	// warm prepares for a request that follows soon, with the items that come later.
	warm(items <-chan []item)
	// isLost reports whether the backend has ended by itself.
	isLost() bool
	// lastWords returns what its processes wrote to their standard error.
	lastWords() string
	// close ends its cells and then the backend.
	close()
}

// errClosed is the cause when a closed launcher is used.
var errClosed = errors.New("the launcher is closed")

// NewLauncher returns a launcher that uses the given program as helper. An empty
// name means this program if it called [Init], else a croft of this version on PATH.
// Nothing is started before the first Start.
//
// This program comes first because it cannot be of another version, and because a
// PATH may hold another program of that name.
func NewLauncher(helper string) *Launcher { return &Launcher{helper: helper} }

// Start makes a cell. Cancelling ctx ends the attempt, and nothing of it is left when
// Start returns; a cell that was returned no longer depends on ctx.
//
// The error is fault.ConfinementUnavailable if this machine cannot enforce what spec
// asks for, fault.InvalidArgument if spec makes no sense, and fault.WorkspaceStartError
// if a held directory is no longer what its path names.
func (l *Launcher) Start(ctx context.Context, spec Spec) (*Cell, error) {
	set, dirs, err := layout(spec, l.host())
	if err != nil {
		return nil, err
	}
	if set.Privileged && spec.UID <= 0 {
		return nil, &fault.Error{
			Code: fault.InvalidArgument, Op: "start", Reason: "uid", Retry: fault.RetryNo,
			Message: "root has to name the uid of the session", Err: errNoUID,
		}
	}
	b, err := l.backend(ctx, set.Tier)
	if err != nil {
		return nil, err
	}
	cell, err := launch(ctx, b, set, dirs)
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Details != nil {
		e.Details["session"] = spec.SessionID
	}
	return cell, err
}

// Warm prepares in the background what the next Start needs most probably, so that it
// takes less time. Whatever goes wrong, Start tells. A file system of the host that is
// unmounted stays busy until that Start or Close, so Warm is called when a Start is
// about to follow.
func (l *Launcher) Warm() {
	items := make(chan []item, 1)
	l.warming.Go(func() {
		view := readHost()
		items <- view.items
		l.mu.Lock()
		defer l.mu.Unlock()
		l.view = &view
	})
	l.warming.Go(func() {
		if b, err := l.backend(context.Background(), policy.Namespaces); err == nil {
			b.warm(items)
		}
	})
}

// host returns what Warm has read, once, or reads it.
func (l *Launcher) host() hostView {
	l.mu.Lock()
	view := l.view
	l.view = nil
	l.mu.Unlock()
	if view == nil {
		return readHost()
	}
	return *view
}

// Close ends every cell that is left and the helpers. It returns when they are gone.
func (l *Launcher) Close() error {
	l.mu.Lock()
	backends := []backend{l.near, l.remote}
	l.near, l.remote, l.closed = nil, nil, true
	l.mu.Unlock()
	for _, b := range backends {
		if b != nil {
			b.close()
		}
	}
	l.warming.Wait()
	return nil
}

// backend returns what forks wardens for the tier, and starts it if need be.
func (l *Launcher) backend(ctx context.Context, tier policy.Tier) (backend, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, fmt.Errorf("start: %w", errClosed)
	case tier != policy.None && l.near != nil:
		return l.near, nil
	case l.remote != nil && !l.remote.isLost():
		return l.remote, nil
	}
	program, err := l.program()
	if err != nil {
		return nil, err
	}
	if tier != policy.None && isSmall() {
		b, err := newLocal(program)
		if err != nil {
			return nil, err
		}
		l.near = b
		return b, nil
	}
	b, err := startStarter(ctx, program)
	if err != nil {
		return nil, err
	}
	l.remote = b
	return b, nil
}

// launch has a warden forked and waits until it is ready.
func launch(ctx context.Context, b backend, set setup, dirs []*os.File) (*Cell, error) {
	control, theirControl, err := newLinkPair("warden")
	if err != nil {
		return nil, lost(err)
	}
	spawn, theirSpawn, err := newLinkPair("spawn")
	if err != nil {
		control.close()
		unix.Close(theirControl)
		return nil, lost(err)
	}
	c := newCell(set, control, spawn)
	err = b.request(c, theirControl, theirSpawn, rawFDs(dirs))
	// The warden's ends are the warden's now. Held here, they would keep the sockets open
	// when it is gone.
	unix.Close(theirControl)
	unix.Close(theirSpawn)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.kill)
	err = c.awaitReady()
	if !stop() && err == nil {
		// Cancelled at the last moment: the warden is being killed.
		err = ErrLost
	}
	if ctx.Err() != nil && err != nil {
		err = ctx.Err()
	}
	if err != nil {
		c.kill()
		<-c.done
		if errors.Is(err, ErrLost) {
			err = lost(fmt.Errorf("%w%s", err, b.lastWords()))
		}
		return nil, err
	}
	go c.listen()
	return c, nil
}

// awaitReady reads the warden's first packet.
func (c *Cell) awaitReady() error {
	buf := make([]byte, maxPacket)
	n, fds, err := c.link.receive(buf, 1)
	if err != nil {
		return fmt.Errorf("%w while it started: %w", ErrLost, err)
	}
	defer closeAll(fds)
	p, err := parsePacket(buf[:n])
	if err != nil {
		return err
	}
	switch {
	case p.kind == msgFailed:
		var f failure
		if err := json.Unmarshal(p.body, &f); err != nil {
			return errWire
		}
		return explain(&f)
	case p.kind == msgReady && len(fds) == 1:
		text, err := readMemoryFile(fds[0], maxCommand)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &c.ready); err != nil {
			return errWire
		}
		c.ready.Receipt.Root = c.setup.Root
		return nil
	}
	return errWire
}

// lost is the error for helpers that do not work as they should.
func lost(err error) error {
	return &fault.Error{
		Code: fault.ConfinementUnavailable, Op: "start", Reason: "helper", Retry: fault.RetryUnknown,
		Message: "croft's helper process failed: check that it is a croft of this version", Err: err,
	}
}

func rawFDs(files []*os.File) []int {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	return fds
}

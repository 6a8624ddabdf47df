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
)

// Init says that this program may serve as its own helper: a program that uses the
// package calls it first thing in main.
//
// A process that was started as a helper never gets as far. It is recognised by its
// name and by a handshake on descriptor 3.
func Init() { initCalled.Store(true) }

// Launcher owns the starter, the helper process that forks wardens. It is safe for
// use by several goroutines.
type Launcher struct {
	helper  string
	warming sync.WaitGroup // calls of Warm

	mu     sync.Mutex
	remote *starterProc // nil before the first start and after the starter was lost
	closed bool
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
	set, dirs, err := layout(spec)
	if err != nil {
		return nil, err
	}
	if set.Privileged && spec.UID <= 0 {
		return nil, &fault.Error{
			Code: fault.InvalidArgument, Op: "start", Reason: "uid", Retry: fault.RetryNo,
			Message: "root has to name the uid of the session", Err: errNoUID,
		}
	}
	st, err := l.starter(ctx)
	if err != nil {
		return nil, err
	}
	cell, err := st.launch(ctx, set, dirs)
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Details != nil {
		e.Details["session"] = spec.SessionID
	}
	return cell, err
}

// Warm starts the helper process in the background, so that a Start soon after does not
// wait for it. Whatever goes wrong, Start tells.
func (l *Launcher) Warm() {
	l.warming.Go(func() { _, _ = l.starter(context.Background()) })
}

// Close ends the starter and with it every cell that is left. It returns when they are gone.
func (l *Launcher) Close() error {
	l.mu.Lock()
	st := l.remote
	l.remote, l.closed = nil, true
	l.mu.Unlock()
	l.warming.Wait()
	if st != nil {
		st.close()
	}
	return nil
}

// starter returns the running starter, or starts one.
func (l *Launcher) starter(ctx context.Context) (*starterProc, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, fmt.Errorf("start: %w", errClosed)
	}
	if l.remote != nil && !l.remote.isLost() {
		return l.remote, nil
	}
	program, err := l.program()
	if err != nil {
		return nil, err
	}
	l.remote, err = startStarter(ctx, program)
	return l.remote, err
}

// launch has a warden forked and waits until it is ready.
func (st *starterProc) launch(ctx context.Context, set setup, dirs []*os.File) (*Cell, error) {
	text, err := set.encode()
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if len(dirs)+3 > maxDescriptors {
		return nil, &fault.Error{
			Code: fault.LimitExceeded, Op: "start", Reason: "grants", Retry: fault.RetryNo,
			Message: fmt.Sprintf("a session can have at most %d grants", maxDescriptors-4),
		}
	}
	setupFD, err := memoryFile("croft-setup", text)
	if err != nil {
		return nil, lost(err)
	}
	defer unix.Close(setupFD)
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
	c := newCell(st, set, control, spawn)
	err = st.request(c, append([]int{theirControl, setupFD, theirSpawn}, rawFDs(dirs)...))
	// The warden's ends are the starter's and the warden's now. Held here, they would keep
	// the sockets open when those are gone.
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
			err = lost(fmt.Errorf("%w%s", err, st.lastWords()))
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
		Message: "croft's helper process failed", Err: err,
	}
}

func rawFDs(files []*os.File) []int {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	return fds
}

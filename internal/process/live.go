package process

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/outlog"
)

// Process is one command of a [Set], running or finished. It is safe for use by several
// goroutines.
type Process struct {
	id      int
	about   about
	log     *outlog.Log // nil: its log cannot be read
	command Command
	started chan struct{} // closed when the program was executed
	done    chan struct{} // closed when all of it has ended
	exit    Exit          // valid once done is closed

	cancel context.CancelCauseFunc // ends the command; the cause is a Cause

	child    Child
	outputs  []*output
	terminal *os.File
	wg       sync.WaitGroup

	stdin stdin

	mu     sync.Mutex
	used   time.Time
	killed bool // somebody did not wait for the grace to end
}

// Info is what is known of a command.
type Info struct {
	ID int
	// Argv and Dir are those of the command; shortened, with Cut set, if they are long.
	Argv     []string
	Cut      bool
	Dir      string
	Started  time.Time
	Terminal bool
	// LastUsed is when the command was last looked up, written to or read; zero if
	// that was before croft was restarted.
	LastUsed time.Time
	// Exit is nil while the command runs.
	Exit *Exit
}

func newProcess(id int, c Command, cancel context.CancelCauseFunc) *Process {
	return &Process{
		id: id, command: c, started: make(chan struct{}), done: make(chan struct{}), cancel: cancel, used: time.Now(),
		about: about{Argv: slices.Clone(c.argv()), Dir: c.Dir, Started: time.Now().UTC(), Terminal: c.TTY != nil},
	}
}

func finishedProcess(id int, l *outlog.Log) *Process {
	p := &Process{
		id: id, log: l, started: make(chan struct{}), done: make(chan struct{}), exit: Exit{Failure: "unknown"},
		cancel: func(error) {},
	}
	close(p.started)
	close(p.done)
	if l == nil {
		p.exit.Failure = "unreadable"
		return p
	}
	st := l.Stat()
	// A note that cannot be read says as little as one that is missing.
	if json.Unmarshal(st.Info, &p.about) != nil {
		p.about = about{}
	}
	var e Exit
	if st.End != nil && json.Unmarshal(st.End, &e) == nil {
		p.exit = e
	}
	return p
}

// start spawns the command and begins to serve it. ctx is for the start, runCtx for the
// life of the command.
func (p *Process) start(ctx, runCtx context.Context, sp Spawner) (err error) {
	defer func() {
		if err != nil { // nothing runs
			p.exit.Failure = "lost"
			p.log.Abandon()
			p.cancel(err)
			close(p.done)
		}
	}()
	c := &p.command
	spec := Spec{Argv: c.argv(), Dir: c.Dir, Env: c.Env, TTY: c.TTY}
	st := &streams{}
	if c.TTY == nil {
		if st, err = p.pipes(); err != nil {
			return transport(c, "pipe", "the command's pipes could not be made", err)
		}
		spec.Files = st.command
	}
	began := time.Now()
	// The start also ends when the set is closed.
	startCtx, stop := context.WithCancel(ctx)
	unhook := context.AfterFunc(runCtx, stop)
	spawnCtx, release := patient(startCtx)
	child, err := sp.Spawn(spawnCtx, spec)
	release()
	unhook()
	stop()
	st.closeCommandEnds()
	if err != nil {
		st.close()
		p.stdin.close()
		switch {
		case ctx.Err() != nil && errors.Is(err, context.Canceled):
			return canceled(ctx)
		case runCtx.Err() != nil && errors.Is(err, context.Canceled):
			return closedSet()
		case errors.Is(err, errors.ErrUnsupported):
			return &fault.Error{
				Code: fault.Unsupported, Op: "exec", Reason: "terminal", Retry: fault.RetryNo,
				Message: "commands cannot run on a terminal here", Err: err,
			}
		}
		return startFailed(c, err)
	}
	p.child = child
	if c.TTY != nil {
		p.terminal = child.Terminal()
		p.stdin.open(p.terminal)
		o := &output{name: "terminal", pipe: p.terminal, done: make(chan struct{})}
		o.kept, o.live = newCapture(-1), logWriter{p.log, outlog.Terminal}
		p.outputs = []*output{o}
	}
	for _, o := range p.outputs {
		o.start(&p.wg)
	}
	close(p.started)
	go p.supervise(runCtx, began) // Set.Close waits for done
	return nil
}

// pipes makes the streams of a command without a terminal.
func (p *Process) pipes() (_ *streams, err error) {
	st := &streams{owned: [3]bool{true, true, true}}
	defer func() {
		if err != nil {
			st.closeCommandEnds()
			st.close()
			p.stdin.close()
		}
	}()
	if p.command.OpenStdin {
		var ours *os.File
		if ours, st.command[0], err = pipe(true); err != nil {
			return nil, err
		}
		p.stdin.open(ours)
	} else if st.command[0], err = os.Open(os.DevNull); err != nil { //nolint:forbidigo // the kernel's own name, in no workspace
		return nil, err
	}
	if st.stdout, st.command[1], err = newOutput("stdout", logWriter{p.log, outlog.Stdout}, -1); err != nil {
		return nil, err
	}
	if st.stderr, st.command[2], err = newOutput("stderr", logWriter{p.log, outlog.Stderr}, -1); err != nil {
		return nil, err
	}
	p.outputs = []*output{st.stdout, st.stderr}
	return st, nil
}

// logWriter writes a stream to the log. It never fails: what the disk did not take is
// counted by the log and told to its readers, and the next write tries again.
type logWriter struct {
	log    *outlog.Log
	stream outlog.Stream
}

func (w logWriter) Write(b []byte) (int, error) {
	_ = w.log.Append(w.stream, b)
	return len(b), nil
}

// supervise waits for the command, ends it when that is asked for, and closes
// done when nothing of it is left here.
func (p *Process) supervise(ctx context.Context, began time.Time) {
	defer close(p.done)
	c := &p.command
	if c.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, c.Timeout, ByTimeout)
		defer stop()
	}
	e := wait(ctx, p.child, c, p.drained)
	p.exit = Exit{
		ExitCode: e.status.ExitCode(), Signal: SignalName(e.status.Signal), Ended: e.sent,
		Duration: time.Since(began), Failure: e.reason,
	}
	// A kill that did not wait for the supervisor: see end.
	if p.wasKilled() && e.status.Signal == syscall.SIGKILL && !slices.Contains(e.sent, "SIGKILL") {
		e.stopped, p.exit.Ended = true, append(e.sent, "SIGKILL")
	}
	if e.stopped {
		p.exit.By, _ = errors.AsType[Cause](context.Cause(ctx))
	}
	grace := c.Drain
	if grace == 0 {
		grace = DefaultDrain
	}
	until := time.Now().Add(max(grace, 0))
	for _, o := range p.outputs {
		o.endAt(until)
	}
	p.wg.Wait()
	p.stdin.close()
	for _, o := range p.outputs {
		o.close()
	}
	note, err := json.Marshal(p.exit)
	if err != nil {
		note = nil
	}
	// If the disk does not take it, the end is known to this Process and not to a later one.
	_ = p.log.End(note)
	p.cancel(nil)
}

func (p *Process) drained(ctx context.Context) {
	for _, o := range p.outputs {
		select {
		case <-o.done:
		case <-ctx.Done():
			return
		}
	}
}

// ID returns the id in the set.
func (p *Process) ID() int { return p.id }

// Done is closed when the command has ended and its log is complete.
func (p *Process) Done() <-chan struct{} { return p.done }

// Finished reports whether Done is closed.
func (p *Process) Finished() bool { return isClosed(p.done) }

func (p *Process) known() bool { return isClosed(p.started) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Info returns what is known of the command.
func (p *Process) Info() Info {
	i := Info{
		ID: p.id, Argv: p.about.Argv, Cut: p.about.Cut, Dir: p.about.Dir,
		Started: p.about.Started, Terminal: p.about.Terminal, LastUsed: p.lastUsed(),
	}
	if p.Finished() {
		e := p.exit
		i.Exit = &e
	}
	return i
}

// Wait waits for the end of the command and returns how it ended; ending a command, also
// by a timeout, is no error. The error is ctx.Err(), or fault.ExecTransportError with the
// reason that is the Failure of the Exit.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	if !p.Finished() {
		select {
		case <-p.done:
		case <-ctx.Done():
			return Exit{}, ctx.Err()
		}
	}
	if p.exit.Failure != "" {
		return p.exit, &fault.Error{
			Code: fault.ExecTransportError, Op: "exec", Reason: p.exit.Failure,
			Message: "how the command ended is not known", Details: map[string]any{"session_id": p.id},
		}
	}
	return p.exit, nil
}

// Output returns the log; its readers may follow it while the command runs. The error
// is fault.StateCorrupt if it cannot be read.
func (p *Process) Output() (*outlog.Log, error) {
	p.use()
	if p.log == nil {
		return nil, &fault.Error{
			Code: fault.StateCorrupt, Op: "exec", Reason: "output_log", Retry: fault.RetryNo,
			Message: "the output of this command cannot be read; it was written by another version or is damaged",
		}
	}
	return p.log, nil
}

// Signal sends sig to the command's process group, as [Child.Signal] does. What is the
// foreground group of a terminal gets its signals by what is written to it: "\x03" is
// Ctrl-C. The error is fault.NotAvailable if the command has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	p.use()
	if p.Finished() {
		return p.unavailable("ended", "the process has ended", nil)
	}
	if err := p.child.Signal(sig); err != nil {
		return transport(&p.command, "signal", "the signal could not be sent", err)
	}
	return nil
}

// Resize gives the command's terminal another size. The error is fault.NotAvailable if
// there is none or the command has ended.
func (p *Process) Resize(ws Winsize) error {
	p.use()
	switch {
	case !p.about.Terminal:
		return p.unavailable("no_terminal", "the process has no terminal", nil)
	case p.Finished():
		return p.unavailable("ended", "the process has ended", nil)
	}
	if err := SetWinsize(p.terminal, ws); errors.Is(err, os.ErrClosed) {
		return p.unavailable("ended", "the process has ended", err)
	} else if err != nil {
		return transport(&p.command, "resize", "the terminal could not be resized", err)
	}
	return nil
}

// End ends the command and all that the spawner can name of it: SIGTERM, up to KillGrace
// for it to end, then SIGKILL; it returns how it ended, when it has. When ctx ends, the
// grace does too. A command that has ended is left alone. The error is that of Wait,
// never ctx's.
func (p *Process) End(ctx context.Context) (Exit, error) {
	p.end(ctx, ByRequest)
	return p.Wait(context.WithoutCancel(ctx))
}

func (p *Process) end(ctx context.Context, why Cause) {
	p.cancel(why)
	select {
	case <-p.done:
		return
	case <-ctx.Done():
	}
	select {
	case <-p.done:
	case <-p.started:
	}
	if p.Finished() {
		return
	}
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	_ = p.child.Kill() // the supervisor's Wait then returns; it kills once more
	<-p.done
}

func (p *Process) use() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = time.Now()
}

func (p *Process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

func (p *Process) lastUsed() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

func (p *Process) unavailable(reason, message string, err error) error {
	return &fault.Error{
		Code: fault.NotAvailable, Op: "exec", Reason: reason, Message: message, Retry: fault.RetryNo,
		Details: map[string]any{"session_id": p.id}, Err: err,
	}
}

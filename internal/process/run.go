package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// errTimeout is the cause of the context whose Command.Timeout has passed; it tells
// that from a deadline of the caller's own.
var errTimeout = errors.New("timeout of the command")

// Run runs one command through sp and returns how it ended.
//
// A command that ran has a Result, whatever its exit code; a nonzero code is no
// error. With an error the Result is not nil if the command was started, and holds
// what was written until then:
//
//   - fault.ExecTimeout: Timeout passed. The command was ended.
//   - an error that wraps ctx.Err(): ctx ended first. The command was ended.
//   - fault.ExecTransportError: it could not be started (the error then wraps
//     [ErrNotFound], [ErrNotExecutable], [ErrDir] or the spawner's own error), its end could not be
//     learned, or a stream of the caller failed (reason "stream").
//   - fault.InvalidArgument: the Command contradicts itself. Nothing was started.
//
// Ending a command means SIGTERM to its process group, up to KillGrace for it to
// end and for its output to close, then SIGKILL to everything of it (see [Child.Kill]).
// A command that ended by itself leaves its background processes alive; a pipe of
// theirs is closed after Drain, so that one which writes on gets SIGPIPE.
//
// When Run returns, no goroutine, pipe or process that it made is left, except those
// background processes, and except a process that survives SIGKILL for more than ten
// seconds (uninterruptible sleep): the error then has the reason "not_ended".
func Run(ctx context.Context, sp Spawner, c Command) (*Result, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.TTY != nil || c.OpenStdin {
		return nil, invalid("not_interactive", "a terminal and a stdin that stays open need Set.Start")
	}
	if ctx.Err() != nil {
		return nil, canceled(ctx)
	}
	runCtx := ctx
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		runCtx, cancel = context.WithTimeoutCause(ctx, c.Timeout, errTimeout)
		defer cancel()
	}
	st, err := openStreams(&c)
	if err != nil {
		return nil, transport(&c, "pipe", "the command's pipes could not be made", err)
	}
	defer st.close()

	started := time.Now()
	spawnCtx, release := patient(runCtx)
	child, err := sp.Spawn(spawnCtx, Spec{Argv: c.argv(), Dir: c.Dir, Env: c.Env, Files: st.command})
	release()
	st.closeCommandEnds()
	if err != nil {
		if runCtx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil, stopped(ctx, runCtx, &c, time.Since(started))
		}
		return nil, startFailed(&c, err)
	}
	st.start()
	end := wait(runCtx, child, &c, st.drained)
	end.duration = time.Since(started)
	streamErr := st.finish(&c)
	return report(ctx, runCtx, &c, end, st, streamErr)
}

// spawnGrace is how long a spawn may still take after its context has ended. A start
// takes milliseconds; one that was broken off would take a command that runs already
// for one that never did, and lose what it wrote.
const spawnGrace = time.Second

// patient returns a context for Spawn that ends spawnGrace after ctx, and the function
// to call when Spawn has returned.
func patient(ctx context.Context) (_ context.Context, release func()) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	returned := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-ctx.Done():
		case <-returned:
			return
		}
		t := time.NewTimer(spawnGrace)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-returned:
		}
	})
	return late, func() {
		close(returned)
		wg.Wait()
		cancel()
	}
}

// report turns what is known after the end into the answer of Run.
func report(ctx, runCtx context.Context, c *Command, end ending, st *streams, streamErr error) (*Result, error) {
	res := &Result{
		ExitCode: end.status.ExitCode(), Signal: SignalName(end.status.Signal),
		Duration: end.duration, Ended: end.sent,
	}
	if !c.direct() {
		res.Stdout, res.StdoutDropped = st.stdout.kept.result()
		res.Stderr, res.StderrDropped = st.stderr.kept.result()
	}
	switch {
	case end.err != nil:
		return res, transport(c, end.reason, end.message, end.err)
	case end.stopped:
		err := stopped(ctx, runCtx, c, end.duration)
		res.TimedOut = ctx.Err() == nil
		return res, err
	case streamErr != nil:
		return res, transport(c, "stream", "the command ran, but a stream of the caller failed", streamErr)
	}
	return res, nil
}

// streams are the three standard streams of one run: the files the command
// gets, and croft's ends of the pipes among them.
type streams struct {
	command        [3]*os.File
	owned          [3]bool // command[i] was made here and is closed here
	stdin          *input  // nil: no pipe
	stdout, stderr *output // nil: no pipe
	wg             sync.WaitGroup
}

// openStreams makes what c asks for. On an error nothing is left open.
func openStreams(c *Command) (_ *streams, err error) {
	if c.direct() {
		return &streams{command: c.Files}, nil
	}
	st := &streams{owned: [3]bool{true, true, true}}
	defer func() {
		if err != nil {
			st.closeCommandEnds()
			st.close()
		}
	}()
	switch in := c.Stdin.(type) {
	case nil:
		st.command[0], err = os.Open(os.DevNull) //nolint:forbidigo // the kernel's own name, in no workspace
	case *os.File:
		st.command[0], st.owned[0] = in, false
	default:
		st.stdin, st.command[0], err = newInput(in)
	}
	if err != nil {
		return nil, err
	}
	if st.stdout, st.command[1], err = newOutput("stdout", c.Stdout, c.OutputLimit); err != nil {
		return nil, err
	}
	if st.stderr, st.command[2], err = newOutput("stderr", c.Stderr, c.OutputLimit); err != nil {
		return nil, err
	}
	return st, nil
}

// closeCommandEnds closes croft's copies of the command's ends, without which the
// pipes would never report their end.
func (st *streams) closeCommandEnds() {
	for i, f := range st.command {
		if st.owned[i] && f != nil {
			_ = f.Close()
		}
	}
	st.owned = [3]bool{}
}

func (st *streams) start() {
	if st.stdin != nil {
		st.stdin.start(&st.wg)
	}
	if st.stdout != nil {
		st.stdout.start(&st.wg)
		st.stderr.start(&st.wg)
	}
}

// drained returns when both outputs have ended, or ctx has.
func (st *streams) drained(ctx context.Context) {
	if st.stdout == nil {
		return
	}
	for _, o := range []*output{st.stdout, st.stderr} {
		select {
		case <-o.done:
		case <-ctx.Done():
			return
		}
	}
}

// finish is called after the command's end: it gives the outputs their grace, waits for
// every goroutine, and returns the first failure of a stream.
func (st *streams) finish(c *Command) error {
	if st.stdout != nil {
		grace := c.Drain
		if grace == 0 {
			grace = DefaultDrain
		}
		until := time.Now().Add(max(grace, 0))
		st.stdout.endAt(until)
		st.stderr.endAt(until)
	}
	if st.stdin != nil {
		st.stdin.end()
	}
	st.wg.Wait()
	if st.stdin != nil && st.stdin.err != nil {
		return st.stdin.err
	}
	if st.stdout == nil {
		return nil
	}
	return errors.Join(st.stdout.err, st.stderr.err)
}

// close lets go of croft's ends. It is safe at any time after the goroutines have
// ended, and before they were started.
func (st *streams) close() {
	if st.stdin != nil {
		_ = st.stdin.pipe.Close()
	}
	for _, o := range []*output{st.stdout, st.stderr} {
		if o != nil {
			o.close()
		}
	}
}

package croft

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/process"
	"github.com/croftdev/croft/internal/state"
)

// Exec runs a command in the session, confined as its Receipt says, and waits for
// it to end. A non-zero exit code is no error.
//
// The result is set whenever the command was started, also together with an error:
// after a timeout (exec_timeout) or a cancellation (the context's error) it holds
// the output so far and how the command was ended. A program that is not there or
// cannot be executed is exec_transport_error with reason "not_found" or
// "not_executable". Background processes that the command leaves behind live until
// the session stops; one that holds its output open delays Exec only for a short grace.
func (s *Session) Exec(ctx context.Context, cmd Command) (*Result, error) {
	var res *Result
	err := s.observeResult(ctx, event.OpExec, execFields(cmd), func(ctx context.Context) (event.Result, error) {
		var err error
		res, err = s.exec(ctx, cmd)
		if err != nil || res == nil {
			return event.Result{}, err
		}
		code := int64(res.ExitCode)
		return event.Result{
			Failed: res.ExitCode != 0,
			Data:   []event.Field{event.Int("exit_code", code), event.Int("process.exit.code", code)},
			Output: &event.Output{Stdout: res.Stdout, Stderr: res.Stderr},
		}, nil
	})
	return res, err
}

func execFields(cmd Command) []event.Field {
	argv := cmd.Argv
	if cmd.Shell != "" {
		argv = []string{cmd.Shell}
	}
	timeout := event.Null("timeout_s")
	if cmd.Timeout > 0 {
		timeout = event.Float("timeout_s", cmd.Timeout.Seconds())
	}
	shell := event.Bool("shell", cmd.Shell != "")
	if cmd.Shell != "" && (cmd.ShellPath != "" || cmd.Login) {
		shell = event.Strings("shell", shellWords(cmd))
	}
	return []event.Field{event.Strings("command", argv), timeout, shell, event.Null("user")}
}

// shellWords is how an event names a shell that is not the default one.
func shellWords(cmd Command) []string {
	words := []string{"sh", "-c"}
	if cmd.ShellPath != "" {
		words[0] = cmd.ShellPath
	}
	if cmd.Login {
		words[1] = "-lc"
	}
	return words
}

func (s *Session) exec(ctx context.Context, cmd Command) (*Result, error) {
	caller := ctx
	ctx, done := s.execs.begin(ctx)
	defer done()
	cell, env, err := s.cellForExec(ctx)
	if err != nil {
		return nil, err
	}
	c, err := cmd.in(cell.Root(), env)
	if err != nil {
		return nil, err
	}
	res, err := process.Run(ctx, cell, c)
	if err != nil && errors.Is(context.Cause(ctx), errSessionEnds) && caller.Err() == nil {
		// Nobody cancelled the call, so it must not look as if its caller had.
		err = &fault.Error{Code: fault.NotAvailable, Op: "exec", Reason: "session_stopped", Retry: fault.RetryUnknown,
			Message: "the session was stopped while the command ran; start it and run the command again", Err: errSessionEnds}
	}
	return (*Result)(res), err
}

// in returns cmd as it runs with the workspace at root and the session's environment.
func (cmd Command) in(root string, env []string) (process.Command, error) {
	dir, err := commandDir(root, cmd.Dir)
	if err != nil {
		return process.Command{}, err
	}
	if len(cmd.Env) > 0 {
		if env, err = overlay(env, cmd.Env); err != nil {
			return process.Command{}, err
		}
	}
	return process.Command{
		Argv: cmd.Argv, Shell: cmd.Shell, ShellPath: cmd.ShellPath, Login: cmd.Login, Dir: dir, Env: env,
		Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, Files: cmd.Files, OpenStdin: cmd.OpenStdin,
		Timeout: cmd.Timeout, OutputLimit: cmd.OutputLimit,
	}, nil
}

// cellForExec returns what runs commands now. A Stop ends it with all its processes,
// so that the next command starts another one.
func (s *Session) cellForExec(ctx context.Context) (*confine.Cell, []string, error) {
	s.mu.Lock()
	cell, env, running := s.cell, s.env, s.running
	s.mu.Unlock()
	if !running {
		return nil, nil, notStarted("exec")
	}
	if cell != nil {
		return cell, env, nil
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	if !s.Running() {
		return nil, nil, notStarted("exec")
	}
	if err := s.ensureCell(ctx); err != nil {
		return nil, nil, err
	}
	// Recorded before anything runs in it: if croft is killed, the next start waits for
	// the end of this warden before it touches the workspace.
	s.mu.Lock()
	rec, cell := s.rec, s.cell
	s.mu.Unlock()
	rec.Warden = state.ProcessOf(cell.Pid(), cell.StartTime())
	if err := s.save(rec); err != nil {
		return nil, nil, errors.Join(err, s.endCell(context.WithoutCancel(ctx)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cell, s.env, nil
}

// commandDir returns the directory of a command as the command sees it. It is a
// matter of names only: what the directory is, the kernel decides inside the confinement.
func commandDir(root, dir string) (string, error) {
	switch {
	case dir == "":
		return root, nil
	case path.IsAbs(dir):
		return dir, nil
	}
	if clean := path.Clean(dir); clean == ".." || strings.HasPrefix(clean, "../") {
		return "", &fault.Error{Code: fault.InvalidArgument, Op: "exec", Path: dir, Reason: "escape_root", Retry: fault.RetryNo,
			Message: "a relative working directory must stay in the workspace"}
	}
	return path.Join(root, dir), nil
}

// overlay returns env with vars on top.
func overlay(env []string, vars map[string]string) ([]string, error) {
	out := slices.Clone(env)
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(vars[k], "\x00") {
			return nil, &fault.Error{Code: fault.InvalidArgument, Op: "exec", Reason: "bad_variable", Retry: fault.RetryNo,
				Message: "an environment variable has a name or value that no process can get: " + k}
		}
		out = slices.DeleteFunc(out, func(e string) bool { return strings.HasPrefix(e, k+"=") })
		out = append(out, k+"="+vars[k])
	}
	return out, nil
}

// execSet holds the commands that run, so that end can end them all and wait
// until no call of Exec touches the workspace any more.
type execSet struct {
	mu     sync.Mutex
	active map[*activeExec]struct{}
}

type activeExec struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// errSessionEnds is the cause by which Stop, Shutdown and Close end commands.
var errSessionEnds = errors.New("the session was stopped")

// begin registers a command and returns its context and the function that ends it.
func (e *execSet) begin(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	a := &activeExec{cancel: cancel, done: make(chan struct{})}
	e.mu.Lock()
	if e.active == nil {
		e.active = make(map[*activeExec]struct{})
	}
	e.active[a] = struct{}{}
	e.mu.Unlock()
	return ctx, func() {
		cancel(nil)
		e.mu.Lock()
		delete(e.active, a)
		e.mu.Unlock()
		close(a.done)
	}
}

// end cancels every command that runs now and waits for the calls to return.
func (e *execSet) end() {
	e.mu.Lock()
	active := slices.Collect(maps.Keys(e.active))
	e.mu.Unlock()
	for _, a := range active {
		a.cancel(errSessionEnds)
	}
	for _, a := range active {
		<-a.done
	}
}

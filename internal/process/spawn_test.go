package process_test

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/croftdev/croft/internal/process"
)

// plain is a Spawner by fork and exec without any confinement. It ends process
// groups only; what left the group stays.
type plain struct{}

func (plain) Spawn(ctx context.Context, spec process.Spec) (process.Child, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if fi, err := os.Stat(spec.Dir); spec.Dir != "" && (err != nil || !fi.IsDir()) {
		return nil, &process.StartError{Step: process.StepDir, Name: spec.Dir, Errno: syscall.ENOENT}
	}
	path, err := process.Find(spec.Argv[0], spec.Dir, spec.Env)
	if err != nil {
		return nil, err
	}
	env := spec.Env
	if env == nil {
		env = []string{} // nil would be the environment of this test
	}
	attr := &os.ProcAttr{Dir: spec.Dir, Env: env, Files: spec.Files[:], Sys: &syscall.SysProcAttr{Setsid: true}}
	var master *os.File
	if spec.TTY != nil {
		var slave *os.File
		if master, slave, err = openTerminal(*spec.TTY); err != nil {
			return nil, err
		}
		defer func() { _ = slave.Close() }()
		attr.Files, attr.Sys.Setctty = []*os.File{slave, slave, slave}, true
	}
	p, err := os.StartProcess(path, spec.Argv, attr)
	if err != nil {
		if master != nil {
			_ = master.Close()
		}
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return nil, &process.StartError{Step: process.StepExec, Name: spec.Argv[0], Errno: errno}
		}
		return nil, err
	}
	c := &plainChild{pid: p.Pid, terminal: master, ended: make(chan struct{})}
	go c.reap(p)
	return c, nil
}

type plainChild struct {
	pid      int
	terminal *os.File
	ended    chan struct{}

	mu     sync.Mutex
	status process.Status // valid once ended is closed
	err    error
}

func (c *plainChild) reap(p *os.Process) {
	defer close(c.ended)
	state, err := p.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.err = err
		return
	}
	ws, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		c.err = errors.New("the kernel's wait status is missing")
	case ws.Signaled():
		c.status.Signal = ws.Signal()
	default:
		c.status.Code = ws.ExitStatus()
	}
}

func (c *plainChild) Pid() int { return c.pid }

func (c *plainChild) Terminal() *os.File { return c.terminal }

func (c *plainChild) Wait(ctx context.Context) (process.Status, error) {
	select {
	case <-c.ended:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.status, c.err
	default:
	}
	select {
	case <-c.ended:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.status, c.err
	case <-ctx.Done():
		return process.Status{}, ctx.Err()
	}
}

func (c *plainChild) Signal(sig syscall.Signal) error { return c.group(sig) }
func (c *plainChild) Kill() error                     { return c.group(syscall.SIGKILL) }

func (c *plainChild) group(sig syscall.Signal) error {
	if err := syscall.Kill(-c.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// fixed is a Spawner that hands out one prepared child.
type fixed struct{ child process.Child }

func (f fixed) Spawn(context.Context, process.Spec) (process.Child, error) { return f.child, nil }

// lostChild is the child of a spawner that is gone.
type lostChild struct{ killed *bool }

var errLost = errors.New("spawner is gone")

func (lostChild) Pid() int                                     { return 1 }
func (lostChild) Wait(context.Context) (process.Status, error) { return process.Status{}, errLost }
func (lostChild) Signal(syscall.Signal) error                  { return errLost }
func (lostChild) Terminal() *os.File                           { return nil }
func (c lostChild) Kill() error                                { *c.killed = true; return nil }

package croft

import (
	"context"
	"errors"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/durable"
	"github.com/croftdev/croft/internal/process"
)

// Process is a command that [Session.Spawn] started, running or finished. It has an id in
// its session, a stdin if [Command.OpenStdin] asked for one, and a log of its output on
// disk, from which any number of readers read and follow by byte cursors. The log has a
// limit ([Command.OutputLimit]; head and tail are kept) and stays until the session
// is deleted, also when croft is restarted; what was still in a pipe when croft was
// killed is lost.
type Process = process.Process

// ProcessInfo is what is known of a [Process].
type ProcessInfo = process.Info

// Exit is how a [Process] ended.
type Exit = process.Exit

// processes are the commands of a live session that run beside its calls.
type processes struct {
	set  *process.Set
	logs *durable.Dir
}

// Spawn starts a command, confined as with [Session.Exec], and returns while it runs. It
// ends by itself, by [Process.End] or its Timeout, and at the latest when the session
// stops. Stdin, Stdout, Stderr and Files of cmd must not be set.
//
// ctx is for the start alone. The errors are those of Exec for a command that was not started.
func (s *Session) Spawn(ctx context.Context, cmd Command) (*Process, error) {
	var p *Process
	err := s.observeResult(ctx, event.OpSpawn, execFields(cmd), func(ctx context.Context) (event.Result, error) {
		var err error
		if p, err = s.spawn(ctx, cmd); err != nil {
			return event.Result{}, err
		}
		return event.Result{Data: []event.Field{event.Int("process", int64(p.ID()))}}, nil
	})
	return p, err
}

func (s *Session) spawn(ctx context.Context, cmd Command) (*Process, error) {
	cell, env, err := s.cellForExec(ctx)
	if err != nil {
		return nil, err
	}
	c, err := cmd.in(cell.Root(), env)
	if err != nil {
		return nil, err
	}
	set, err := s.processSet()
	if err != nil {
		return nil, err
	}
	return set.Start(ctx, c)
}

// Process returns the process with that id, also one that ended. The error is
// pty_session_not_found.
func (s *Session) Process(id int) (*Process, error) {
	set, err := s.processSet()
	if err != nil {
		return nil, err
	}
	return set.Get(id)
}

// Processes returns what is known of every process, in the order of their ids. Of
// those that have ended the last 64 used are kept.
func (s *Session) Processes(ctx context.Context) ([]ProcessInfo, error) {
	var out []ProcessInfo
	err := s.observe(ctx, event.OpProcesses, nil, func(context.Context) error {
		set, err := s.processSet()
		if err != nil {
			return err
		}
		out = set.List()
		return nil
	})
	return out, err
}

// processSet returns the session's processes, with what earlier lives left of them.
func (s *Session) processSet() (*process.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.running || s.lock == nil:
		return nil, notStarted("processes")
	case s.procs != nil:
		return s.procs.set, nil
	}
	logs, err := s.lock.Logs()
	if err != nil {
		return nil, err
	}
	set, err := process.OpenSet(cellSpawner{s}, logs, process.SetOptions{})
	if err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	s.procs = &processes{set: set, logs: logs}
	return set, nil
}

// cellSpawner starts commands in the cell that the session has at that moment.
type cellSpawner struct{ s *Session }

// Spawn implements process.Spawner.
func (c cellSpawner) Spawn(ctx context.Context, spec process.Spec) (process.Child, error) {
	cell, _, err := c.s.cellForExec(ctx)
	if err != nil {
		return nil, err
	}
	return cell.Spawn(ctx, spec)
}

// endCommands ends every command and waits until no call and no process of the
// session touches the workspace any more, but for what left its command's reach; that
// ends with the cell.
func (s *Session) endCommands(ctx context.Context) error {
	s.execs.end()
	s.mu.Lock()
	procs := s.procs
	s.procs = nil
	s.mu.Unlock()
	if procs == nil {
		return nil
	}
	procs.set.Close(ctx)
	return procs.logs.Close()
}

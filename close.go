package croft

import (
	"context"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/state"
)

// Stop ends every process of the session and saves the workspace with the
// session's kind of snapshot. The session stays running: it can be stopped again,
// which saves again, or used on. croft's own workspace stays on disk.
//
// A failure is workspace_stop_error with the step's error as its cause, a
// cancellation the context's error; in both cases the workspace is untouched and
// an older snapshot remains.
func (s *Session) Stop(ctx context.Context) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return s.observe(ctx, event.OpStop, nil, s.stop)
}

func (s *Session) stop(ctx context.Context) error {
	err := s.step(ctx, StepEndProcesses, s.endProcesses)
	if err == nil {
		err = s.step(ctx, StepPersistSnapshot, s.persistSnapshot)
	}
	after := context.WithoutCancel(ctx)
	err = first(err, s.step(after, StepAfterStop, s.afterStop))
	return state.StopError(s.id, err)
}

// Shutdown ends every process of the session and its warden, without saving. The
// workspace stays on disk.
func (s *Session) Shutdown(ctx context.Context) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return s.observe(ctx, event.OpShutdown, nil, s.shutdown)
}

func (s *Session) shutdown(ctx context.Context) error {
	// Ending what runs must not be cut short by the end of the caller's context, else a
	// cancelled clean-up leaves orphans.
	ctx = context.WithoutCancel(ctx)
	err := s.step(ctx, StepEndProcesses, s.endProcesses)
	if berr := s.step(ctx, StepShutdownBackend, s.shutdownBackend); berr != nil {
		return first(err, berr)
	}
	return first(err, s.step(ctx, StepMarkNotRunning, s.markNotRunning))
}

// Close saves the workspace, ends what is live and lets the session go: hooks, then
// what Stop and Shutdown do, then the release of descriptors and locks, then a wait
// for pending events. Every part is tried, also after an error or a cancellation;
// the first error is returned. If a hook failed, the workspace is not saved; in no
// case is it deleted.
//
// Two calls at once do the work once: the second waits, or ends with its context.
// Close after a Close that succeeded does nothing; after one that failed it tries
// again what is left, without the hooks. The session may be started again.
func (s *Session) Close(ctx context.Context) error {
	joined, done, err := s.beginClose(ctx)
	if joined || err != nil {
		return err
	}
	defer done()
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if s.closed() {
		return nil
	}
	err = s.runHooks(ctx)
	if s.mayPersist() {
		err = first(err, s.observe(ctx, event.OpStop, nil, s.stop))
	}
	after := context.WithoutCancel(ctx)
	err = first(err, s.observe(after, event.OpShutdown, nil, s.shutdown))
	err = first(err, s.closeDependencies(after))
	err = first(err, s.step(after, StepFlushEvents, s.flushEvents))
	return s.endClose(err)
}

// beginClose joins a Close that runs already, or claims the work. joined with a nil
// error means that the other one has ended.
func (s *Session) beginClose(ctx context.Context) (joined bool, done func(), err error) {
	s.mu.Lock()
	if other := s.closer.done; other != nil {
		s.mu.Unlock()
		select {
		case <-other:
			return true, nil, nil
		case <-ctx.Done():
			return true, nil, ctx.Err()
		}
	}
	ch := make(chan struct{})
	s.closer.done = ch
	s.mu.Unlock()
	return false, func() {
		s.mu.Lock()
		s.closer.done = nil
		s.mu.Unlock()
		close(ch)
	}, nil
}

func (s *Session) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closer.finished
}

// mayPersist reports whether this life may still be saved: not after a failed hook,
// which may have left the workspace half changed.
func (s *Session) mayPersist() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closer.unsaved
}

// endClose lets the session go after a Close that succeeded. After one that failed it
// stays held, so that a second Close can do what is left.
func (s *Session) endClose(err error) error {
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.closer.finished = true
	s.mu.Unlock()
	return s.letGo()
}

// runHooks runs each hook that has not run, all of them whatever fails, and returns
// the first error.
func (s *Session) runHooks(ctx context.Context) error {
	s.mu.Lock()
	hooks := s.hooks
	s.mu.Unlock()
	var err error
	for i, h := range hooks {
		if h.ran {
			continue
		}
		h.ran = true
		if herr := s.step(ctx, stepHook(i+1), h.fn); herr != nil {
			err = first(err, herr)
			s.mu.Lock()
			s.closer.unsaved = true
			s.mu.Unlock()
		}
	}
	return err
}

// closeDependencies takes its step once in the life of the value, however often
// the session is closed.
func (s *Session) closeDependencies(ctx context.Context) error {
	s.mu.Lock()
	released := s.closer.released
	s.closer.released = true
	s.mu.Unlock()
	if released {
		return nil
	}
	return s.step(ctx, StepCloseDependencies, func(context.Context) error {
		s.releaseTree()
		return nil
	})
}

// first returns the first error that is not nil.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

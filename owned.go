package croft

import (
	"context"
	"time"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/state"
)

// WithOptions says which session [Client.With] works on: the first of Session,
// State, Resume and Create that is set.
type WithOptions struct {
	// Session is a live session of the caller's. It is used and left as it is: not
	// stopped, closed or deleted.
	Session *Session
	// State is what an earlier With returned.
	State *State
	// Rebind is given to [Client.ResumeState] with State.
	Rebind ResumeOptions
	// Resume is the id of a session in the client's state directory.
	Resume string
	// Create makes a new session, when nothing above is set.
	Create CreateOptions
	// Keep leaves the session on disk after it was saved.
	Keep bool
	// Setup, when set, is called with the session before it is started, to register hooks.
	Setup func(*Session) error
}

// With is the whole life of a session in one call. It takes the session that o
// names, starts it, runs fn, and then cleans up: hooks, stop, shutdown, deletion
// of what the call owns, release. It returns the state from which [Client.ResumeState]
// goes on, also together with an error.
//
// The clean-up runs whole, also when ctx is cancelled or a part of it fails; the
// first error is returned, that of fn before all. The state is taken before the
// deletion begins, so that a cancelled or failed deletion does not lose it. A
// workspace that could not be saved, because a hook or the save failed or was
// cancelled, is never deleted; the error's detail "workspace" names its place.
// A session that the caller gave is neither stopped nor deleted.
func (c *Client) With(ctx context.Context, o WithOptions, fn func(context.Context, *Session) error) (*State, error) {
	if s := o.Session; s != nil {
		return s.borrowed(ctx, fn)
	}
	s, created, err := c.take(ctx, o)
	if err != nil {
		return nil, err
	}
	if o.Setup != nil {
		err = o.Setup(s)
	}
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		// Nothing of the caller's has happened in a session that this call created.
		// One that was resumed keeps its work.
		cleanup := context.WithoutCancel(ctx)
		st := s.State()
		if cerr := s.Shutdown(cleanup); cerr == nil && created {
			err = first(err, c.Delete(cleanup, s.ID()))
		}
		return &st, err
	}
	err = fn(ctx, s)
	st, cerr := s.cleanUp(ctx, o.Keep)
	return st, first(err, cerr)
}

// take finds or makes the session that o names.
func (c *Client) take(ctx context.Context, o WithOptions) (s *Session, created bool, err error) {
	switch {
	case o.State != nil:
		s, err = c.ResumeState(ctx, *o.State, o.Rebind)
	case o.Resume != "":
		s, err = c.Resume(ctx, o.Resume)
	default:
		s, err = c.Create(ctx, o.Create)
		created = true
	}
	return s, created, err
}

// borrowed runs fn on a session that belongs to the caller.
func (s *Session) borrowed(ctx context.Context, fn func(context.Context, *Session) error) (*State, error) {
	if !s.Running() {
		if err := s.Start(ctx); err != nil {
			st := s.State()
			return &st, err
		}
	}
	err := fn(ctx, s)
	st := s.State()
	return &st, err
}

// cleanUp ends an owned session and returns its resume state.
func (s *Session) cleanUp(ctx context.Context, keep bool) (*State, error) {
	leave, err := s.enter(context.WithoutCancel(ctx))
	if err != nil {
		st := s.State()
		return &st, err
	}
	defer leave()
	after := context.WithoutCancel(ctx)

	// The save is tried also after a cancellation: what fn has done is not to be lost.
	err = s.runHooks(after)
	if s.mayPersist() {
		err = first(err, s.observe(after, event.OpStop, nil, s.stop))
	}
	saved := err == nil
	s.mu.Lock()
	s.leaving = saved && !keep
	s.mu.Unlock()
	err = first(err, s.observe(after, event.OpShutdown, nil, s.shutdown))
	st := s.State()
	switch {
	case !saved:
		err = first(s.keptError(err), s.markKept(err))
	case !keep && !s.Running():
		err = first(err, s.step(after, StepDelete, s.deleteOwned))
	}
	err = first(err, s.closeDependencies(after))
	// Nobody else has the session, so it is let go whatever failed.
	s.mu.Lock()
	s.closer.finished = true
	s.mu.Unlock()
	return &st, first(err, s.letGo(), ctx.Err())
}

// keptError adds the place of the kept workspace to the error of a failed save. A
// cancellation stays one.
func (s *Session) keptError(err error) error {
	if fault.Canceled(err) {
		return err
	}
	return &fault.Error{Code: orCode(fault.CodeOf(err), fault.WorkspaceStopError), Op: "with", Retry: fault.RetryUnknown,
		Message: "the workspace was not saved, so it was not deleted; resume the session by its id",
		Details: map[string]any{"session_id": s.ID(), "workspace": s.HostRoot()}, Err: err}
}

// markKept records why a workspace is on disk that would else be gone.
func (s *Session) markKept(cause error) error {
	s.mu.Lock()
	rec := s.rec
	s.mu.Unlock()
	rec.Kept = &state.Kept{Why: string(orCode(fault.CodeOf(cause), fault.WorkspaceStopError)), When: time.Now().UTC()}
	return s.save(rec)
}

func orCode(c, or fault.Code) fault.Code {
	if c == "" {
		return or
	}
	return c
}

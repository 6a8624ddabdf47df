package croft

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/root"
	"github.com/croftdev/croft/internal/state"
)

// Delete removes a session: what runs is ended without being saved, registered
// mounts are released, and then the session with its record, its logs and a
// workspace of croft's own is gone in one rename; the bytes follow. A caller's root
// stays. Saved snapshots stay, for states that a program has carried away; those
// that no session names are removed when they are 30 days old.
//
// Delete returns when the bytes are gone too. If ctx ends meanwhile, the removal of
// the name is finished all the same, what is left of the bytes is swept away in the
// background or by the next start, and ctx's error is returned. What cannot be
// removed is an error that names it; the next sweep tries again. A mount that cannot
// be released keeps the session: nothing is removed, and the next Delete tries again.
//
// The errors are invalid_argument for what is no id, session_not_found, and
// session_busy while another process holds the session.
func (c *Client) Delete(ctx context.Context, id string) error {
	end, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	sid, err := state.ParseID(id)
	if err != nil {
		return err
	}
	for {
		s, err := c.takeForDelete(ctx, sid)
		if err != nil {
			return err
		}
		leave, err := s.enter(ctx)
		if err != nil {
			return err
		}
		if !s.held() {
			// Another call closed or deleted it while this one waited for its turn.
			leave()
			continue
		}
		defer leave()
		err = s.deleteOwned(ctx)
		return errors.Join(err, s.letGo())
	}
}

// held reports whether this value has the session's lock.
func (s *Session) held() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock != nil
}

// takeForDelete returns the session of this client that is to be deleted, or takes it.
func (c *Client) takeForDelete(ctx context.Context, id state.ID) (*Session, error) {
	c.mu.Lock()
	s := c.held[id]
	c.mu.Unlock()
	if s != nil {
		return s, nil
	}
	lock, err := c.dir.Lock(id)
	if err != nil {
		return nil, err
	}
	rec, err := lock.Load()
	if err != nil {
		// A record that cannot be read must not keep its session from being deleted. What it
		// names outside the state directory is left alone.
		rec = state.Record{ID: id, RootOwned: true}
	}
	s, err = c.newSession(rec)
	if err != nil {
		s = &Session{c: c, id: id, rec: rec, turn: make(chan struct{}, 1)}
	}
	s.lock = lock
	if rec.Warden != nil {
		if err := rec.Warden.WaitGone(ctx); err != nil {
			return nil, errors.Join(err, lock.Release())
		}
	}
	// The deletion's events go on from those in the session's own log. A log that cannot
	// be read must not keep the session from being deleted.
	last, err := event.LastSeq(filepath.Join(lock.Path(), state.EventsName), s.ID())
	if err != nil {
		c.log.Warn("the event log of a session that is deleted cannot be read", "session", s.ID(), "error", err)
	}
	if err := s.useRecorder(c.cfg.Sinks, last); err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	// From here on other calls find the session, so it has all that they use.
	if err := c.hold(s); err != nil {
		return nil, errors.Join(err, s.closeEvents(context.WithoutCancel(ctx)), lock.Release())
	}
	return s, nil
}

// deleteOwned deletes the held session. Its own event log goes with its directory, so
// the operation's events go to the client's sinks only.
func (s *Session) deleteOwned(ctx context.Context) error {
	last := s.recorder().Seq()
	if err := s.closeEvents(context.WithoutCancel(ctx)); err != nil {
		s.c.log.Warn("some events of a session that is deleted were not delivered", "session", s.ID(), "error", err)
	}
	if err := s.useRecorder(s.c.cfg.Sinks, last); err != nil {
		return err
	}
	return s.observe(ctx, event.OpDelete, nil, s.remove)
}

func (s *Session) remove(ctx context.Context) error {
	after := context.WithoutCancel(ctx)
	if err := errors.Join(s.endCommands(after), s.endCell(after)); err != nil {
		return err
	}
	s.mu.Lock()
	s.running = false
	rec := s.rec
	s.mu.Unlock()
	if len(s.plan.kept.Mounts) > 0 {
		rec.Phase = state.Deleting
		if err := s.save(rec); err != nil {
			return err
		}
	}
	if released, err := s.releaseMounts(after); err != nil || !released {
		return err
	}
	s.releaseTree()
	var trashed string
	move := func(context.Context) (err error) {
		trashed, err = s.lock.Trash()
		return err
	}
	var err error
	if rec.RootOwned {
		err = s.step(after, StepRemoveRoot, move)
	} else {
		err = move(after)
	}
	if err != nil {
		return err
	}
	err = s.c.dir.SweepEntry(ctx, trashed, s.treeProgress("remove"))
	if err != nil && ctx.Err() != nil {
		s.c.sweep()
		return ctx.Err()
	}
	return first(err, ctx.Err())
}

// releaseMounts unmounts what the program has registered, deepest first, all of them
// whatever fails. It reports whether the workspace is free of them: a busy one keeps
// the session as it is, for the next Delete (case LC-060).
func (s *Session) releaseMounts(ctx context.Context) (bool, error) {
	mounts := s.plan.kept.Mounts
	if len(mounts) == 0 {
		return true, nil
	}
	t, err := s.treeForRelease()
	if err != nil {
		return false, err
	}
	released := true
	for _, name := range mounts {
		err := s.step(ctx, stepUnmount(name), func(ctx context.Context) error { return t.Unmount(ctx, name) })
		if err != nil && !errors.Is(err, fault.WorkspaceReadNotFound) {
			released = false
			s.c.log.Warn("a mount of a deleted session could not be released; the session is kept", "session", s.ID(), "mount", name, "error", err)
		}
	}
	return released, nil
}

// treeForRelease returns the workspace's tree, opened for this if it is not open.
func (s *Session) treeForRelease() (*root.Tree, error) {
	s.mu.Lock()
	t, place := s.tree, s.rec.Root
	s.mu.Unlock()
	if t != nil {
		return t, nil
	}
	if place == "" {
		place = s.lock.WorkspacePath()
	}
	if err := s.openTree(place); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree, nil
}

package croft

import (
	"context"
	"errors"
	"time"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/state"
)

// Start brings the session to life: it makes or finds the workspace, starts the
// warden, restores the workspace or applies the manifest where that is needed, and
// records that the session runs. Ephemeral entries are built anew at each Start.
//
// A workspace on disk wins: a snapshot is restored only where the workspace is
// missing or was never whole. Starting a running session applies the ephemeral
// entries again.
//
// If a step fails or ctx ends, what was begun is ended again, the workspace stays
// as far as it came, and the next Start makes it whole. The error is that of the
// step; where confinement cannot be had it is confinement_unavailable, and
// nothing weaker is used in its place.
func (s *Session) Start(ctx context.Context) error {
	leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if err := s.reopen(); err != nil {
		return err
	}
	return s.observe(ctx, event.OpStart, nil, s.bringUp)
}

func (s *Session) bringUp(ctx context.Context) error {
	wasRunning := s.Running()
	for _, st := range []struct {
		step Step
		take func(context.Context) error
	}{
		{StepEnsureBackend, s.ensureBackend},
		{StepPrepareWorkspace, s.prepareWorkspace},
		{StepEnsureHelpers, s.ensureHelpers},
		{StepFillWorkspace, s.fillWorkspace},
		{StepMarkRunning, s.markRunning},
	} {
		if err := s.step(ctx, st.step, st.take); err != nil {
			if wasRunning {
				return startError(err)
			}
			after := context.WithoutCancel(ctx)
			return startError(first(err, s.step(after, StepAfterFailedStart, s.afterFailedStart)))
		}
	}
	return nil
}

// startError gives an error of a start its code, if it has none. A cancellation
// stays one.
func startError(err error) error {
	if fault.CodeOf(err) != "" || fault.Canceled(err) {
		return err
	}
	return &fault.Error{Code: fault.WorkspaceStartError, Op: "start", Message: "the session could not be started", Err: err}
}

// fillWorkspace carries out what prepareWorkspace decided.
func (s *Session) fillWorkspace(ctx context.Context) error {
	for _, st := range s.start.Do() {
		var err error
		switch st {
		case state.ClearWorkspace:
			// Only a workspace of croft's own is ever cleared; prepareWorkspace or the
			// adoption of the restored one does it in one rename.
		case state.RestoreArchive:
			err = s.restore(ctx)
		case state.ApplyEphemeral:
			err = s.apply(ctx, true)
		case state.ApplyFull, state.ApplyFullWithAccounts:
			err = s.apply(ctx, false)
		case state.ProvisionAccounts:
			// Manifests with accounts are refused at Create until croft can make them.
		}
		if err != nil {
			return err
		}
	}
	return s.ensureCell(ctx)
}

// markRunning records that the workspace is whole and who runs it.
func (s *Session) markRunning(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	rec := s.rec
	rec.Phase, rec.RootReady, rec.Kept = state.Running, true, nil
	receipt := s.cell.Receipt()
	rec.SeenRoot, rec.Tier = s.cell.Root(), string(receipt.Tier)
	rec.Warden = state.ProcessOf(s.cell.Pid(), s.cell.StartTime())
	s.mu.Unlock()
	if err := s.save(rec); err != nil {
		return err
	}
	s.mu.Lock()
	s.running, s.whole = true, true
	s.mu.Unlock()
	return nil
}

// save replaces the record on disk, and then in memory.
func (s *Session) save(rec state.Record) error {
	if err := s.lock.Save(rec); err != nil {
		return err
	}
	s.mu.Lock()
	s.rec, s.unrecorded = rec, false
	s.mu.Unlock()
	return nil
}

// afterFailedStart ends what the failed start began.
func (s *Session) afterFailedStart(ctx context.Context) error {
	err := s.endCell(ctx)
	s.releaseTree()
	return err
}

// endCell ends the warden and everything in it.
func (s *Session) endCell(ctx context.Context) error {
	s.mu.Lock()
	cell := s.cell
	s.cell, s.env = nil, nil
	s.mu.Unlock()
	if cell == nil {
		return nil
	}
	return cell.Close(ctx)
}

// releaseTree closes the descriptors of the workspace. Operations under way end first.
func (s *Session) releaseTree() {
	s.mu.Lock()
	t := s.tree
	s.tree, s.whole = nil, false
	s.mu.Unlock()
	if t != nil {
		_ = t.Close() // descriptors opened for reading: nothing can be lost by a failed close
	}
}

// endProcesses ends every command, with all that they started.
func (s *Session) endProcesses(ctx context.Context) error {
	if err := s.endCommands(ctx); err != nil {
		return err
	}
	// The cell is the only thing that knows what left its parents and sessions behind,
	// so it ends with them; the next command gets a new one.
	return s.endCell(ctx)
}

// shutdownBackend ends the warden, if one still runs.
func (s *Session) shutdownBackend(ctx context.Context) error { return s.endCell(ctx) }

// markNotRunning records that nothing runs. Where the session is deleted next, the
// rename that takes it away records that better than a write just before it.
func (s *Session) markNotRunning(context.Context) error {
	s.mu.Lock()
	rec, lock, leaving := s.rec, s.lock, s.leaving
	s.running = false
	s.mu.Unlock()
	if lock == nil || leaving || rec.Phase == state.Created || rec.Phase == state.Stopped {
		return nil
	}
	rec.Phase, rec.Warden = state.Stopped, nil
	return s.save(rec)
}

// reopen takes a session that was closed again: its lock and its events.
func (s *Session) reopen() error {
	s.mu.Lock()
	held := s.lock != nil
	s.closer.finished, s.closer.unsaved = false, false
	s.mu.Unlock()
	if held {
		return nil
	}
	lock, err := s.c.dir.Lock(s.id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.lock = lock
	s.mu.Unlock()
	if err := first(s.openEvents(), s.c.hold(s)); err != nil {
		return errors.Join(err, s.letGo())
	}
	return nil
}

// flushTime bounds the wait for event deliveries at Close.
const flushTime = 10 * time.Second

// flushEvents waits until the events so far are delivered.
func (s *Session) flushEvents(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	return s.recorder().Flush(ctx)
}

package croft

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/root"
	"github.com/croftdev/croft/internal/state"
)

// openEvents makes the recorder of the session's events; its lock is held.
func (s *Session) openEvents() error {
	sinks, last := s.c.cfg.Sinks, uint64(0)
	if !s.c.cfg.NoEventLog {
		path := filepath.Join(s.lock.Path(), state.EventsName)
		var err error
		if last, err = event.LastSeq(path, s.ID()); err != nil {
			return err
		}
		sinks = append([]event.Sink{event.File(path, event.FileOptions{MaxSize: eventLogSize, MaxFiles: eventLogFiles})}, sinks...)
	}
	return s.useRecorder(sinks, last)
}

// The session's own event log is put aside when it has this size, and so many old
// files are kept.
const (
	eventLogSize  = 16 << 20
	eventLogFiles = 4
)

// useRecorder replaces the recorder, which was closed or never made.
func (s *Session) useRecorder(sinks []event.Sink, last uint64) error {
	rec, err := event.NewRecorder(event.Config{
		SessionID: s.ID(), Sinks: sinks, Policy: s.c.cfg.Payload, PolicyByOp: s.c.cfg.PayloadByOp, LastSeq: last, Logger: s.c.cfg.Logger,
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.events = rec
	s.mu.Unlock()
	return rec.Bind(eventWorkspace{s})
}

// recorder returns the session's recorder.
func (s *Session) recorder() *event.Recorder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

// closeEvents delivers what is pending and closes the sinks.
func (s *Session) closeEvents(ctx context.Context) error {
	rec := s.recorder()
	if rec == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	return rec.Close(ctx)
}

// eventWorkspace is what a sink may do with the session. Nothing done through it
// leaves an event.
type eventWorkspace struct{ s *Session }

// Running reports whether files can be written now: from the moment that the
// workspace is whole until it is let go, so that also the last events of a shutdown
// are written (case EV-097).
func (w eventWorkspace) Running() bool {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.tree != nil && w.s.whole
}

// AppendFile adds data to a file of the workspace.
func (w eventWorkspace) AppendFile(ctx context.Context, name string, data []byte) error {
	_, err := w.s.withTree(ctx, "append", "", func(ctx context.Context, t *root.Tree, _ *root.User) (event.Result, error) {
		_, err := t.AppendFile(ctx, name, bytes.NewReader(data), root.WriteOptions{})
		return event.Result{}, err
	})
	return err
}

// ExcludeFromSnapshots keeps the file out of every later save of this session.
func (w eventWorkspace) ExcludeFromSnapshots(name string) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if !slices.Contains(w.s.unsaved, name) {
		w.s.unsaved = append(w.s.unsaved, name)
	}
	return nil
}

// observe runs one operation between its start and its finish event. The finish
// event is written also when the operation failed or was cancelled. A sink that
// must not fail and fails at the start keeps the operation from running.
func (s *Session) observe(ctx context.Context, op event.Op, data []event.Field, do func(context.Context) error) error {
	return s.observeResult(ctx, op, data, func(ctx context.Context) (event.Result, error) {
		return event.Result{}, do(ctx)
	})
}

// observeResult is observe for an operation whose finish event says more.
func (s *Session) observeResult(ctx context.Context, op event.Op, data []event.Field, do func(context.Context) (event.Result, error)) error {
	span, err := s.recorder().Start(ctx, op, data...)
	if err != nil {
		return err
	}
	res, err := do(span.Context(ctx))
	return span.Finish(ctx, res, err)
}

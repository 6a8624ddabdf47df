package event_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
)

const workspaceFile = "logs/events-" + sessionID + ".jsonl"

func TestInWorkspace(t *testing.T) {
	type step struct {
		op      event.Op
		phase   event.Phase
		running bool
		want    []uint64
	}
	write := func(running bool, want ...uint64) step { return step{event.OpWrite, event.PhaseStart, running, want} }
	for _, tt := range []struct {
		name  string
		o     event.WorkspaceOptions
		file  string
		steps []step
		close []uint64 // the file after Close; nil: as after the last step
	}{
		{name: "one line a record (EV-088)", file: workspaceFile, steps: []step{write(true, 1), write(true, 1, 2)}},
		{name: "id without hyphens (EV-090)", o: event.WorkspaceOptions{File: "l/{session_id_hex}.jsonl"},
			file: "l/aaaaaaaaaaaa4aaa8aaaaaaaaaaaaaaa.jsonl", steps: []step{write(true, 1)}},
		{name: "id", o: event.WorkspaceOptions{File: "{session_id}/x"}, file: sessionID + "/x", steps: []step{write(true, 1)}},
		{name: "braces", o: event.WorkspaceOptions{File: "{{{session_id}}}"}, file: "{" + sessionID + "}", steps: []step{write(true, 1)}},
		{name: "a name that cannot be read is taken as it is", o: event.WorkspaceOptions{File: "{session_id}-{pid}"},
			file: "{session_id}-{pid}", steps: []step{write(true, 1)}},
		{name: "an open brace too", o: event.WorkspaceOptions{File: "{session_id}-{"}, file: "{session_id}-{", steps: []step{write(true, 1)}},
		{name: "kept until it runs (EV-093)", file: workspaceFile, steps: []step{write(false), write(false), write(true, 1, 2, 3)}},
		{name: "every third (EV-094)", o: event.WorkspaceOptions{FlushEvery: 3}, file: workspaceFile,
			steps: []step{write(true), write(true), write(true, 1, 2, 3), write(true, 1, 2, 3)}, close: []uint64{1, 2, 3, 4}},
		{name: "shutdown: at its start and at its end (EV-097)", o: event.WorkspaceOptions{FlushEvery: 10}, file: workspaceFile,
			steps: []step{write(true), {event.OpShutdown, event.PhaseStart, true, []uint64{1, 2}}, {event.OpShutdown, event.PhaseFinish, true, []uint64{1, 2, 3}}}},
		{name: "stop: at its start and at its end", o: event.WorkspaceOptions{FlushEvery: 10}, file: workspaceFile,
			steps: []step{{event.OpStop, event.PhaseStart, true, []uint64{1}}, {event.OpStop, event.PhaseFinish, true, []uint64{1, 2}}}},
		{name: "a save: at its start only", o: event.WorkspaceOptions{FlushEvery: 10}, file: workspaceFile,
			steps: []step{{event.OpPersistWorkspace, event.PhaseStart, true, []uint64{1}}, {event.OpPersistWorkspace, event.PhaseFinish, true, []uint64{1}}},
			close: []uint64{1, 2}},
		{name: "less than one is one (EV-098)", o: event.WorkspaceOptions{FlushEvery: -2}, file: workspaceFile, steps: []step{write(true, 1)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &workspace{}
			rec := newRecorder(t, event.Config{Sinks: []event.Sink{event.InWorkspace(tt.o)}})
			if err := rec.Bind(w); err != nil {
				t.Fatal(err)
			}
			for i, s := range tt.steps {
				w.setRunning(s.running)
				if err := rec.Emit(t.Context(), &event.Record{Op: s.op, Phase: s.phase}, nil); err != nil {
					t.Fatal(err)
				}
				if err := rec.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := seqs(t, w.file(tt.file)); !slices.Equal(got, s.want) {
					t.Errorf("after record %d: %v, want %v", i+1, got, s.want)
				}
				tt.close = longer(tt.close, s.want)
			}
			if err := rec.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := seqs(t, w.file(tt.file)); !slices.Equal(got, tt.close) {
				t.Errorf("after Close: %v, want %v", got, tt.close)
			}
			if len(w.files) != 1 || len(w.excluded) != 0 {
				t.Errorf("files %v, excluded %v", len(w.files), w.excluded)
			}
		})
	}
}

func longer(a, b []uint64) []uint64 {
	if len(a) >= len(b) {
		return a
	}
	return b
}

func TestInWorkspaceEphemeral(t *testing.T) {
	w := &workspace{running: true}
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{event.Chain(event.InWorkspace(event.WorkspaceOptions{Ephemeral: true}))}})
	if err := rec.Bind(w); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.excluded, []string{workspaceFile}) {
		t.Errorf("excluded = %v (EV-099)", w.excluded)
	}
}

func TestInWorkspaceUnbound(t *testing.T) {
	rec, err := event.NewRecorder(event.Config{SessionID: sessionID, Sinks: []event.Sink{
		event.InWorkspace(event.WorkspaceOptions{Delivery: event.Delivery{Mode: event.Sync, OnError: event.Raise}})}})
	if err != nil {
		t.Fatal(err)
	}
	if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
		t.Errorf("operation = %v", err)
	}
	if err := rec.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
}

// A session that is never started has no workspace to miss its records in.
func TestInWorkspaceNeverRan(t *testing.T) {
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{
		event.InWorkspace(event.WorkspaceOptions{Delivery: event.Delivery{Mode: event.Sync, OnError: event.Raise}})}})
	if err := rec.Bind(&workspace{}); err != nil {
		t.Fatal(err)
	}
	if err := op(t, rec, event.OpCreate, event.Result{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
}

// What the workspace did not take is offered again; what it never takes is told.
func TestInWorkspaceFailure(t *testing.T) {
	w := &workspace{running: true}
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{
		event.InWorkspace(event.WorkspaceOptions{Delivery: event.Delivery{Mode: event.Sync, OnError: event.Raise}})}})
	if err := rec.Bind(w); err != nil {
		t.Fatal(err)
	}
	emit := func() error {
		return rec.Emit(t.Context(), &event.Record{Op: event.OpWrite, Phase: event.PhaseStart}, nil)
	}
	w.fail(errSink)
	if err := emit(); !errors.Is(err, fault.EventSinkError) || !errors.Is(err, errSink) {
		t.Errorf("Emit = %v", err)
	}
	w.fail(nil)
	if err := emit(); err != nil {
		t.Fatal(err)
	}
	if got := seqs(t, w.file(workspaceFile)); !slices.Equal(got, upTo(2)) {
		t.Errorf("file = %v", got)
	}
	w.setRunning(false)
	if err := emit(); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(t.Context()); !errors.Is(err, fault.EventSinkError) {
		t.Errorf("Close = %v, want event_sink_error for the record that was lost", err)
	}
}

package croft_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croftdev/croft"
	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/policy"
	"github.com/croftdev/croft/snapshot"
)

// records reads a file of events.
func records(t *testing.T, path string) []*event.Record {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []*event.Record
	for line := range bytes.Lines(data) {
		r, err := event.Decode(line)
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out = append(out, r)
	}
	return out
}

// A session's own log numbers its records without a gap, also over a resume; every
// operation in it has its end, and a save within a stop names the stop as its parent.
func TestSessionEventLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	ctx := t.Context()
	c := openClient(t, croft.Config{Dir: dir})
	s, err := c.Create(ctx, croft.CreateOptions{
		Policy:   &policy.Policy{Tier: policy.None, Floor: policy.None},
		Snapshot: &snapshot.Spec{Type: snapshot.Tar, BasePath: t.TempDir()},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Start(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := s.WriteFile(ctx, "a", strings.NewReader("x"), croft.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.ReadFile(ctx, "none", croft.ReadOptions{}); !errors.Is(err, croft.WorkspaceReadNotFound) {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := s.Exec(gone, croft.Command{Argv: []string{"true"}}); !errors.Is(err, context.Canceled) {
			t.Fatalf("a cancelled Exec: %v", err)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if s, err = c.Resume(ctx, s.ID()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	open := map[string]*event.Record{}
	children := 0
	for i, r := range records(t, filepath.Join(dir, "sessions", s.ID(), "events.jsonl")) {
		if r.Seq != uint64(i)+1 {
			t.Fatalf("record %d has number %d", i+1, r.Seq)
		}
		if r.Phase == event.PhaseStart {
			open[r.SpanID] = r
			if parent := open[r.ParentSpanID]; r.Op == event.OpSnapshotPersist && parent != nil && parent.Op == event.OpStop {
				children++
			}
			continue
		}
		if open[r.SpanID] == nil || open[r.SpanID].Op != r.Op {
			t.Errorf("record %d ends an operation that did not begin: %s", r.Seq, r.Op)
		}
		delete(open, r.SpanID)
		if r.Op == event.OpExec && (r.OK || r.ErrorType != "cancelled") {
			t.Errorf("the end of a cancelled command: %+v", r)
		}
	}
	if len(open) > 0 {
		t.Errorf("operations without an end: %v", open)
	}
	if children < 2 {
		t.Errorf("%d saves name their stop, want one for each Close of a started session", children)
	}
}

// The events in the workspace reach to the end of the shutdown, and stay out of saves
// where they are ephemeral.
func TestEventsInWorkspace(t *testing.T) {
	ctx := t.Context()
	ws := t.TempDir()
	c := openClient(t, croft.Config{NoEventLog: true, Sinks: []event.Sink{
		event.InWorkspace(event.WorkspaceOptions{File: "e.jsonl", FlushEvery: 100, Ephemeral: true,
			Delivery: event.Delivery{Mode: event.Sync, OnError: event.Raise}}),
	}})
	s, err := c.Create(ctx, croft.CreateOptions{Root: ws, AllowHome: true, Policy: &policy.Policy{Tier: policy.None, Floor: policy.None}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WriteFile(ctx, "kept", strings.NewReader("x"), croft.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	if _, err := s.Persist(ctx, &saved); err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(&saved); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, strings.TrimPrefix(h.Name, "./"))
	}
	if all := strings.Join(names, " "); !strings.Contains(all, "kept") || strings.Contains(all, "e.jsonl") {
		t.Errorf("the save holds %v", names)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	got := records(t, filepath.Join(ws, "e.jsonl"))
	last := got[len(got)-1]
	if last.Op != event.OpShutdown || last.Phase != event.PhaseFinish || last.Seq != uint64(len(got)) {
		t.Errorf("the last of %d records is %d: %s %s", len(got), last.Seq, last.Op, last.Phase)
	}
}

// The deletion of a session that nobody holds goes on counting for the program's sinks.
func TestDeleteGoesOnCounting(t *testing.T) {
	ctx := t.Context()
	var last event.Record
	c := openClient(t, croft.Config{Sinks: []event.Sink{
		event.Callback(func(_ context.Context, r event.Record, _ event.Workspace) error { last = r; return nil }, event.Delivery{}),
	}})
	s, err := c.Create(ctx, croft.CreateOptions{Policy: &policy.Policy{Tier: policy.None, Floor: policy.None}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	before := last.Seq
	if err := c.Delete(ctx, s.ID()); err != nil {
		t.Fatal(err)
	}
	if last.Op != event.OpDelete || last.Phase != event.PhaseFinish || last.Seq != before+2 {
		t.Errorf("the last record is %d (%s %s), want %d", last.Seq, last.Op, last.Phase, before+2)
	}
}

package croft_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croftdev/croft"
	"github.com/croftdev/croft/snapshot"
)

// TestRestoreCutShort: a start that fails, or is killed, between making a missing
// workspace's directory and filling it must not leave an empty directory that the next start
// takes for the workspace: its save would replace the snapshot, the last copy.
func TestRestoreCutShort(t *testing.T) {
	for _, callers := range []bool{false, true} {
		name := "owned"
		if callers {
			name = "caller's root"
		}
		t.Run(name, func(t *testing.T) { testRestoreCutShort(t, callers) })
	}
}

func testRestoreCutShort(t *testing.T, callers bool) {
	errCut := errors.New("cut short")
	var cut bool
	dir := filepath.Join(t.TempDir(), "state")
	c := openClient(t, croft.Config{Dir: dir, OnStep: func(_ context.Context, _ string, st croft.Step) error {
		if cut && st == croft.StepFillWorkspace {
			return errCut
		}
		return nil
	}})
	opts := croft.CreateOptions{Snapshot: &snapshot.Spec{Type: snapshot.Tar}}
	if callers {
		opts.Root = filepath.Join(t.TempDir(), "root")
	}
	s := started(t, c, opts)
	place := s.HostRoot()
	if _, err := s.WriteFile(t.Context(), "work", strings.NewReader("w"), croft.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(place); err != nil {
		t.Fatal(err)
	}
	resume := func() *croft.Session {
		t.Helper()
		s, err := c.Resume(t.Context(), s.ID())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	cut = true
	s = resume()
	if err := s.Start(t.Context()); !errors.Is(err, errCut) {
		t.Fatalf("Start: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	cut = false
	s = resume()
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ReadFile(t.Context(), "work", croft.ReadOptions{}); err != nil || string(got) != "w" {
		t.Errorf("after a restore that was cut short: %q, %v", got, err)
	}
	if err := c.Delete(t.Context(), s.ID()); err != nil {
		t.Error(err)
	}
}

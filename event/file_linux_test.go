package event_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
)

// On a full disk no half line stays, nothing that was written is lost, and what
// waits is written once there is room.
func TestFileDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("needs root with the right to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "e.jsonl")
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 40<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []event.Mode{event.Sync, event.Async} {
		t.Run(string(mode), func(t *testing.T) {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filler, make([]byte, 40<<10), 0o600); err != nil {
				t.Fatal(err)
			}
			rec := newRecorder(t, event.Config{Sinks: []event.Sink{
				event.File(path, event.FileOptions{Delivery: event.Delivery{Mode: mode, OnError: event.Raise}})}})
			var good []uint64
			failed := 0
			for range 100 {
				for _, p := range []event.Phase{event.PhaseStart, event.PhaseFinish} {
					r := &event.Record{Op: event.OpRead, Phase: p}
					if err := rec.Emit(t.Context(), r, nil); err == nil {
						good = append(good, r.Seq)
					} else if failed++; !errors.Is(err, unix.ENOSPC) || !errors.Is(err, fault.EventSinkError) {
						t.Fatal(err)
					}
				}
				if err := rec.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if (failed > 0) != (mode == event.Sync) {
				t.Errorf("%d records failed in the operation", failed)
			}
			full := seqs(t, readFile(t, path))
			if len(full) == 0 || len(full) == 200 {
				t.Fatalf("the disk was not full: %d records are in the file", len(full))
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			if mode == event.Async {
				good = upTo(200)
			}
			err := rec.Close(t.Context())
			if (mode == event.Async) != errors.Is(err, unix.ENOSPC) {
				t.Errorf("Close = %v", err)
			}
			if got := seqs(t, readFile(t, path)); !slices.Equal(got, good) {
				t.Errorf("file has %v, want %v", got, good)
			}
		})
	}
}

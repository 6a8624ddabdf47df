//go:build linux

package tree_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/tree"
)

// many makes dirs directories with files files each.
func many(t testing.TB, dir string, dirs, files int) {
	t.Helper()
	for i := range dirs {
		d := filepath.Join(dir, "d"+strconv.Itoa(i%10), strconv.Itoa(i))
		must(t, os.MkdirAll(d, 0o755))
		for j := range files {
			must(t, os.WriteFile(filepath.Join(d, "f"+strconv.Itoa(j)), []byte("some content\n"), 0o644))
		}
	}
}

// working reports whether a goroutine of package tree runs.
func working() bool {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for g := range strings.SplitSeq(string(buf), "\n\n") {
		if strings.Contains(g, "internal/tree.(*") {
			return true
		}
	}
	return false
}

func TestCancelled(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  func(ctx context.Context, t *testing.T, dir string, o tree.Options) error
	}{
		{"walk", func(ctx context.Context, t *testing.T, dir string, o tree.Options) error {
			return tree.Walk(ctx, openDir(t, dir), o, func(*tree.Entry) error { return nil })
		}},
		{"ordered", func(ctx context.Context, t *testing.T, dir string, o tree.Options) error {
			return tree.Ordered(ctx, openDir(t, dir), o, func(*tree.Entry) error { return nil })
		}},
		{"remove", func(ctx context.Context, t *testing.T, dir string, o tree.Options) error {
			_, err := tree.Remove(ctx, openDir(t, filepath.Dir(dir)), filepath.Base(dir), tree.RemoveOptions{Options: o})
			return err
		}},
		{"copy", func(ctx context.Context, t *testing.T, dir string, o tree.Options) error {
			_, err := tree.Copy(ctx, openDir(t, dir), openDir(t, t.TempDir()), tree.CopyOptions{Options: o})
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir() + "/ws"
			many(t, dir, 100, 8)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// Skip is called for each entry: cancel in the middle.
			var seen atomic.Int64
			o := tree.Options{Skip: func(string) bool {
				if seen.Add(1) == 200 {
					cancel()
				}
				return false
			}}
			err := tt.run(ctx, t, dir, o)
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("error = %v", err)
			}
			if working() {
				t.Error("a worker still runs after the call")
			}
			at := seen.Load()
			if at >= 800 {
				t.Errorf("not stopped early: %d entries", at)
			}
			first := len(describe(t, dir))
			if first == 0 || len(describe(t, dir)) != first || seen.Load() != at {
				t.Error("the tree changed after the call")
			}
		})
	}
}

func TestCancelledInALargeFile(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	f, err := os.Create(src + "/big")
	must(t, err)
	// Data and no hole, so that there is something to copy.
	must(t, unix.Fallocate(int(f.Fd()), 0, 0, 256<<20))
	f.Close()
	for _, digest := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		opts := tree.CopyOptions{Replace: true, Options: tree.Options{Progress: func(p tree.Progress) {
			if p.Bytes > 0 {
				cancel()
			}
		}}}
		if digest {
			opts.Done = func(tree.Copied) {}
		}
		_, err := tree.Copy(ctx, openDir(t, src), openDir(t, dst), opts)
		if err == nil {
			continue // the file system shares extents: nothing to wait for
		}
		if !errors.Is(err, context.Canceled) || working() {
			t.Errorf("error = %v", err)
		}
		cancel()
	}
}

func TestLargeFilesAreCutButNotTheirOtherNames(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for _, p := range []string{dir + "/own", outside + "/shared"} {
		f, err := os.Create(p)
		must(t, err)
		must(t, f.Truncate(1<<30))
		f.Close()
	}
	must(t, os.Link(outside+"/shared", dir+"/shared"))
	_, err := tree.RemoveContents(t.Context(), openDir(t, dir), tree.RemoveOptions{})
	must(t, err)
	if fi, err := os.Stat(outside + "/shared"); err != nil || fi.Size() != 1<<30 {
		t.Errorf("the file outside: %v, %v", fi, err)
	}
	if l, _ := os.ReadDir(dir); len(l) != 0 {
		t.Errorf("left: %v", l)
	}
}

func TestThreadRunsEveryWorker(t *testing.T) {
	dir := t.TempDir()
	many(t, dir, 20, 5)
	var running, calls atomic.Int64
	o := tree.Options{Workers: 3, Thread: func(run func()) {
		calls.Add(1)
		running.Add(1)
		defer running.Add(-1)
		run()
	}}
	check := func(e *tree.Entry) error {
		if running.Load() == 0 {
			t.Error("an entry outside the thread")
		}
		return nil
	}
	must(t, tree.Walk(t.Context(), openDir(t, dir), o, check))
	if calls.Load() < 3 || running.Load() != 0 {
		t.Errorf("calls %d, running %d", calls.Load(), running.Load())
	}
	must(t, tree.Ordered(t.Context(), openDir(t, dir), o, check))
	_, err := tree.RemoveContents(t.Context(), openDir(t, dir), tree.RemoveOptions{Options: o})
	must(t, err)
	if running.Load() != 0 {
		t.Error("a worker still runs")
	}
}

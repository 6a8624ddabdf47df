package event_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
)

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return b
}

func upTo(n uint64) []uint64 {
	var s []uint64
	for i := uint64(1); i <= n; i++ {
		s = append(s, i)
	}
	return s
}

func TestFileDefaults(t *testing.T) {
	d := event.File("x", event.FileOptions{}).Delivery()
	if d.Mode != event.BestEffort || d.OnError != event.Log || d.Name != "file" {
		t.Errorf("Delivery = %+v (EV-101)", d)
	}
}

func TestFile(t *testing.T) {
	for _, mode := range []event.Mode{event.Sync, event.Async, event.BestEffort} {
		t.Run(string(mode), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "new", "dir", "e.jsonl")
			rec := newRecorder(t, event.Config{Sinks: []event.Sink{event.File(path, event.FileOptions{Delivery: event.Delivery{Mode: mode}})}})
			for i := range 3 {
				if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
					t.Fatal(err)
				}
				if mode != event.Sync {
					if err := rec.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if got := seqs(t, readFile(t, path)); !slices.Equal(got, upTo(uint64(i+1)*2)) {
					t.Errorf("after %d operations the file has %v", i+1, got)
				}
			}
			if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
				t.Fatal(err)
			}
			if err := rec.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := seqs(t, readFile(t, path)); !slices.Equal(got, upTo(8)) {
				t.Errorf("after Close the file has %v", got)
			}
			for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): fs.ModeDir | 0o700} {
				if st, err := os.Stat(name); err != nil || st.Mode() != want {
					t.Errorf("%s: %v, %v, want mode %v", name, st.Mode(), err, want)
				}
			}
		})
	}
}

// Without Flush or Close, records reach the file by themselves, also once a file
// that could not be written can be. The clock is that of the bubble.
func TestFileWritesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "e.jsonl")
		var log bytes.Buffer
		rec := newRecorder(t, event.Config{Sinks: []event.Sink{event.File(path, event.FileOptions{})},
			Logger: slog.New(slog.NewTextHandler(&log, nil))})
		again := func(want uint64) {
			t.Helper()
			if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's clock: no time passes
			synctest.Wait()
			if got := seqs(t, readFile(t, path)); !slices.Equal(got, upTo(want)) {
				t.Errorf("file has %v, want %d records", got, want)
			}
		}
		again(2)
		if err := os.Rename(path, path+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's clock: no time passes
		synctest.Wait()
		if got := bytes.Count(log.Bytes(), []byte{'\n'}); got != 1 {
			t.Errorf("%d lines of log, want one for a file that stays broken:\n%s", got, log.String())
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".old", path); err != nil {
			t.Fatal(err)
		}
		again(6)
		if err := rec.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func TestFileManyWriters(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "e.jsonl")
	const recorders, callers, ops = 3, 4, 200
	var wg sync.WaitGroup
	for i := range recorders {
		mode := []event.Mode{event.Sync, event.Async, event.BestEffort}[i]
		id := fmt.Sprintf("aaaaaaaa-aaaa-4aaa-8aaa-%012d", i)
		rec := newRecorder(t, event.Config{SessionID: id, Sinks: []event.Sink{
			event.File(path, event.FileOptions{MaxSize: 20000, Delivery: event.Delivery{Mode: mode, OnError: event.Raise}})}})
		wg.Go(func() {
			var inner sync.WaitGroup
			for range callers {
				inner.Go(func() {
					for range ops {
						if err := op(t, rec, event.OpRead, event.Result{}, nil, event.String("path", "x")); err != nil {
							t.Error(err)
						}
					}
				})
			}
			inner.Wait()
			if err := rec.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]map[uint64]int{}
	for _, e := range entries {
		b := readFile(t, filepath.Join(dir, e.Name()))
		if len(b) > 20000 {
			t.Errorf("%s has %d bytes, more than 20000", e.Name(), len(b))
		}
		for _, r := range decodeAll(t, b) {
			if count[r.SessionID] == nil {
				count[r.SessionID] = map[uint64]int{}
			}
			count[r.SessionID][r.Seq]++
		}
	}
	if len(entries) < 10 || len(count) != recorders {
		t.Errorf("%d files, %d sessions", len(entries), len(count))
	}
	for id, m := range count {
		for _, seq := range upTo(2 * callers * ops) {
			if m[seq] != 1 {
				t.Errorf("record %d of %s is there %d times", seq, id, m[seq])
			}
		}
	}
}

func TestFileRotation(t *testing.T) {
	for _, tt := range []struct {
		name     string
		mode     event.Mode
		size     int64
		files    int
		records  int
		complete bool
	}{
		{"one line each, as no file is large enough for one", event.Sync, 1, 0, 6, true},
		{"several lines each", event.Sync, 1000, 0, 20, true},
		{"one batch over many files", event.BestEffort, 1000, 0, 200, true},
		{"the oldest go", event.Sync, 1000, 2, 40, false},
		{"the oldest go, in a batch", event.BestEffort, 1000, 2, 200, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "e.jsonl")
			for _, other := range []string{path + ".bak", path + ".01", path + ".-3", filepath.Join(dir, "f.jsonl.1")} {
				if err := os.WriteFile(other, []byte("not ours"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			sink := event.File(path, event.FileOptions{MaxSize: tt.size, MaxFiles: tt.files, Delivery: event.Delivery{Mode: tt.mode, OnError: event.Raise}})
			rec := newRecorder(t, event.Config{Sinks: []event.Sink{sink}})
			for range tt.records / 2 {
				if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := rec.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			var numbers []int
			matches, err := filepath.Glob(path + ".*")
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range matches {
				if n, err := strconv.Atoi(strings.TrimPrefix(m, path+".")); err == nil && n > 0 && !strings.HasSuffix(m, ".01") {
					numbers = append(numbers, n)
				}
			}
			slices.Sort(numbers)
			if tt.files > 0 && len(numbers) != tt.files {
				t.Errorf("%d files put aside, want %d", len(numbers), tt.files)
			}
			var all []uint64
			for _, n := range numbers {
				b := readFile(t, fmt.Sprintf("%s.%d", path, n))
				if int64(len(b)) > tt.size && bytes.Count(b, []byte{'\n'}) > 1 {
					t.Errorf("file %d has %d bytes", n, len(b))
				}
				all = append(all, seqs(t, b)...)
			}
			all = append(all, seqs(t, readFile(t, path))...)
			want := upTo(uint64(tt.records))
			if !tt.complete && len(all) > 0 {
				want = want[len(want)-len(all):]
			}
			if len(all) == 0 || !slices.Equal(all, want) {
				t.Errorf("records = %v, want %v", all, want)
			}
			if string(readFile(t, path+".bak")) != "not ours" || string(readFile(t, path+".01")) != "not ours" {
				t.Error("a file that is none of the journal's was touched")
			}
		})
	}
}

// A line that lacks its end, as a killed writer leaves it, does not swallow the
// next record.
func TestFileMendsATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.jsonl")
	if err := os.WriteFile(path, []byte(`{"data":{`), 0o600); err != nil {
		t.Fatal(err)
	}
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{event.File(path, event.FileOptions{Delivery: event.Delivery{Mode: event.Sync}})}})
	if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	torn, rest, _ := bytes.Cut(readFile(t, path), []byte{'\n'})
	if string(torn) != `{"data":{` || !slices.Equal(seqs(t, rest), upTo(2)) {
		t.Errorf("file = %q", readFile(t, path))
	}
	if last, err := event.LastSeq(path, sessionID); err != nil || last != 2 {
		t.Errorf("LastSeq = %d, %v, want 2", last, err)
	}
}

// What is at the path decides by the sink's policies, and hangs nobody.
func TestFileThatCannotBeWritten(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string) error
		is   error // nil: any cause
	}{
		{"a directory", func(_ *testing.T, path string) error { return os.Mkdir(path, 0o700) }, unix.EISDIR},
		{"a link, even to a file", func(t *testing.T, path string) error {
			target := filepath.Join(t.TempDir(), "target")
			if err := os.WriteFile(target, nil, 0o600); err != nil {
				return err
			}
			t.Cleanup(func() {
				if b := readFile(t, target); len(b) > 0 {
					t.Errorf("the link's target was written: %q", b)
				}
			})
			return os.Symlink(target, path)
		}, unix.ELOOP},
		{"a fifo", func(_ *testing.T, path string) error { return unix.Mkfifo(path, 0o600) }, nil},
		{"a file above it", func(_ *testing.T, path string) error {
			return os.WriteFile(filepath.Dir(path), nil, 0o600)
		}, unix.ENOTDIR},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, d := range []event.Delivery{
				{Mode: event.Sync, OnError: event.Raise}, {Mode: event.Sync, OnError: event.Log},
				{Mode: event.Async, OnError: event.Raise}, {}, {OnError: event.Ignore},
			} {
				path := filepath.Join(t.TempDir(), "d", "e.jsonl")
				above := filepath.Dir(path)
				if tt.is != unix.ENOTDIR {
					if err := os.Mkdir(above, 0o700); err != nil {
						t.Fatal(err)
					}
				}
				if err := tt.make(t, path); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				rec := newRecorder(t, event.Config{Sinks: []event.Sink{event.File(path, event.FileOptions{Delivery: d})},
					Logger: slog.New(slog.NewTextHandler(&log, nil))})
				err := op(t, rec, event.OpRead, event.Result{}, nil)
				raised := func(err error) bool {
					return errors.Is(err, fault.EventSinkError) && (tt.is == nil || errors.Is(err, tt.is))
				}
				if raised(err) != (d.Mode == event.Sync && d.OnError == event.Raise) {
					t.Errorf("%+v: operation = %v", d, err)
				}
				err = rec.Close(t.Context())
				if raised(err) != (d.Mode == event.Async) {
					t.Errorf("%+v: Close = %v", d, err)
				}
				if want := d.OnError == event.Log || d.OnError == "" && d.Mode == ""; (log.Len() > 0) != want {
					t.Errorf("%+v: log = %q", d, log.String())
				}
			}
		})
	}
}

func TestFileThatWasMovedAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e.jsonl")
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{event.File(path, event.FileOptions{Delivery: event.Delivery{Mode: event.Sync}})}})
	for range 2 {
		if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path, path+".moved"); err != nil {
			t.Fatal(err)
		}
	}
	if got := seqs(t, readFile(t, path+".moved")); !slices.Equal(got, []uint64{3, 4}) {
		t.Errorf("moved file has %v, want the records after the first move", got)
	}
	if err := rec.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLastSeq(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "e.jsonl")
	check := func(want uint64) {
		t.Helper()
		if got, err := event.LastSeq(path, sessionID); err != nil || got != want {
			t.Errorf("LastSeq = %d, %v, want %d", got, err, want)
		}
	}
	check(0)
	path = filepath.Join(dir, "none", "e.jsonl")
	check(0)
	path = filepath.Join(dir, "e.jsonl")
	for _, id := range []string{sessionID, "bbbbbbbb-aaaa-4aaa-8aaa-aaaaaaaaaaaa"} {
		rec := newRecorder(t, event.Config{SessionID: id, LastSeq: 6, Sinks: []event.Sink{event.File(path, event.FileOptions{})}})
		for range 2 {
			if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := rec.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check(10)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	long := append(bytes.Repeat([]byte{'x'}, 100<<10), '\n') // a line that fills the first look
	if _, err := f.Write(long); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	check(10)
	if err := os.Rename(path, path+".12"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".3", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check(10)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := event.LastSeq(path, sessionID); !errors.Is(err, fault.EventSinkError) {
		t.Errorf("LastSeq of a fifo = %v, want event_sink_error", err)
	}
}

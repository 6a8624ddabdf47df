package snapshot_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/snapshot"
)

func open(t *testing.T, spec snapshot.Spec) snapshot.Store {
	t.Helper()
	st, err := snapshot.Open(spec)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func tarIn(t *testing.T, dir string) snapshot.Store {
	t.Helper()
	return open(t, snapshot.Spec{Type: snapshot.Tar, ID: "s", BasePath: dir})
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func content(t *testing.T, st snapshot.Store) string {
	t.Helper()
	r, err := st.Restore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestTarReplacesWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	st := tarIn(t, dir)
	if is, err := st.Restorable(t.Context()); is || err != nil {
		t.Errorf("Restorable before a save = %v, %v", is, err)
	}
	if err := st.Persist(t.Context(), text("one")); err != nil {
		t.Fatal(err)
	}
	old, err := st.Restore(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := st.Persist(t.Context(), text("two")); err != nil {
		t.Fatal(err)
	}
	if data, _ := io.ReadAll(old); string(data) != "one" {
		t.Errorf("an open restore gives %q after another save, want one", data)
	}
	if got := content(t, st); got != "two" {
		t.Errorf("content = %q, want two", got)
	}
	if got := list(t, dir); !slices.Equal(got, []string{"s.tar"}) {
		t.Errorf("files = %q", got)
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the directory's mode is %v, %v, want 0700", fi.Mode(), err)
	}
	for range 2 {
		if err := st.Remove(t.Context()); err != nil {
			t.Errorf("Remove = %v", err)
		}
	}
	if got := list(t, dir); len(got) > 0 {
		t.Errorf("files after Remove = %q", got)
	}
}

func TestTarFailedSaveChangesNothing(t *testing.T) {
	broken := errors.New("pack broke")
	for _, tt := range []struct {
		name string
		pack func(cancel func()) func(io.Writer) error
		want error
	}{
		{"pack fails", func(func()) func(io.Writer) error {
			return func(w io.Writer) error { io.WriteString(w, "half"); return broken }
		}, broken},
		{"cancelled in the middle", func(cancel func()) func(io.Writer) error {
			return func(w io.Writer) error { cancel(); return text("half")(w) }
		}, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			st := tarIn(t, dir)
			if err := st.Persist(t.Context(), text("old")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			err := st.Persist(ctx, tt.pack(cancel))
			if !errors.Is(err, tt.want) {
				t.Errorf("Persist = %v, want %v", err, tt.want)
			}
			if is := errors.Is(err, fault.SnapshotPersistError); is != (tt.want == broken) {
				t.Errorf("Persist = %v: is snapshot_persist_error: %v", err, is)
			}
			if got := content(t, st); got != "old" {
				t.Errorf("content = %q, want old", got)
			}
			if got := list(t, dir); !slices.Equal(got, []string{"s.tar"}) {
				t.Errorf("files = %q", got)
			}
		})
	}
}

func TestTarErrors(t *testing.T) {
	dir := t.TempDir()
	st := tarIn(t, filepath.Join(dir, "missing"))
	if _, err := st.Restore(t.Context()); !errors.Is(err, fault.SnapshotRestoreError) {
		t.Errorf("Restore of nothing = %v", err)
	}
	if err := st.Remove(t.Context()); err != nil {
		t.Errorf("Remove of nothing = %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	below := tarIn(t, filepath.Join(dir, "file"))
	if err := below.Persist(t.Context(), text("x")); !errors.Is(err, fault.SnapshotPersistError) {
		t.Errorf("Persist below a file = %v", err)
	}
	long := open(t, snapshot.Spec{Type: snapshot.Tar, ID: strings.Repeat("x", 300), BasePath: dir})
	if err := long.Persist(t.Context(), text("x")); !errors.Is(err, fault.SnapshotPersistError) {
		t.Errorf("Persist with a name too long = %v", err)
	}
	if got := list(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("files = %q", got)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		spec snapshot.Spec
		want fault.Code
	}{
		{"remote", snapshot.Spec{Type: snapshot.Remote, ID: "i"}, fault.Unsupported},
		{"unknown", snapshot.Spec{Type: "zip", ID: "i"}, fault.InvalidArgument},
		{"zero", snapshot.Spec{}, fault.InvalidArgument},
		{"no directory", snapshot.Spec{Type: snapshot.Tar, ID: "i"}, fault.InvalidArgument},
		{"escaping id", snapshot.Spec{Type: snapshot.Tar, ID: "../i", BasePath: "/s"}, fault.InvalidArgument},
	} {
		if _, err := snapshot.Open(tt.spec); !errors.Is(err, tt.want) {
			t.Errorf("%s: Open = %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestFileName(t *testing.T) {
	for _, id := range []string{"snap-1", "a..", "..a", "...", "é", " ", "a:b:c", "nul", ".tar"} {
		if name, err := snapshot.FileName(id); err != nil && id != "a:b:c" || err == nil && name != id+".tar" {
			t.Errorf("FileName(%q) = %q, %v", id, name, err)
		}
	}
	for _, id := range []string{"", ".", "..", "/", "/abs", "a/", `\`, `a\`, "C:x", "c:", "a\x00b", "../x", "a/../b"} {
		if name, err := snapshot.FileName(id); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("FileName(%q) = %q, %v, want invalid_argument", id, name, err)
		}
	}
}

func TestRemoveStaleKeepsWhatIsInUse(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for _, f := range []struct {
		name string
		age  time.Duration
	}{{"old.tar", snapshot.MaxAge + time.Minute}, {"used.tar", snapshot.MaxAge + time.Minute}, {"young.tar", snapshot.MaxAge - time.Minute}} {
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now.Add(-f.age), now.Add(-f.age)); err != nil {
			t.Fatal(err)
		}
	}
	n, err := snapshot.RemoveStale(t.Context(), dir, snapshot.MaxAge, now, func(id string) bool { return id == "used" })
	if n != 1 || err != nil {
		t.Errorf("RemoveStale = %d, %v, want 1", n, err)
	}
	if got := list(t, dir); !slices.Equal(got, []string{"used.tar", "young.tar"}) {
		t.Errorf("left = %q", got)
	}
	if n, err := snapshot.RemoveStale(t.Context(), filepath.Join(dir, "missing"), 0, now, nil); n != 0 || err != nil {
		t.Errorf("RemoveStale of no directory = %d, %v", n, err)
	}
}

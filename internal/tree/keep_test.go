//go:build linux

package tree_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/croftdev/croft/internal/tree"
)

// An entry that is to stay is known by what it is and not by its name.
func TestRemoveKeepsByIdentity(t *testing.T) {
	top := t.TempDir()
	for _, d := range []string{"x/a/kept/in", "x/b/c"} {
		must(t, os.MkdirAll(filepath.Join(top, d), 0o755))
	}
	for _, f := range []string{"x/a/kept/in/f", "x/b/keptfile", "x/b/c/gone", "x/a/gone"} {
		must(t, os.WriteFile(filepath.Join(top, f), []byte("t"), 0o644))
	}
	want := map[uint64]bool{}
	for _, f := range []string{"x/a/kept", "x/b/keptfile"} {
		var st syscall.Stat_t
		must(t, syscall.Stat(filepath.Join(top, f), &st))
		want[st.Ino] = true
	}
	must(t, os.Rename(filepath.Join(top, "x/a/kept"), filepath.Join(top, "x/a/renamed")))
	parent := openDir(t, top)
	_, err := tree.Remove(t.Context(), parent, "x", tree.RemoveOptions{Keep: func(_, ino uint64) bool { return want[ino] }})
	if re, ok := errors.AsType[*tree.RemoveError](err); !ok || re.Count != 2 || !errors.Is(err, tree.ErrKept) {
		t.Fatalf("Remove error = %v, want two entries kept", err)
	}
	for name, there := range map[string]bool{
		"x/a/renamed/in/f": true, "x/b/keptfile": true, "x/b/c": false, "x/a/gone": false,
	} {
		if _, err := os.Lstat(filepath.Join(top, name)); (err == nil) != there {
			t.Errorf("%s: there = %v, want %v", name, err == nil, there)
		}
	}
}

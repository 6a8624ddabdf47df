//go:build linux

package tree_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/tree"
)

func openDir(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plant makes a small tree with every kind of entry that is kept.
func plant(t testing.TB, dir string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755))
	must(t, os.MkdirAll(filepath.Join(dir, "empty"), 0o750))
	must(t, os.MkdirAll(filepath.Join(dir, "ro"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "a/x"), []byte("x"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "a/b/run"), []byte("#!"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "a/b/c/secret"), []byte("s"), 0o400))
	must(t, os.WriteFile(filepath.Join(dir, "ro/f"), make([]byte, 300<<10), 0o444))
	must(t, os.WriteFile(filepath.Join(dir, "odd\xff\n name"), nil, 0o600))
	must(t, os.Link(filepath.Join(dir, "a/x"), filepath.Join(dir, "a/b/x2")))
	must(t, os.Symlink("../x", filepath.Join(dir, "a/b/rel")))
	must(t, os.Symlink("/usr/bin/python3", filepath.Join(dir, "python")))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	must(t, os.Chtimes(filepath.Join(dir, "a/x"), time.Time{}, time.Unix(1e9, 123456789)))
	must(t, os.Chmod(filepath.Join(dir, "ro"), 0o555))
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "ro"), 0o755) })
	must(t, os.Chtimes(filepath.Join(dir, "a/b"), time.Time{}, time.Unix(1e9+5, 5)))
}

// describe lists a tree, one line an entry, with all that a copy keeps.
func describe(t testing.TB, dir string) []string {
	t.Helper()
	var lines []string
	links := map[uint64]string{}
	err := tree.Ordered(t.Context(), openDir(t, dir), tree.Options{}, func(e *tree.Entry) error {
		if e.Err != nil {
			return e.Err
		}
		l := fmt.Sprintf("%q %v %04o %d", e.Rel(), e.Kind, e.Mode, e.MTime.UnixNano())
		switch e.Kind {
		case tree.File:
			if e.Nlink > 1 {
				if first, ok := links[e.Ino]; ok {
					l += " = " + first
				} else {
					links[e.Ino] = e.Rel()
				}
			}
			b, err := os.ReadFile(filepath.Join(dir, e.Rel()))
			if err != nil && os.Getuid() == 0 {
				return err
			}
			l += fmt.Sprintf(" %d %x", e.Size, b[:min(len(b), 16)])
		case tree.Symlink:
			target, err := e.Readlink()
			if err != nil {
				return err
			}
			l += " -> " + target
		}
		lines = append(lines, l)
		return nil
	})
	must(t, err)
	return lines
}

func TestWalkSeesEverything(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir)
	must(t, unix.Mkfifo(filepath.Join(dir, "a/fifo"), 0o600))
	var want []string
	must(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, p); rel != "." {
			want = append(want, rel)
		}
		return err
	}))
	var mu sync.Mutex
	var got []string
	must(t, tree.Walk(t.Context(), openDir(t, dir), tree.Options{}, func(e *tree.Entry) error {
		mu.Lock()
		got = append(got, e.Rel())
		mu.Unlock()
		return e.Err
	}))
	sort.Strings(got)
	sort.Strings(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestWalkStops(t *testing.T) {
	dir := t.TempDir()
	plant(t, dir)
	mine := errors.New("mine")
	skipped := func(fn func(context.Context, *os.File, tree.Options, func(*tree.Entry) error) error) {
		var seen []string
		var mu sync.Mutex
		must(t, fn(t.Context(), openDir(t, dir), tree.Options{Skip: func(rel string) bool { return rel == "ro" }}, func(e *tree.Entry) error {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, e.Rel())
			if e.Rel() == "a/b" {
				return fs.SkipDir
			}
			return nil
		}))
		for _, s := range seen {
			if strings.HasPrefix(s, "a/b/") || strings.HasPrefix(s, "ro") {
				t.Errorf("seen %q", s)
			}
		}
		err := fn(t.Context(), openDir(t, dir), tree.Options{}, func(e *tree.Entry) error {
			if e.Kind == tree.File {
				return mine
			}
			return nil
		})
		if err != mine {
			t.Errorf("error = %v, want the function's own", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := fn(ctx, openDir(t, dir), tree.Options{}, func(*tree.Entry) error { return nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
	skipped(tree.Walk)
	skipped(tree.Ordered)
}

func TestOrderedOrder(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"b/z", "b/a/q", "a-", "a/k", "B"} {
		must(t, os.MkdirAll(filepath.Join(dir, n), 0o755))
	}
	var got []string
	must(t, tree.Ordered(t.Context(), openDir(t, dir), tree.Options{}, func(e *tree.Entry) error {
		got = append(got, e.Rel())
		return nil
	}))
	want := []string{"B", "a", "a/k", "a-", "b", "b/a", "b/a/q", "b/z"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCopyKeeps(t *testing.T) {
	for _, done := range []bool{false, true} {
		t.Run(fmt.Sprint("digests=", done), func(t *testing.T) {
			src, dst := t.TempDir(), t.TempDir()
			plant(t, src)
			must(t, unix.Mkfifo(filepath.Join(src, "fifo"), 0o600))
			xattr := unix.Setxattr(filepath.Join(src, "a/x"), "user.k", []byte("v"), 0)
			opts := tree.CopyOptions{Stable: done}
			var n int
			var mu sync.Mutex
			if done {
				opts.Done = func(tree.Copied) { mu.Lock(); n++; mu.Unlock() }
			}
			stats, err := tree.Copy(t.Context(), openDir(t, src), openDir(t, dst), opts)
			must(t, err)
			t.Cleanup(func() { os.Chmod(filepath.Join(dst, "ro"), 0o755) })
			want := describe(t, src)
			want = slices.DeleteFunc(want, func(s string) bool { return strings.Contains(s, "fifo") })
			if got := describe(t, dst); !slices.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
			}
			if stats.LeftOut != 1 || stats.Left[0].Rel != "fifo" || stats.Left[0].Kind != tree.Fifo {
				t.Errorf("left out: %+v", stats.Left)
			}
			if stats.Files != 6 || stats.Symlinks != 3 || (done && n != 6) {
				t.Errorf("stats %+v, digests %d", stats, n)
			}
			if xattr == nil {
				var b [8]byte
				k, err := unix.Getxattr(filepath.Join(dst, "a/x"), "user.k", b[:])
				if err != nil || string(b[:k]) != "v" {
					t.Errorf("xattr: %q, %v", b[:k], err)
				}
			}
		})
	}
}

func TestCopyDropsSetuidKeepsHoles(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	f, err := os.Create(filepath.Join(src, "sparse"))
	must(t, err)
	must(t, f.Truncate(512<<20))
	_, err = f.WriteAt([]byte("end"), 300<<20)
	must(t, err)
	f.Close()
	must(t, os.WriteFile(filepath.Join(src, "suid"), []byte("x"), 0o755))
	must(t, os.Chmod(filepath.Join(src, "suid"), 0o755|os.ModeSetuid))
	_, err = tree.Copy(t.Context(), openDir(t, src), openDir(t, dst), tree.CopyOptions{})
	must(t, err)
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(dst, "sparse"), &st))
	if st.Size != 512<<20 || st.Blocks*512 > 16<<20 {
		t.Errorf("sparse: size %d, allocated %d", st.Size, st.Blocks*512)
	}
	b := make([]byte, 3)
	g, err := os.Open(filepath.Join(dst, "sparse"))
	must(t, err)
	defer g.Close()
	if _, err := g.ReadAt(b, 300<<20); err != nil || string(b) != "end" {
		t.Errorf("data in the sparse file: %q, %v", b, err)
	}
	must(t, unix.Stat(filepath.Join(dst, "suid"), &st))
	if st.Mode&0o7777 != 0o755 {
		t.Errorf("mode %o", st.Mode)
	}
}

func TestCopyRefusals(t *testing.T) {
	for _, tt := range []struct {
		name   string
		opts   tree.CopyOptions
		dst    func(dir string)
		err    error
		rel    string
		source bool
	}{
		{name: "symlinks refused", opts: tree.CopyOptions{RefuseSymlinks: true}, err: tree.ErrSymlink, rel: "l", source: true},
		{name: "existing file", dst: func(d string) { os.WriteFile(d+"/f", nil, 0o600) }, err: fs.ErrExist, rel: "f"},
		{name: "directory in place of a file", opts: tree.CopyOptions{Replace: true},
			dst: func(d string) { os.Mkdir(d+"/f", 0o700) }, err: unix.EISDIR, rel: "f"},
		{name: "link in place of a directory", opts: tree.CopyOptions{Replace: true},
			dst: func(d string) { os.Symlink("/tmp", d+"/d") }, err: unix.ENOTDIR, rel: "d"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src, dst := t.TempDir(), t.TempDir()
			must(t, os.Mkdir(src+"/d", 0o755))
			must(t, os.WriteFile(src+"/f", []byte("new"), 0o644))
			if tt.source {
				must(t, os.Symlink("x", src+"/l"))
			}
			if tt.dst != nil {
				tt.dst(dst)
			}
			_, err := tree.Copy(t.Context(), openDir(t, src), openDir(t, dst), tt.opts)
			ce, ok := errors.AsType[*tree.CopyError](err)
			if !ok || !errors.Is(err, tt.err) || ce.Rel != tt.rel || ce.Source != tt.source {
				t.Errorf("error = %v, want %v at %q", err, tt.err, tt.rel)
			}
		})
	}
}

func TestCopyReplaces(t *testing.T) {
	src, dst, outside := t.TempDir(), t.TempDir(), t.TempDir()
	must(t, os.Mkdir(src+"/d", 0o755))
	must(t, os.WriteFile(src+"/d/f", []byte("new"), 0o644))
	must(t, os.WriteFile(src+"/g", []byte("new"), 0o644))
	must(t, os.Symlink("t", src+"/l"))
	must(t, os.WriteFile(outside+"/victim", []byte("keep"), 0o644))
	must(t, os.Mkdir(dst+"/d", 0o700))
	must(t, os.WriteFile(dst+"/d/other", []byte("stays"), 0o644))
	must(t, os.WriteFile(dst+"/d/f", []byte("old and longer"), 0o600))
	must(t, os.Symlink(outside+"/victim", dst+"/g"))
	must(t, os.WriteFile(dst+"/l", nil, 0o600))
	_, err := tree.Copy(t.Context(), openDir(t, src), openDir(t, dst), tree.CopyOptions{Replace: true})
	must(t, err)
	for path, want := range map[string]string{
		dst + "/d/f": "new", dst + "/d/other": "stays", dst + "/g": "new", outside + "/victim": "keep",
	} {
		if b, err := os.ReadFile(path); string(b) != want {
			t.Errorf("%s = %q, %v; want %q", path, b, err, want)
		}
	}
	if l, err := os.Readlink(dst + "/l"); l != "t" {
		t.Errorf("link %q, %v", l, err)
	}
}

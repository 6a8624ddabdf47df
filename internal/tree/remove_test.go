//go:build linux

package tree_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/tree"
)

func TestRemove(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(outside+"/keep", []byte("k"), 0o644))
	must(t, os.Mkdir(dir+"/ws", 0o755))
	plant(t, dir+"/ws")
	must(t, os.Symlink(outside, dir+"/ws/out"))
	must(t, unix.Mkfifo(dir+"/ws/a/fifo", 0o600))
	parent := openDir(t, dir)
	stats, err := tree.Remove(t.Context(), parent, "ws", tree.RemoveOptions{Unlock: true})
	must(t, err)
	if stats.Files != 11 || stats.Dirs != 6 {
		t.Errorf("stats %+v", stats)
	}
	if _, err := os.Lstat(dir + "/ws"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if _, err := os.Stat(outside + "/keep"); err != nil {
		t.Error(err)
	}
	_, err = tree.Remove(t.Context(), parent, "ws", tree.RemoveOptions{})
	if _, isList := errors.AsType[*tree.RemoveError](err); !errors.Is(err, fs.ErrNotExist) || isList {
		t.Errorf("missing name: %v", err)
	}
	for _, bad := range []string{"", ".", "..", "a/b", "/"} {
		if _, err := tree.Remove(t.Context(), parent, bad, tree.RemoveOptions{}); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Remove(%q) = %v", bad, err)
		}
	}
}

func TestRemoveOneEntry(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(outside+"/keep", []byte("k"), 0o644))
	must(t, os.Symlink(outside, dir+"/link"))
	must(t, os.WriteFile(dir+"/file", nil, 0o644))
	must(t, unix.Mkfifo(dir+"/fifo", 0o600))
	for _, n := range []string{"link", "file", "fifo"} {
		if _, err := tree.Remove(t.Context(), openDir(t, dir), n, tree.RemoveOptions{}); err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(outside + "/keep"); err != nil {
		t.Error(err)
	}
}

func TestRemoveContentsKeepsSkipped(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"a/keep/x", "a/y", "b/c"} {
		must(t, os.MkdirAll(filepath.Join(dir, n), 0o755))
	}
	_, err := tree.RemoveContents(t.Context(), openDir(t, dir), tree.RemoveOptions{
		Options: tree.Options{Skip: func(rel string) bool { return rel == "a/keep" }},
	})
	must(t, err)
	if got := strings.Join(names(t, dir), " "); got != "a a/keep a/keep/x" {
		t.Errorf("left: %s", got)
	}
}

func names(t *testing.T, dir string) []string {
	var got []string
	must(t, tree.Ordered(t.Context(), openDir(t, dir), tree.Options{}, func(e *tree.Entry) error {
		got = append(got, e.Rel())
		return e.Err
	}))
	return got
}

func TestRemoveNamesWhatStays(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: immutable files")
	}
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/ws/a/b", 0o755))
	must(t, os.MkdirAll(dir+"/ws/m", 0o755))
	must(t, os.WriteFile(dir+"/ws/a/b/fixed", []byte("x"), 0o644))
	must(t, os.WriteFile(dir+"/ws/a/b/other", []byte("x"), 0o644))
	must(t, os.WriteFile(dir+"/ws/z", []byte("x"), 0o644))
	setImmutable(t, dir+"/ws/a/b/fixed", true)
	t.Cleanup(func() { setImmutable(t, dir+"/ws/a/b/fixed", false) })
	want := []string{"ws/a/b/fixed"}
	if err := unix.Mount("tmpfs", dir+"/ws/m", "tmpfs", 0, ""); err == nil {
		t.Cleanup(func() { unix.Unmount(dir+"/ws/m", 0) })
		must(t, os.WriteFile(dir+"/ws/m/inside", nil, 0o644))
		want = append(want, "ws/m")
	} else {
		t.Logf("no mount point in this test: %v", err)
	}
	_, err := tree.Remove(t.Context(), openDir(t, dir), "ws", tree.RemoveOptions{Unlock: true})
	re, ok := errors.AsType[*tree.RemoveError](err)
	if !ok || !errors.Is(err, fs.ErrPermission) {
		t.Fatalf("error = %v", err)
	}
	var got []string
	for _, f := range re.Failed {
		got = append(got, f.Path)
	}
	if len(got) != len(want) || !sameSet(got, want) {
		t.Errorf("failed %q, want %q", got, want)
	}
	if len(want) == 2 {
		if _, err := os.Stat(dir + "/ws/m/inside"); err != nil {
			t.Errorf("the mounted file system was entered: %v", err)
		}
	}
	if _, err := os.Stat(dir + "/ws/a/b/other"); err == nil {
		t.Error("the rest was not removed")
	}
	if _, err := os.Stat(dir + "/ws/z"); err == nil {
		t.Error("the rest was not removed")
	}
}

func sameSet(a, b []string) bool {
	m := map[string]int{}
	for _, s := range a {
		m[s]++
	}
	for _, s := range b {
		m[s]--
	}
	for _, n := range m {
		if n != 0 {
			return false
		}
	}
	return true
}

// fsImmutable is FS_IMMUTABLE_FL of linux/fs.h.
const fsImmutable = 0x10

func setImmutable(t *testing.T, path string, on bool) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		flags &^= fsImmutable
		if on {
			flags |= fsImmutable
		}
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
	}
	if err != nil && on {
		t.Skipf("immutable files are not known here: %v", err)
	}
}

func TestRemoveUnlocksOwnDirectories(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("needs an ordinary user: modes do not bind root")
	}
	dir := t.TempDir()
	for i, mode := range []fs.FileMode{0o000, 0o100, 0o200, 0o400, 0o500, 0o300} {
		d := dir + "/ws/d" + strconv.Itoa(i) + "/e"
		must(t, os.MkdirAll(d, 0o755))
		must(t, os.WriteFile(d+"/f", nil, 0o000))
		must(t, os.Mkdir(d+"/g", 0o755))
		must(t, os.WriteFile(d+"/g/h", nil, 0o000))
		must(t, os.Chmod(d+"/g", mode))
		must(t, os.Chmod(d, mode))
		must(t, os.Chmod(filepath.Dir(d), mode))
	}
	must(t, os.Chmod(dir+"/ws", 0o000))
	_, err := tree.Remove(t.Context(), openDir(t, dir), "ws", tree.RemoveOptions{})
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without Unlock: %v", err)
	}
	_, err = tree.Remove(t.Context(), openDir(t, dir), "ws", tree.RemoveOptions{Unlock: true})
	must(t, err)
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestDeepTree(t *testing.T) {
	depth := 5000
	if testing.Short() {
		depth = 1200
	}
	dir := t.TempDir()
	deep(t, dir, depth, strings.Repeat("n", 200))
	before := openFiles(t)
	var mu sync.Mutex
	levels, most := 0, 0
	must(t, tree.Walk(t.Context(), openDir(t, dir), tree.Options{}, func(e *tree.Entry) error {
		mu.Lock()
		defer mu.Unlock()
		levels = max(levels, e.Depth)
		if e.Depth%100 == 0 {
			most = max(most, openFiles(t)-before)
		}
		return e.Err
	}))
	if levels != depth+1 || most > tree.MaxDescriptors+16 {
		t.Errorf("levels %d, descriptors %d", levels, most)
	}
	n := 0
	must(t, tree.Ordered(t.Context(), openDir(t, dir), tree.Options{}, func(e *tree.Entry) error {
		n++
		return e.Err
	}))
	if n != 2*depth {
		t.Errorf("Ordered saw %d entries, want %d", n, 2*depth)
	}
	dst := t.TempDir()
	stats, err := tree.Copy(t.Context(), openDir(t, dir), openDir(t, dst), tree.CopyOptions{})
	must(t, err)
	if stats.Dirs != int64(depth) || stats.Files != int64(depth) {
		t.Errorf("copied %+v", stats)
	}
	for _, d := range []string{dir, dst} {
		stats, err = tree.RemoveContents(t.Context(), openDir(t, d), tree.RemoveOptions{})
		must(t, err)
		if stats.Dirs != int64(depth) || stats.Files != int64(depth) {
			t.Errorf("removed %+v", stats)
		}
	}
	if after := openFiles(t); after > before+8 {
		t.Errorf("descriptors left open: %d before, %d after", before, after)
	}
}

// deep makes a chain of directories, each with one file.
func deep(t *testing.T, dir string, depth int, name string) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		f, err := unix.Openat(next, "f", unix.O_CREAT|unix.O_WRONLY, 0o644)
		must(t, err)
		unix.Close(f)
		unix.Close(fd)
		fd = next
	}
	must(t, unix.Unlinkat(fd, "f", 0))
	f, err := unix.Openat(fd, "last", unix.O_CREAT|unix.O_WRONLY, 0o644)
	must(t, err)
	unix.Close(f)
	unix.Close(fd)
}

func openFiles(t testing.TB) int {
	l, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(l)
}

func TestWideTree(t *testing.T) {
	files, dirs := 100_000, 3000
	if testing.Short() {
		files, dirs = 5000, 300
	}
	dir := t.TempDir()
	d := openDir(t, dir)
	fd := int(d.Fd())
	must(t, unix.Mkdirat(fd, "w", 0o755))
	w := openDir(t, dir+"/w")
	for i := range files {
		f, err := unix.Openat(int(w.Fd()), "f\xff"+strconv.Itoa(i), unix.O_CREAT|unix.O_WRONLY, 0o644)
		must(t, err)
		unix.Close(f)
	}
	for i := range dirs {
		must(t, unix.Mkdirat(fd, "d"+strconv.Itoa(i), 0o755))
		must(t, unix.Mkdirat(fd, "d"+strconv.Itoa(i)+"/e", 0o755))
	}
	n := 0
	must(t, tree.Ordered(t.Context(), d, tree.Options{}, func(e *tree.Entry) error { n++; return e.Err }))
	if n != files+2*dirs+1 {
		t.Errorf("%d entries", n)
	}
	var last tree.Progress
	stats, err := tree.RemoveContents(t.Context(), d, tree.RemoveOptions{Options: tree.Options{
		Progress: func(p tree.Progress) { last = p },
	}})
	must(t, err)
	if stats.Files != int64(files) || stats.Dirs != int64(2*dirs+1) || last.Entries != stats.Files+stats.Dirs {
		t.Errorf("stats %+v, progress %+v", stats, last)
	}
}

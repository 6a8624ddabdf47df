//go:build linux

package tree_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/tree"
)

// swapEnv makes the test binary a process that swaps two names until its standard
// input ends, and then prints how often it did.
const swapEnv = "CROFT_TREE_TEST_SWAP"

func TestMain(m *testing.M) {
	if pair := os.Getenv(swapEnv); pair != "" {
		swapForever(strings.Split(pair, ":"))
		return
	}
	os.Exit(m.Run())
}

func swapForever(pair []string) {
	end := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(end)
	}()
	fmt.Println("ready")
	for n := 0; ; {
		select {
		case <-end:
			fmt.Println(n)
			return
		default:
			if unix.Renameat2(unix.AT_FDCWD, pair[0], unix.AT_FDCWD, pair[1], unix.RENAME_EXCHANGE) == nil {
				n++
			}
		}
	}
}

// swapper starts a process that exchanges the names a and b all the time. The
// function returned ends it and returns the number of swaps.
func swapper(t *testing.T, a, b string) (stop func() int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), swapEnv+"="+a+":"+b)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the swapping process did not start")
	}
	n := -1
	stop = func() int {
		if n < 0 {
			in.Close()
			lines.Scan()
			n, _ = strconv.Atoi(lines.Text())
			cmd.Wait()
		}
		return n
	}
	t.Cleanup(func() { stop() })
	return stop
}

// arena is a tree ws in which d and link, a link to outside, change places.
type arena struct {
	base, outside string
	rounds        int
}

const (
	arenaFiles  = 12
	arenaRounds = 400
)

func newArena(t *testing.T) *arena {
	a := &arena{base: t.TempDir(), outside: t.TempDir(), rounds: arenaRounds}
	if testing.Short() {
		a.rounds = 40
	}
	a.fillOutside(t)
	return a
}

func (a *arena) fillOutside(t *testing.T) {
	for i := range arenaFiles {
		must(t, os.WriteFile(filepath.Join(a.outside, "f"+strconv.Itoa(i)), []byte("OUT"), 0o644))
	}
	must(t, os.MkdirAll(filepath.Join(a.outside, "sub"), 0o755))
	must(t, os.WriteFile(filepath.Join(a.outside, "sub/g"), []byte("OUT"), 0o644))
}

// build makes a fresh tree aside and moves it into place, so that building never
// meets the swapping process.
func (a *arena) build(t *testing.T) {
	fresh := filepath.Join(a.base, "fresh")
	must(t, os.MkdirAll(filepath.Join(fresh, "d/sub"), 0o755))
	for i := range arenaFiles {
		must(t, os.WriteFile(filepath.Join(fresh, "d", "f"+strconv.Itoa(i)), []byte("in"), 0o644))
	}
	must(t, os.WriteFile(filepath.Join(fresh, "d/sub/g"), []byte("in"), 0o644))
	must(t, os.Symlink(a.outside, filepath.Join(fresh, "link")))
	must(t, os.Rename(fresh, filepath.Join(a.base, "ws")))
}

func (a *arena) swap(t *testing.T) func() int {
	return swapper(t, filepath.Join(a.base, "ws/d"), filepath.Join(a.base, "ws/link"))
}

// touched counts what was changed outside.
func (a *arena) touched() int {
	n := arenaFiles + 1
	filepath.Walk(a.outside, func(p string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().IsRegular() {
			if b, err := os.ReadFile(p); err == nil && string(b) == "OUT" {
				n--
			} else {
				n++
			}
		}
		return nil
	})
	return n
}

func TestRemoveUnderSwaps(t *testing.T) {
	a := newArena(t)
	parent := openDir(t, a.base)
	stop := a.swap(t)
	failed := 0
	for range a.rounds {
		a.build(t)
		if _, err := tree.Remove(t.Context(), parent, "ws", tree.RemoveOptions{}); err != nil {
			failed++
			stopAndClear(t, parent)
		}
	}
	t.Logf("rounds %d, swaps %d, failed %d", a.rounds, stop(), failed)
	if n := a.touched(); n != 0 {
		t.Errorf("%d files outside were touched", n)
	}
}

// stopAndClear removes what a failed round left.
func stopAndClear(t *testing.T, parent *os.File) {
	for range 1000 {
		if _, err := tree.Remove(t.Context(), parent, "ws", tree.RemoveOptions{}); err == nil {
			return
		}
	}
	t.Fatal("the tree cannot be removed while it is swapped")
}

// TestNaiveRemoveUnderSwaps shows that the attack works on removal by paths.
func TestNaiveRemoveUnderSwaps(t *testing.T) {
	a := newArena(t)
	stop := a.swap(t)
	for range 200 * a.rounds {
		a.build(t)
		naiveRemove(filepath.Join(a.base, "ws"))
		tree.Remove(t.Context(), openDirNow(t, a.base), "ws", tree.RemoveOptions{})
		if n := a.touched(); n != 0 {
			t.Logf("swaps %d, wrong %d", stop(), n)
			return
		}
	}
	t.Error("the naive removal touched nothing outside: this test does not attack")
}

func openDirNow(t *testing.T, p string) *os.File {
	f, err := os.Open(p)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func naiveRemove(p string) {
	fi, err := os.Lstat(p)
	if err != nil {
		return
	}
	if fi.IsDir() {
		list, _ := os.ReadDir(p)
		for _, e := range list {
			naiveRemove(filepath.Join(p, e.Name()))
		}
	}
	os.Remove(p)
}

func TestCopyUnderSwaps(t *testing.T) {
	a := newArena(t)
	a.build(t)
	stop := a.swap(t)
	src := openDir(t, filepath.Join(a.base, "ws"))
	failed, wrong := 0, 0
	for i := range a.rounds {
		dst := filepath.Join(t.TempDir(), strconv.Itoa(i))
		must(t, os.Mkdir(dst, 0o755))
		d, err := os.Open(dst)
		must(t, err)
		if _, err := tree.Copy(t.Context(), src, d, tree.CopyOptions{}); err != nil {
			failed++
		}
		d.Close()
		wrong += countOutside(dst)
	}
	t.Logf("rounds %d, swaps %d, failed %d", a.rounds, stop(), failed)
	if wrong != 0 {
		t.Errorf("%d files from outside were copied", wrong)
	}
	if failed == a.rounds {
		t.Error("no copy ever succeeded")
	}
}

// countOutside counts the files in dir, not through links, with outside's content.
func countOutside(dir string) int {
	n := 0
	filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().IsRegular() {
			if b, _ := os.ReadFile(p); string(b) == "OUT" {
				n++
			}
		}
		return nil
	})
	return n
}

// TestNaiveCopyUnderSwaps shows that the attack works on a copy by paths.
func TestNaiveCopyUnderSwaps(t *testing.T) {
	a := newArena(t)
	a.build(t)
	stop := a.swap(t)
	for i := range 200 * a.rounds {
		dst := filepath.Join(t.TempDir(), strconv.Itoa(i))
		must(t, os.Mkdir(dst, 0o755))
		naiveCopy(filepath.Join(a.base, "ws"), dst)
		if n := countOutside(dst); n != 0 {
			t.Logf("swaps %d, wrong %d", stop(), n)
			return
		}
	}
	t.Error("the naive copy read nothing outside: this test does not attack")
}

func naiveCopy(src, dst string) {
	list, _ := os.ReadDir(src)
	for _, e := range list {
		from, to := filepath.Join(src, e.Name()), filepath.Join(dst, e.Name())
		fi, err := os.Lstat(from)
		switch {
		case err != nil:
		case fi.IsDir():
			os.Mkdir(to, 0o755)
			naiveCopy(from, to)
		case fi.Mode().IsRegular():
			if b, err := os.ReadFile(from); err == nil {
				os.WriteFile(to, b, 0o644)
			}
		}
	}
}

// TestCopyIntoSwaps copies into a tree in which the process swaps.
func TestCopyIntoSwaps(t *testing.T) {
	a := newArena(t)
	src := t.TempDir()
	must(t, os.MkdirAll(src+"/d/sub", 0o755))
	must(t, os.MkdirAll(src+"/link/sub", 0o755))
	for _, n := range []string{"d/new1", "d/sub/new2", "link/new3", "link/f0", "d/f0"} {
		must(t, os.WriteFile(filepath.Join(src, n), []byte("in"), 0o644))
	}
	a.build(t)
	stop := a.swap(t)
	s, d := openDir(t, src), openDir(t, filepath.Join(a.base, "ws"))
	failed := 0
	for range a.rounds {
		if _, err := tree.Copy(t.Context(), s, d, tree.CopyOptions{Replace: true}); err != nil {
			failed++
		}
	}
	t.Logf("rounds %d, swaps %d, failed %d", a.rounds, stop(), failed)
	if n := a.touched(); n != 0 {
		t.Errorf("%d files outside were touched", n)
	}
}

// TestRemoveWhileAdded empties a directory to which a process adds all the time:
// it ends, with an error or without.
func TestRemoveWhileAdded(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	done, started := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			os.MkdirAll(fmt.Sprintf("%s/a%d/b", dir, i%7), 0o755)
			os.WriteFile(fmt.Sprintf("%s/a%d/f%d", dir, i%7, i), nil, 0o644)
			if i == 100 {
				close(started)
			}
		}
	}()
	<-started
	failed, removed := 0, int64(0)
	for removed < 2000 {
		stats, err := tree.RemoveContents(t.Context(), d, tree.RemoveOptions{})
		removed += stats.Files
		if err != nil {
			failed++
		}
	}
	cancel()
	<-done
	t.Logf("%d files removed, %d calls with an error", removed, failed)
	if _, err := tree.RemoveContents(t.Context(), d, tree.RemoveOptions{}); err != nil {
		t.Error(err)
	}
}

// TestDeepUnderMoves works on a tree so deep that its upper directories are closed
// and opened again, while a process exchanges two of its directories: a parent
// found in another place must never be taken for the one that was left.
func TestDeepUnderMoves(t *testing.T) {
	const depth = tree.MaxDescriptors + 60
	base, outside := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(outside+"/keep", []byte("k"), 0o644))
	build := func() {
		fresh := base + "/fresh"
		must(t, os.MkdirAll(fresh+"/side/inner", 0o755))
		must(t, os.MkdirAll(fresh+"/z", 0o755))
		must(t, os.Symlink(outside, fresh+"/side/inner/n"))
		deep(t, fresh, depth, "n")
		must(t, os.Rename(fresh, base+"/ws"))
	}
	stop := swapper(t, base+"/ws"+strings.Repeat("/n", 20), base+"/ws/side/inner")
	upper := swapper(t, base+"/ws"+strings.Repeat("/n", 10), base+"/ws/z")
	parent := openDir(t, base)
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	moved, failed := 0, 0
	for range rounds {
		build()
		ws := openDirNow(t, base+"/ws")
		see := func(e *tree.Entry) error {
			if e.Name == "keep" {
				t.Errorf("outside was entered: %s", e.Rel())
			}
			if e.Err != nil {
				moved++
			}
			return nil
		}
		must(t, tree.Ordered(t.Context(), ws, tree.Options{}, see))
		must(t, tree.Walk(t.Context(), ws, tree.Options{Workers: 1}, see))
		dst := t.TempDir()
		if _, err := tree.Copy(t.Context(), ws, openDirNow(t, dst), tree.CopyOptions{}); err != nil {
			failed++
		}
		if _, err := tree.Remove(t.Context(), parent, "ws", tree.RemoveOptions{}); err != nil {
			failed++
			stopAndClear(t, parent)
		}
	}
	t.Logf("swaps %d, directories lost to a walk %d, calls failed %d", stop()+upper(), moved, failed)
	if _, err := os.Stat(outside + "/keep"); err != nil {
		t.Error(err)
	}
}

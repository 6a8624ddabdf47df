package root

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The attacker of the swap tests: a process of its own (this test binary, started
// again) that renames and exchanges entries of an arena as fast as it can, while
// the test calls operations on names in it.
//
//	ws/p/d/f         inside: "inside"      outside/p/d/f      the same names outside:
//	ws/p/d/ln        -> inside-target      outside/p/d/ln     other contents,
//	ws/p/d/sub/x                           outside/p/d/sub/x  and each is watched
//	ws/lp            -> ../outside/p       exchanged with p
//	ws/p/ld          -> /.../outside/p/d   exchanged with d
//	ws/p/d/lf        -> ../../../outside/p/d/f   exchanged with f
//	ws/p/d/lsub      -> /.../outside/p/d/sub     exchanged with sub
//
// p and d are also renamed away and back. An operation that follows a swapped name
// by its path thus ends outside about half of the time.

const hostileArg = "croft-hostile"

// shared is the memory that the test and the attacker have in common.
type shared struct {
	swaps atomic.Uint64 // renames that have succeeded
	ready atomic.Uint32
	stop  atomic.Uint32
}

func mapShared(path string) (*shared, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(4096); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*shared)(unsafe.Pointer(&mem[0])), nil
}

// hostile is the attacker's main: its arguments are the shared memory's file and
// the workspace.
func hostile(args []string) {
	sh, err := mapShared(args[0])
	var dirs [3]int // the workspace, p and d: held, so that the swaps of their names do not matter
	for i, name := range []string{"", "p", "p/d"} {
		if err == nil {
			dirs[i], err = unix.Open(filepath.Join(args[1], name), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	swap := func(dir int, a, b string, flags uint) {
		if unix.Renameat2(dirs[dir], a, dirs[dir], b, flags) == nil {
			sh.swaps.Add(1)
		}
	}
	sh.ready.Store(1)
	for parent := os.Getppid(); sh.stop.Load() == 0 && os.Getppid() == parent; {
		for _, s := range []struct {
			dir  int
			a, b string
		}{{0, "p", "lp"}, {2, "f", "lf"}, {1, "d", "ld"}, {2, "sub", "lsub"}} {
			swap(s.dir, s.a, s.b, unix.RENAME_EXCHANGE)
			swap(s.dir, s.a, s.b, unix.RENAME_EXCHANGE)
		}
		swap(0, "p", "away", unix.RENAME_NOREPLACE)
		swap(0, "away", "p", unix.RENAME_NOREPLACE)
		swap(1, "d", "away", unix.RENAME_NOREPLACE)
		swap(1, "away", "d", unix.RENAME_NOREPLACE)
	}
}

// arena is the place of a swap test.
type arena struct {
	t       testing.TB
	tmp     string
	ws      string
	outside string
	tree    *Tree
	user    *User
	sh      *shared
	child   *exec.Cmd
	d       int // the real directory p/d, wherever its name is
	watched []watched
}

// watched is something outside that nothing may change.
type watched struct {
	path string
	fd   int
	st   unix.Stat_t
}

// newArena makes the directories and opens the tree, and starts the attacker.
func newArena(t testing.TB) *arena {
	a := &arena{t: t, tmp: tempDir(t)}
	a.ws, a.outside = a.tmp+"/ws", a.tmp+"/outside"
	a.fill(a.ws, "inside")
	a.rebuildOutside()
	for name, target := range map[string]string{
		"lp": "../outside/p", "p/ld": a.outside + "/p/d",
		"p/d/lf": "../../../outside/p/d/f", "p/d/lsub": a.outside + "/p/d/sub",
	} {
		must(t, os.Symlink(target, filepath.Join(a.ws, name)))
	}
	must(t, os.Mkdir(a.ws+"/out", 0o755))
	var err error
	a.d, err = unix.Open(a.ws+"/p/d", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	a.goWay("fast")
	a.sh, err = mapShared(a.tmp + "/shared")
	must(t, err)
	a.child = exec.Command("/proc/self/exe", hostileArg, a.tmp+"/shared", a.ws)
	a.child.Stderr = os.Stderr
	must(t, a.child.Start())
	t.Cleanup(a.close)
	for a.sh.ready.Load() == 0 && a.child.Process.Signal(nilSignal) == nil {
	}
	return a
}

// goWay opens the tree so that its operations go one of the ways of the test.
func (a *arena) goWay(way string) {
	opts := Options{Path: a.ws}
	a.user = nil
	switch way {
	case "grant":
		must(a.t, os.MkdirAll(a.ws+"/granted", 0o755))
		opts.Grants = []Grant{{Path: a.ws + "/granted", ReadOnly: true}}
	case "user":
		u, err := LookupUser(testUser)
		must(a.t, err)
		a.user = u
		must(a.t, unix.Chmod(a.ws+"/out", 0o777))
		must(a.t, unix.Fchmod(a.d, 0o777))
		for _, name := range []string{"f", "sub"} {
			// With one of the two away the attacker cannot exchange them meanwhile.
			must(a.t, unix.Renameat2(a.d, "l"+name, a.d, "held", unix.RENAME_NOREPLACE))
			must(a.t, unix.Fchownat(a.d, name, u.UID, u.GID, unix.AT_SYMLINK_NOFOLLOW))
			must(a.t, unix.Fchownat(a.d, "held", u.UID, u.GID, unix.AT_SYMLINK_NOFOLLOW))
			must(a.t, unix.Renameat2(a.d, "held", a.d, "l"+name, unix.RENAME_NOREPLACE))
		}
	}
	tr, err := Open(opts)
	must(a.t, err)
	a.t.Cleanup(func() { tr.Close() })
	tr.slowOnly = way == "slow"
	a.tree = tr
}

const nilSignal = unix.Signal(0)

func (a *arena) close() {
	a.sh.stop.Store(1)
	if err := a.child.Wait(); err != nil {
		a.t.Errorf("the attacker failed: %v", err)
	}
	unix.Close(a.d)
	a.unwatch()
}

func (a *arena) fill(dir, what string) {
	must(a.t, os.MkdirAll(dir+"/p/d/sub", 0o755))
	must(a.t, os.WriteFile(dir+"/p/d/f", []byte(what), 0o644))
	must(a.t, os.WriteFile(dir+"/p/d/sub/x", []byte(what), 0o644))
	must(a.t, os.Symlink(what+"-target", dir+"/p/d/ln"))
}

func (a *arena) unwatch() {
	for _, w := range a.watched {
		unix.Close(w.fd)
	}
	a.watched = nil
}

// rebuildOutside makes what lies outside anew and watches it.
func (a *arena) rebuildOutside() {
	a.unwatch()
	must(a.t, os.RemoveAll(a.outside))
	a.fill(a.outside, "outside")
	must(a.t, os.WriteFile(a.outside+"/p/d/secret", []byte("outside"), 0o644))
	for _, name := range []string{"", "p", "p/d", "p/d/f", "p/d/ln", "p/d/sub", "p/d/sub/x", "p/d/secret"} {
		w := watched{path: filepath.Join(a.outside, name)}
		var err error
		w.fd, err = unix.Open(w.path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		must(a.t, err)
		must(a.t, unix.Fstat(w.fd, &w.st))
		a.watched = append(a.watched, w)
	}
}

// harmed returns the path of something outside that has changed since it was
// rebuilt, or "". Every change of content, mode, owner, links or entries changes
// the ctime (inode(7)).
func (a *arena) harmed() string {
	for i := range a.watched {
		var st unix.Stat_t
		w := &a.watched[i]
		if unix.Fstat(w.fd, &st) != nil || st.Ctim != w.st.Ctim || st.Mtim != w.st.Mtim || st.Size != w.st.Size ||
			st.Nlink != w.st.Nlink || st.Mode != w.st.Mode {
			return w.path
		}
	}
	return ""
}

// restore puts back what an operation took from p/d or added to it.
func (a *arena) restore(op string) {
	switch op {
	case "write new", "mkdir", "rename", "copy", "symlink":
		for _, name := range []string{"new", "c", "s", "g"} {
			if unix.Unlinkat(a.d, name, 0) == unix.EISDIR {
				unix.Unlinkat(a.d, name, unix.AT_REMOVEDIR)
			}
		}
	}
	switch op {
	case "write", "write in place", "append", "remove", "rename":
		a.restorePair("f", "lf", "../../../outside/p/d/f", func(name string) error {
			fd, err := unix.Openat(a.d, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
			if err == nil {
				err = write(fd, []byte("inside"))
				unix.Close(fd)
			}
			return err
		})
	}
	switch op {
	case "write in place": // a second name keeps the file from being replaced
		unix.Unlinkat(a.d, "hard", 0)
		if unix.Linkat(a.d, "f", a.d, "hard", 0) == unix.ENOENT {
			unix.Linkat(a.d, "lf", a.d, "hard", 0)
		}
	case "remove recursive":
		a.restorePair("sub", "lsub", a.outside+"/p/d/sub", func(name string) error {
			if err := unix.Mkdirat(a.d, name, 0o755); err != nil {
				return err
			}
			fd, err := unix.Openat(a.d, name, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			x, err := unix.Openat(fd, "x", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
			unix.Close(x)
			return err
		})
	}
}

// restorePair makes one of two entries real and the other a link again, whatever
// became of them. The second is taken away first: while one of the two is missing
// the attacker cannot exchange them.
func (a *arena) restorePair(one, other, target string, makeReal func(string) error) {
	unix.Renameat2(a.d, other, a.d, "held", unix.RENAME_NOREPLACE)
	kind := func(name string) uint32 {
		var st unix.Stat_t
		if unix.Fstatat(a.d, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			return 0
		}
		return st.Mode & unix.S_IFMT
	}
	here, held := kind(one), kind("held")
	link := uint32(unix.S_IFLNK)
	if here != 0 && held != 0 && (here == link) == (held == link) {
		must(a.t, tidy(a.d, "held")) // two of a kind
		held = 0
	}
	isReal := here != 0 && here != link || held != 0 && held != link
	if here == 0 {
		a.makeOne(one, target, isReal, makeReal)
		isReal = true
	}
	if held != 0 {
		must(a.t, unix.Renameat2(a.d, "held", a.d, other, unix.RENAME_NOREPLACE))
	} else {
		a.makeOne(other, target, isReal, makeReal)
	}
}

func (a *arena) makeOne(name, target string, link bool, makeReal func(string) error) {
	if link {
		must(a.t, unix.Symlinkat(target, a.d, name))
		return
	}
	must(a.t, makeReal(name))
	if a.user != nil {
		must(a.t, unix.Fchownat(a.d, name, a.user.UID, a.user.GID, unix.AT_SYMLINK_NOFOLLOW))
	}
}

// tidy removes a file, a link, or a directory that holds at most x.
func tidy(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == unix.EISDIR {
		unix.Unlinkat(dir, name+"/x", 0)
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	return err
}

// readReal returns the content of an entry of p/d that is a regular file.
func (a *arena) readReal(name string) []byte {
	fd, err := unix.Openat(a.d, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	buf := make([]byte, 64)
	n, _ := unix.Read(fd, buf)
	return bytes.Clone(buf[:max(n, 0)])
}

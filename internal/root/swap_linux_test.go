package root

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
)

// attempt is one operation under attack. call does it by a Tree, naive by the path
// after a check of the path. Both return what they got from the file system, which
// must be from inside, and the error.
type attempt struct {
	op    string
	call  func(ctx context.Context, t *Tree) (got string, err error)
	naive func(a *arena) (got string, err error)
}

// outsideInfo describes an entry so that one from outside is known.
func outsideInfo(a *arena, dev, ino uint64) string {
	for _, w := range a.watched {
		if w.st.Dev == dev && w.st.Ino == ino {
			return "outside"
		}
	}
	return "inside"
}

const arenaFile, arenaDir = "p/d/f", "p/d"

// attempts are all operations of a Tree on names of the arena.
func attempts(a *arena) []attempt {
	all := []attempt{
		{"read", func(ctx context.Context, t *Tree) (string, error) {
			data, err := t.ReadFile(ctx, arenaFile, ReadOptions{User: a.user})
			return string(data), err
		}, func(a *arena) (string, error) { return a.checked(arenaFile, true, readPath) }},
		{"read range", func(ctx context.Context, t *Tree) (string, error) {
			data, err := t.ReadFile(ctx, arenaFile, ReadOptions{Offset: 0, Limit: 3, User: a.user})
			return string(data), err
		}, func(a *arena) (string, error) {
			return a.checked(arenaFile, true, func(p string) (string, error) {
				f, err := os.Open(p)
				if err != nil {
					return "", err
				}
				defer f.Close()
				buf := make([]byte, 3)
				n, err := f.ReadAt(buf, 0)
				return string(buf[:n]), err
			})
		}},
		{"open", func(ctx context.Context, t *Tree) (string, error) {
			f, err := t.Open(ctx, arenaFile, a.user)
			if err != nil {
				return "", err
			}
			defer f.Close()
			data, err := io.ReadAll(f)
			return string(data), err
		}, func(a *arena) (string, error) { return a.checked(arenaFile, true, readPath) }},
		{"list", func(ctx context.Context, t *Tree) (string, error) {
			entries, err := t.List(ctx, arenaDir, a.user)
			for _, e := range entries {
				if outsideInfo(a, e.Dev, e.Ino) == "outside" || e.Name == "secret" {
					return "outside", err
				}
			}
			return "", err
		}, func(a *arena) (string, error) {
			return a.checked(arenaDir, true, func(p string) (string, error) {
				entries, err := os.ReadDir(p)
				for _, e := range entries {
					if e.Name() == "secret" {
						return "outside", err
					}
				}
				return "", err
			})
		}},
		{"stat", func(ctx context.Context, t *Tree) (string, error) {
			i, err := t.Stat(ctx, arenaFile, a.user)
			return outsideInfo(a, i.Dev, i.Ino), err
		}, func(a *arena) (string, error) {
			return a.checked(arenaFile, true, func(p string) (string, error) { return statPath(a, p, unix.Stat) })
		}},
		{"lstat", func(ctx context.Context, t *Tree) (string, error) {
			i, err := t.Lstat(ctx, arenaFile, a.user)
			return outsideInfo(a, i.Dev, i.Ino), err
		}, func(a *arena) (string, error) {
			return a.checked(arenaFile, false, func(p string) (string, error) { return statPath(a, p, unix.Lstat) })
		}},
		{"readlink", func(ctx context.Context, t *Tree) (string, error) {
			return t.Readlink(ctx, "p/d/ln", a.user)
		}, func(a *arena) (string, error) { return a.checked("p/d/ln", false, os.Readlink) }},
	}
	return append(all, changes(a)...)
}

// changes are the operations that change something.
func changes(a *arena) []attempt {
	text := func() io.Reader { return strings.NewReader("inside2") }
	opts := WriteOptions{NoParents: true, User: a.user}
	path := func(name string, follow bool, do func(string) error) func(*arena) (string, error) {
		return func(a *arena) (string, error) {
			return a.checked(name, follow, func(p string) (string, error) { return "", do(p) })
		}
	}
	return []attempt{
		{"write new", func(ctx context.Context, t *Tree) (string, error) {
			_, err := t.WriteFile(ctx, "p/d/new", text(), opts)
			return "", err
		}, path("p/d/new", false, func(p string) error { return os.WriteFile(p, []byte("x"), 0o644) })},
		{"write", func(ctx context.Context, t *Tree) (string, error) {
			_, err := t.WriteFile(ctx, arenaFile, text(), opts)
			return "", err
		}, path(arenaFile, true, func(p string) error { return os.WriteFile(p, []byte("x"), 0o644) })},
		{"write in place", func(ctx context.Context, t *Tree) (string, error) {
			_, err := t.WriteFile(ctx, arenaFile, text(), opts)
			return "", err
		}, path(arenaFile, true, func(p string) error { return os.WriteFile(p, []byte("x"), 0o644) })},
		{"append", func(ctx context.Context, t *Tree) (string, error) {
			_, err := t.AppendFile(ctx, arenaFile, strings.NewReader("+"), opts)
			return "", err
		}, path(arenaFile, true, func(p string) error {
			f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("+")
				f.Close()
			}
			return err
		})},
		{"mkdir", func(ctx context.Context, t *Tree) (string, error) {
			return "", t.Mkdir(ctx, "p/d/new", MkdirOptions{User: a.user})
		}, path("p/d/new", false, func(p string) error { return os.Mkdir(p, 0o755) })},
		{"remove", func(ctx context.Context, t *Tree) (string, error) {
			return "", t.Remove(ctx, arenaFile, RemoveOptions{User: a.user})
		}, path(arenaFile, false, os.Remove)},
		{"remove recursive", func(ctx context.Context, t *Tree) (string, error) {
			return "", t.Remove(ctx, "p/d/sub", RemoveOptions{Recursive: true, Workers: 1, User: a.user})
		}, path("p/d/sub", false, os.RemoveAll)},
		{"rename", func(ctx context.Context, t *Tree) (string, error) {
			return "", t.Rename(ctx, arenaFile, "p/d/g", RenameOptions{User: a.user})
		}, path(arenaFile, false, func(p string) error { return os.Rename(p, filepath.Dir(p)+"/g") })},
		{"copy", func(ctx context.Context, t *Tree) (string, error) {
			err := t.Copy(ctx, arenaFile, "p/d/c", CopyOptions{User: a.user})
			return string(a.readReal("c")), err
		}, func(a *arena) (string, error) {
			_, err := a.checked(arenaFile, true, func(p string) (string, error) {
				data, err := os.ReadFile(p)
				if err == nil {
					err = os.WriteFile(filepath.Dir(p)+"/c", data, 0o644)
				}
				return "", err
			})
			return string(a.readReal("c")), err
		}},
		{"copy recursive", func(ctx context.Context, t *Tree) (string, error) {
			err := t.Copy(ctx, arenaDir, "out/k", CopyOptions{Recursive: true, Workers: 1, User: a.user})
			return a.takeCopy(), err
		}, func(a *arena) (string, error) {
			_, err := a.checked(arenaDir, true, func(p string) (string, error) {
				return "", os.CopyFS(a.ws+"/out/k", skipLinks{os.DirFS(p)})
			})
			return a.takeCopy(), err
		}},
		{"symlink", func(ctx context.Context, t *Tree) (string, error) {
			return "", t.Symlink(ctx, "anywhere", "p/d/s", a.user)
		}, path("p/d/s", false, func(p string) error { return os.Symlink("anywhere", p) })},
		{"chmod", func(ctx context.Context, t *Tree) (string, error) {
			return "", t.Chmod(ctx, arenaFile, 0o640, a.user)
		}, path(arenaFile, true, func(p string) error { return os.Chmod(p, 0o640) })},
	}
}

func readPath(p string) (string, error) {
	data, err := os.ReadFile(p)
	return string(data), err
}

func statPath(a *arena, p string, stat func(string, *unix.Stat_t) error) (string, error) {
	var st unix.Stat_t
	err := stat(p, &st)
	return outsideInfo(a, st.Dev, st.Ino), err
}

// skipLinks is a file system whose links are not seen, since os.CopyFS copies them
// only from Go 1.25 on and here only what is reached through a swap matters.
type skipLinks struct{ fs.FS }

func (s skipLinks) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(s.FS, name)
	var kept []fs.DirEntry
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			kept = append(kept, e)
		}
	}
	return kept, err
}

// takeCopy returns "outside" if the copied directory holds anything from outside,
// and removes it.
func (a *arena) takeCopy() string {
	got := ""
	filepath.WalkDir(a.ws+"/out", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if data, _ := os.ReadFile(p); bytes.HasPrefix(data, []byte("outside")) {
				got = "outside"
			}
		}
		return nil
	})
	must(a.t, os.RemoveAll(a.ws+"/out"))
	must(a.t, os.Mkdir(a.ws+"/out", 0o755))
	must(a.t, os.Chmod(a.ws+"/out", 0o777)) // also for the other user
	return got
}

// checked is the naive way: it resolves the path, refuses it if it leads outside,
// and then uses it.
func (a *arena) checked(name string, follow bool, use func(string) (string, error)) (string, error) {
	p := filepath.Join(a.ws, name)
	check := p
	if !follow {
		check = filepath.Dir(p)
	}
	resolved, err := filepath.EvalSymlinks(check)
	if err != nil {
		return "", err
	}
	if _, ok := below(a.ws, resolved); !ok {
		return "", errEscape
	}
	return use(p)
}

// tally counts the calls of one operation.
type tally struct {
	calls   int
	met     int    // a rename of a component of the name happened within the call
	retried int    // the call started a lookup or a change over
	refused int    // the call ended with an error
	wrong   int    // something outside was changed or came back
	swaps   uint64 // renames while the operation was under attack
	harm    string
}

// sample calls do once and judges it.
func (c *tally) sample(a *arena, op string, do func() (string, error)) error {
	before, tries := a.sh.swaps.Load(), a.tree.retried.Load()
	got, err := do()
	// One of two renames that were counted during the call was wholly within it.
	if a.sh.swaps.Load()-before >= 2 {
		c.met++
	}
	c.calls++
	if a.tree.retried.Load() > tries {
		c.retried++
	}
	if err != nil {
		c.refused++
	}
	if harm := a.harmed(); harm != "" || strings.HasPrefix(got, "outside") || strings.HasPrefix(got, "out") {
		c.wrong++
		c.harm = fmt.Sprintf("%s: harmed %q, got %q", op, harm, got)
	}
	a.restore(op)
	return err
}

// long reports whether the full form of the proofs is wanted.
func long() bool { return os.Getenv("PROVE") == "long" }

// TestSwap hammers every operation while a hostile process swaps the components of
// its names for links to the outside, and back. No call may reach the outside: it
// succeeds inside, or fails. The full form (PROVE=long) does a million swaps.
//
// The ways are the fast and the slow one, the one with a grant below the workspace,
// and as root the one with another user's rights.
func TestSwap(t *testing.T) {
	a := newArena(t)
	ways := []string{"fast", "slow", "grant"}
	if os.Geteuid() == 0 {
		ways = append(ways, "user")
	}
	all := len(attempts(a))
	swaps, met := uint64(1_000_000/len(ways)/all+1), 1000
	if !long() {
		swaps, met = swaps/20, met/20
	}
	total := uint64(0)
	for _, way := range ways {
		a.goWay(way)
		for _, at := range attempts(a) {
			c := underAttack(t, a, at, swaps, met)
			t.Logf("%-5s %-16s calls=%-6d swaps=%-7d met=%-6d retried=%-6d refused=%-6d wrong=%d",
				way, at.op, c.calls, c.swaps, c.met, c.retried, c.refused, c.wrong)
			if c.wrong > 0 {
				t.Errorf("%s way: %d calls reached the outside: %s", way, c.wrong, c.harm)
			}
			if c.refused == c.calls {
				t.Errorf("%s way, %s: no call succeeded", way, at.op)
			}
			total += c.swaps
		}
	}
	t.Logf("all: swaps=%d", total)
}

// underAttack calls one operation until enough has happened.
func underAttack(t *testing.T, a *arena, at attempt, swaps uint64, met int) *tally {
	c := &tally{}
	start := a.sh.swaps.Load()
	for c.swaps < swaps || c.met < met || c.refused == c.calls && c.calls < 20_000 {
		err := c.sample(a, at.op, func() (string, error) { return at.call(t.Context(), a.tree) })
		if _, ok := errors.AsType[*fault.Error](err); err != nil && !ok {
			t.Fatalf("%s: error of type %T: %v", at.op, err, err)
		}
		if c.swaps = a.sh.swaps.Load() - start; c.wrong > 0 {
			a.rebuildOutside()
		}
	}
	return c
}

// TestSwapNaive does the same by paths that were checked, and shows that the attack
// works: each operation reaches the outside.
func TestSwapNaive(t *testing.T) {
	a := newArena(t)
	for _, at := range attempts(a) {
		c := &tally{}
		for deadline := time.Now().Add(30 * time.Second); c.wrong == 0 && time.Now().Before(deadline); {
			c.sample(a, at.op, func() (string, error) { return at.naive(a) })
		}
		t.Logf("naive, %-16s calls=%-6d met=%-6d refused=%-6d wrong=%d", at.op, c.calls, c.met, c.refused, c.wrong)
		if c.wrong == 0 {
			t.Errorf("naive %s: the attack did not work in %d calls", at.op, c.calls)
		}
		a.rebuildOutside()
	}
}

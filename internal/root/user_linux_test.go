package root

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
)

func needRoot(t testing.TB) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

// threadIDs returns the file system ids and the effective capabilities of a thread.
func threadIDs(t testing.TB, tid int) (fsuid, fsgid, groups, caps string) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", tid))
	must(t, err)
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 4 && f[0] == "Uid:":
			fsuid = f[4]
		case len(f) > 4 && f[0] == "Gid:":
			fsgid = f[4]
		case len(f) > 0 && f[0] == "Groups:":
			groups = strings.Join(f[1:], " ")
		case len(f) > 1 && f[0] == "CapEff:":
			caps = f[1]
		}
	}
	return fsuid, fsgid, groups, caps
}

// fileCaps are the capabilities that override file permissions (capabilities(7)):
// CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID.
const fileCaps = 0x1f

func TestDoRunsAsTheUser(t *testing.T) {
	needRoot(t)
	u := &User{Name: "someone", UID: 4242, GID: 4343, Groups: []int{7, 8}}
	must(t, u.Do(func() error {
		uid, gid, groups, caps := threadIDs(t, unix.Gettid())
		bits, err := strconv.ParseUint(caps, 16, 64)
		if uid != "4242" || gid != "4343" || groups != "7 8" || err != nil || bits&fileCaps != 0 {
			t.Errorf("in Do: uid %s gid %s groups %q caps %s", uid, gid, groups, caps)
		}
		if unix.Gettid() == unix.Getpid() {
			t.Error("Do runs on the program's first thread")
		}
		return nil
	}))
	want := errors.New("from fn")
	if err := u.Do(func() error { return want }); err != want {
		t.Errorf("Do = %v, want the function's error", err)
	}
}

// Whatever happens in Do, no thread that other goroutines can get is changed, and
// the first thread never is.
func TestDoLeavesOtherThreadsAlone(t *testing.T) {
	needRoot(t)
	users := []*User{{UID: 4242, GID: 4242}, {UID: 4343, GID: 4343}}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for n := range 20 {
				u := users[(i+n)%2]
				switch n % 4 {
				case 0:
					func() {
						defer func() {
							if recover() != "boom" {
								t.Error("the panic was lost")
							}
						}()
						u.Do(func() error { panic("boom") })
					}()
				case 1:
					var inner sync.WaitGroup
					inner.Go(func() { u.Do(func() error { runtime.Goexit(); return nil }); t.Error("Goexit was lost") })
					inner.Wait()
				default:
					u.Do(func() error {
						if fsuid() != u.UID {
							t.Errorf("uid %d in Do of %d", fsuid(), u.UID)
						}
						runtime.Gosched()
						return nil
					})
				}
				if fsuid() != 0 {
					t.Errorf("uid %d outside of Do", fsuid())
				}
				if uid, _, _, _ := threadIDs(t, os.Getpid()); uid != "0" {
					t.Errorf("the first thread has uid %s", uid)
				}
			}
		})
	}
	wg.Wait()
}

func TestOrdinaryUserCannotBeAnother(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("needs an ordinary user")
	}
	if _, err := LookupUser("root"); !errors.Is(err, fault.PermissionDenied) {
		t.Errorf("LookupUser(root) = %v, want permission_denied", err)
	}
	tr, dir := openTemp(t, Options{})
	put(t, dir+"/f", "x", 0o644)
	other := &User{Name: "other", UID: os.Geteuid() + 1}
	if _, err := tr.ReadFile(t.Context(), "f", ReadOptions{User: other}); !errors.Is(err, fault.PermissionDenied) {
		t.Errorf("read as another = %v, want permission_denied", err)
	}
	if err := tr.Remove(t.Context(), "f", RemoveOptions{User: other, Recursive: true}); !errors.Is(err, fault.PermissionDenied) {
		t.Errorf("remove as another = %v, want permission_denied", err)
	}
	me, err := LookupUser(strconv.Itoa(os.Geteuid()))
	must(t, err)
	if _, err := tr.ReadFile(t.Context(), "f", ReadOptions{User: me}); err != nil {
		t.Errorf("read as oneself: %v", err)
	}
}

func TestLookupUser(t *testing.T) {
	if _, err := LookupUser("no such user"); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("unknown user: %v, want invalid_argument", err)
	}
	needRoot(t)
	u, err := LookupUser(testUser)
	must(t, err)
	if u.UID != nobody || u.Name != testUser {
		t.Errorf("LookupUser = %+v", u)
	}
	if same, err := LookupUser(strconv.Itoa(nobody)); err != nil || same.Name != testUser {
		t.Errorf("by uid: %+v, %v", same, err)
	}
}

// What the user may do is the kernel's decision, with all that it knows.
func TestAsUser(t *testing.T) {
	needRoot(t)
	ctx := t.Context()
	for _, tt := range []struct {
		name string
		prep func(t *testing.T, dir string)
		do   func(tr *Tree, u *User) error
		ok   bool
	}{
		{"a group's file with the group", func(t *testing.T, dir string) {
			put(t, dir+"/f", "x", 0o640)
			must(t, os.Chown(dir+"/f", 0, 777))
		}, func(tr *Tree, u *User) error {
			_, err := tr.ReadFile(ctx, "f", ReadOptions{User: &User{UID: u.UID, GID: u.GID, Groups: []int{777}}})
			return err
		}, true},
		{"a group's file without the group", func(t *testing.T, dir string) {
			put(t, dir+"/f", "x", 0o640)
			must(t, os.Chown(dir+"/f", 0, 777))
		}, func(tr *Tree, u *User) error {
			_, err := tr.ReadFile(ctx, "f", ReadOptions{User: u})
			return err
		}, false},
		{"an access list for the user", func(t *testing.T, dir string) {
			put(t, dir+"/f", "x", 0o600)
			if err := setfacl("u:"+strconv.Itoa(nobody)+":rw", dir+"/f"); err != nil {
				t.Skipf("missing: setfacl or access lists: %v", err)
			}
		}, func(tr *Tree, u *User) error {
			_, err := tr.WriteFile(ctx, "f", strings.NewReader("new"), WriteOptions{User: u})
			return err
		}, true},
		{"another's file in a sticky directory is written in place", func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"/s", 0o755))
			must(t, unix.Chmod(dir+"/s", 0o1777))
			put(t, dir+"/s/f", "x", 0o666)
		}, func(tr *Tree, u *User) error {
			res, err := tr.WriteFile(ctx, "s/f", strings.NewReader("new"), WriteOptions{User: u})
			if err == nil && res.How != InPlace {
				return errors.New(res.How.String())
			}
			return err
		}, true},
		{"a writable file in a directory that is not", func(t *testing.T, dir string) {
			put(t, dir+"/s/f", "x", 0o666)
		}, func(tr *Tree, u *User) error {
			_, err := tr.WriteFile(ctx, "s/f", strings.NewReader("new"), WriteOptions{User: u})
			return err
		}, true},
		{"a file that is not writable in a directory that is", func(t *testing.T, dir string) {
			put(t, dir+"/s/f", "x", 0o644)
			must(t, os.Chmod(dir+"/s", 0o777))
		}, func(tr *Tree, u *User) error {
			_, err := tr.WriteFile(ctx, "s/f", strings.NewReader("new"), WriteOptions{User: u})
			return err
		}, false},
		{"mkdir in another's directory", nil, func(tr *Tree, u *User) error {
			return tr.Mkdir(ctx, "d", MkdirOptions{User: u})
		}, false},
		{"rename out of another's directory", func(t *testing.T, dir string) { put(t, dir+"/f", "x", 0o666) },
			func(tr *Tree, u *User) error { return tr.Rename(ctx, "f", "g", RenameOptions{User: u}) }, false},
		{"chmod of another's file", func(t *testing.T, dir string) { put(t, dir+"/f", "x", 0o666) },
			func(tr *Tree, u *User) error { return tr.Chmod(ctx, "f", 0o777, u) }, false},
		{"chmod of an own file that may not be read", func(t *testing.T, dir string) {
			put(t, dir+"/f", "x", 0)
			must(t, os.Chown(dir+"/f", nobody, nobody))
		}, func(tr *Tree, u *User) error { return tr.Chmod(ctx, "f", 0o600, u) }, true},
		{"list a directory that may be listed but not searched", func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"/d", 0o744))
			put(t, dir+"/d/f", "x", 0o644)
		}, func(tr *Tree, u *User) error { _, err := tr.List(ctx, "d", u); return err }, false},
		{"copy what may not be read", func(t *testing.T, dir string) {
			put(t, dir+"/f", "x", 0o600)
			must(t, os.Chmod(dir, 0o777))
		}, func(tr *Tree, u *User) error { return tr.Copy(ctx, "f", "g", CopyOptions{User: u}) }, false},
		{"copy a directory, which then is the user's", func(t *testing.T, dir string) {
			put(t, dir+"/d/f", "x", 0o644)
			must(t, os.Chmod(dir, 0o777))
		}, func(tr *Tree, u *User) error {
			err := tr.Copy(ctx, "d", "e", CopyOptions{User: u, Recursive: true})
			if i, serr := tr.Stat(ctx, "e/f", nil); err == nil && (serr != nil || i.UID != nobody) {
				return fmt.Errorf("%+v %v", i, serr)
			}
			return err
		}, true},
	} {
		for _, slow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/slow=%v", tt.name, slow), func(t *testing.T) {
				tr, dir := openTemp(t, Options{})
				tr.slowOnly = slow
				u, err := LookupUser(testUser)
				must(t, err)
				if tt.prep != nil {
					tt.prep(t, dir)
				}
				err = tt.do(tr, u)
				if _, ok := errors.AsType[*fault.Error](err); err != nil && !ok || (err == nil) != tt.ok {
					t.Errorf("error = %v, want ok=%v", err, tt.ok)
				}
			})
		}
	}
}

// Links planted in a sticky directory are not followed for others, where the
// kernel's fs.protected_symlinks says so: the slow way applies it by itself.
func TestProtectedSymlinks(t *testing.T) {
	needRoot(t)
	tr, dir := openTemp(t, Options{})
	tr.slowOnly, tr.protectedLinks = true, true
	put(t, dir+"/f", "x", 0o644)
	must(t, os.Mkdir(dir+"/tmp", 0o755))
	must(t, unix.Chmod(dir+"/tmp", 0o1777))
	for name, owner := range map[string]int{"theirs": 4242, "dirs": 0, "mine": nobody} {
		must(t, os.Symlink("../f", dir+"/tmp/"+name))
		must(t, os.Lchown(dir+"/tmp/"+name, owner, owner))
	}
	u, err := LookupUser(testUser)
	must(t, err)
	for name, ok := range map[string]bool{"theirs": false, "dirs": true, "mine": true} {
		if _, err := tr.ReadFile(t.Context(), "tmp/"+name, ReadOptions{User: u}); (err == nil) != ok {
			t.Errorf("%s: error = %v, want ok=%v", name, err, ok)
		}
	}
}

// In a workspace of another uid, what croft makes as root belongs to that uid from
// its first moment, also where that uid could not have made it.
func TestOwner(t *testing.T) {
	needRoot(t)
	tr, dir := openTemp(t, Options{Owner: &Owner{UID: 5001, GID: 5002}})
	ctx := t.Context()
	put(t, dir+"/theirs", "x", 0o600)
	put(t, dir+"/d/f", "x", 0o644)
	_, err := tr.WriteFile(ctx, "new/deep/f", strings.NewReader("x"), WriteOptions{})
	must(t, err)
	_, err = tr.WriteFile(ctx, "big", strings.NewReader(strings.Repeat("x", 2*memoryPayload)), WriteOptions{})
	must(t, err)
	must(t, tr.Mkdir(ctx, "dir", MkdirOptions{}))
	must(t, tr.Symlink(ctx, "f", "link", nil))
	must(t, tr.Copy(ctx, "d", "copied", CopyOptions{Recursive: true}))
	must(t, tr.Copy(ctx, "d/f", "copiedfile", CopyOptions{}))
	res, err := tr.WriteFile(ctx, "theirs", strings.NewReader("y"), WriteOptions{})
	must(t, err)
	if st := stat(t, dir+"/theirs"); st.Uid != 0 || res.How != Replaced {
		t.Errorf("an existing file now belongs to %d (%v)", st.Uid, res.How)
	}
	for _, name := range []string{"new", "new/deep", "new/deep/f", "big", "dir", "link", "copied", "copied/f", "copiedfile"} {
		if st := stat(t, dir+"/"+name); st.Uid != 5001 || st.Gid != 5002 {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
	}
}

package confine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/fault"
)

// owner returns uid and gid of the entry itself.
func owner(t *testing.T, path string) [2]uint32 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return [2]uint32{st.Uid, st.Gid}
}

func needRoot(t *testing.T) {
	t.Helper()
	if !confine.IsRoot() {
		t.Skip("needs root: only root's sessions have a uid of their own")
	}
}

// callersRoot starts a cell in a directory of the caller's.
func callersRoot(t *testing.T, dir string) *confine.Cell {
	t.Helper()
	return start(t, func(s *confine.Spec) {
		s.Workspace, s.Owned = confine.Bind{Path: dir}, false
	})
}

// TestCallersRoot: what commands make in a root of the caller's belongs on disk to the
// owner of the directory, and no other owner changes.
func TestCallersRoot(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fs    func(t *testing.T) string
		owner [2]uint32
	}{
		{"the temporary directory's file system, root's", func(t *testing.T) string { return t.TempDir() }, [2]uint32{0, 0}},
		{"ext4, root's", ext4, [2]uint32{0, 0}},
		{"tmpfs, root's", tmpfs, [2]uint32{0, 0}},
		{"tmpfs, another user's", tmpfs, [2]uint32{1234, 567}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			needRoot(t)
			dir := filepath.Join(tt.fs(t), "project")
			makeProject(t, dir, tt.owner)
			cell := callersRoot(t, dir)
			if cell.Root() != dir {
				t.Errorf("Root = %q, want the caller's path %q", cell.Root(), dir)
			}
			out := sh(t, cell, "echo b > b && mkdir d && echo >> mine && mv mine moved && ln -s x link && chmod 700 d && stat -c %U:%G . b moved theirs")
			if want := "croft:croft\ncroft:croft\ncroft:croft\nnobody:nogroup"; out.text != want {
				t.Errorf("owners inside: %q, want %q", out.text, want)
			}
			for _, name := range []string{"b", "d", "moved", "link", "."} {
				if got := owner(t, filepath.Join(dir, name)); got != tt.owner {
					t.Errorf("%s belongs to %v on disk, want %v", name, got, tt.owner)
				}
			}
			if got := owner(t, filepath.Join(dir, "theirs")); got != [2]uint32{4321, 4321} {
				t.Errorf("theirs belongs to %v on disk now", got)
			}
			if out := sh(t, cell, "echo x >> theirs"); out.status.Code == 0 {
				t.Error("a command wrote a file of another owner")
			}
			for _, m := range cell.Receipt().Mounts {
				if m.Target == dir && !m.IDMapped {
					t.Errorf("the receipt does not say that the workspace is idmapped: %+v", m)
				}
			}
		})
	}
}

// makeProject makes a directory of owner with a file of his and one of somebody else's.
func makeProject(t *testing.T, dir string, owner [2]uint32) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string][2]uint32{".": owner, "mine": owner, "theirs": {4321, 4321}} {
		p := filepath.Join(dir, name)
		if name != "." {
			if err := os.WriteFile(p, []byte("x\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(p, int(id[0]), int(id[1])); err != nil {
			t.Fatal(err)
		}
	}
}

func mountAt(t *testing.T, source, fstype, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount(source, dir, fstype, 0, options); err != nil {
		t.Skipf("a %s cannot be mounted here: %v", fstype, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func tmpfs(t *testing.T) string { return mountAt(t, "tmpfs", "tmpfs", "") }

// ext4 returns a directory on the file system of this package, which is the host's own.
func ext4(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "croft-test-") //nolint:usetesting // TMPDIR may be on another file system
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if st.Type != unix.EXT4_SUPER_MAGIC {
		t.Skip("/var/tmp is not on ext4")
	}
	return dir
}

func overlay(t *testing.T) string {
	t.Helper()
	base := tmpfs(t)
	for _, d := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return mountAt(t, "overlay", "overlay", "lowerdir="+base+"/lower,upperdir="+base+"/upper,workdir="+base+"/work")
}

// TestOverlay: on overlayfs a directory of root's cannot be used by a session that is
// not root's, and the error says what helps; one of an ordinary user is used as that user.
func TestOverlay(t *testing.T) {
	needRoot(t)
	base := overlay(t)
	dir := filepath.Join(base, "roots")
	makeProject(t, dir, [2]uint32{0, 0})
	l := confine.NewLauncher("")
	defer l.Close()
	spec := confine.Spec{Workspace: confine.Bind{Path: dir}, UID: 2_000_000_011}
	_, err := l.Start(context.Background(), spec)
	fe, ok := errors.AsType[*fault.Error](err)
	if !ok || fe.Code != fault.ConfinementUnavailable || fe.Reason != "idmap" || fe.Details["fix"] == "" {
		t.Errorf("Start on overlayfs: %#v", err)
	}
	if !errors.Is(err, unix.EINVAL) {
		t.Errorf("the kernel's errno is lost: %v", err)
	}

	dir = filepath.Join(base, "users")
	makeProject(t, dir, [2]uint32{1234, 1234})
	cell := callersRoot(t, dir)
	if out := sh(t, cell, "echo b > b; stat -c %U . b"); out.text != "croft\ncroft" {
		t.Errorf("owners inside: %+v", out)
	}
	if got := owner(t, filepath.Join(dir, "b")); got != [2]uint32{1234, 1234} {
		t.Errorf("b belongs to %v on disk", got)
	}
	if m := cell.Receipt().UIDMap; len(m) != 1 || m[0].Outside != 1234 {
		t.Errorf("uid map %+v", m)
	}
}

// TestOwned: croft's own workspace belongs to the session's uid, as it is.
func TestOwned(t *testing.T) {
	needRoot(t)
	var uid int
	cell := start(t, func(s *confine.Spec) { uid = s.UID })
	if out := sh(t, cell, "echo b > b; id -u; stat -c %u . b"); out.text != "1000\n1000\n1000" {
		t.Errorf("inside: %+v", out)
	}
	if m := cell.Receipt().UIDMap; len(m) != 1 || m[0].Outside != uint32(uid) || m[0].Inside != 1000 {
		t.Errorf("uid map %+v, want %d", m, uid)
	}
}

// TestGrants: a grant is there with its rights, a file as well as a directory, also
// inside the workspace.
func TestGrants(t *testing.T) {
	ro, rw, ws := t.TempDir(), t.TempDir(), t.TempDir()
	file := filepath.Join(ro, "file")
	for _, p := range []string{file, filepath.Join(rw, "f"), filepath.Join(ws, "own")} {
		if err := os.WriteFile(p, []byte(p), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	inner := filepath.Join(ws, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	single := filepath.Join(t.TempDir(), "single")
	if err := os.WriteFile(single, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	cell := start(t, func(s *confine.Spec) {
		s.Workspace, s.Owned = confine.Bind{Path: ws}, false
		s.Grants = []confine.Bind{
			{Path: ro, ReadOnly: true}, {Path: rw}, {Path: inner, ReadOnly: true}, {Path: single, Target: "/granted/file"},
		}
	})
	for _, tt := range []struct {
		line string
		ok   bool
	}{
		{"cat " + file, true},
		{"echo x > " + file, false},
		{"rm " + file, false},
		{"touch " + ro + "/new", false},
		{"echo x > " + rw + "/f", true},
		{"touch " + rw + "/new", true},
		{"touch inner/new", false},
		{"rmdir inner", false},
		{"mv inner other", false},
		{"touch new", true},
		{"echo y > /granted/file", true},
		{"ls /granted", true},
		{"touch /granted/more", false},
	} {
		if out := sh(t, cell, tt.line); (out.status.Code == 0) != tt.ok {
			t.Errorf("%s: %+v, want ok=%v", tt.line, out, tt.ok)
		}
	}
	if b, err := os.ReadFile(single); err != nil || string(b) != "y\n" {
		t.Errorf("the granted file holds %q, %v", b, err)
	}
}

// TestReplacedWorkspace: what commands see is the directory that was opened, or
// nothing.
func TestReplacedWorkspace(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "ws")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "right"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	held, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	l := confine.NewLauncher("")
	defer l.Close()
	cell, err := l.Start(context.Background(), confine.Spec{
		Workspace: confine.Bind{Path: dir, Dir: held, Target: "/workspace"}, UID: 2_000_000_012,
	})
	if !confine.IsRoot() {
		if !errors.Is(err, fault.WorkspaceStartError) {
			t.Errorf("Start with a replaced directory: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Close(context.Background())
	if out := sh(t, cell, "ls"); out.text != "right" {
		t.Errorf("commands see %+v", out)
	}
}

// TestSupplementaryGroups: root's sessions have no group but their own.
func TestSupplementaryGroups(t *testing.T) {
	needRoot(t)
	old, err := syscall.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setgroups([]int{0, 4, 27}); err != nil {
		t.Skipf("groups cannot be set here: %v", err)
	}
	defer syscall.Setgroups(old)
	if out := sh(t, start(t, nil), "id -G"); out.text != "1000" {
		t.Errorf("groups inside: %+v", out)
	}
}

package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/state"
	"github.com/croftdev/croft/snapshot"
)

func openState(t *testing.T) *state.Dir {
	t.Helper()
	d, err := state.Open(filepath.Join(t.TempDir(), "croft"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func newRecord() state.Record {
	return state.Record{ID: state.NewID(), RootOwned: true, Snapshot: snapshot.Spec{Type: snapshot.None, ID: "n"}}
}

func newSession(t *testing.T, d *state.Dir) *state.Lock {
	t.Helper()
	l, err := d.NewSession(newRecord())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Release() })
	return l
}

// below lists everything below dir, relative to it.
func below(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestOpenMakesEverythingPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "croft")
	if err := os.MkdirAll(filepath.Join(path, "snapshots"), 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := state.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"", "sessions", "snapshots", "trash", "run"} {
		fi, err := os.Stat(filepath.Join(path, name))
		if err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s/: mode %v, %v, want 0700", name, fi.Mode().Perm(), err)
		}
	}
}

func TestOpenRefusesWhatOthersControl(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
	}{
		{"others may write", func(t *testing.T, path string) { mkdir(t, path, 0o777) }},
		{"the group may write", func(t *testing.T, path string) { mkdir(t, path, 0o720) }},
		{"others may write in a part", func(t *testing.T, path string) {
			mkdir(t, path, 0o700)
			mkdir(t, filepath.Join(path, "sessions"), 0o703)
		}},
		{"belongs to someone else", func(t *testing.T, path string) {
			if os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			mkdir(t, path, 0o700)
			if err := os.Chown(path, 54321, 54321); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "croft")
			tt.make(t, path)
			d, err := state.Open(path)
			if err == nil {
				d.Close()
			}
			if !errors.Is(err, fault.PermissionDenied) {
				t.Errorf("Open = %v, want permission_denied", err)
			}
		})
	}
	t.Run("a part is a link", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "croft")
		mkdir(t, path, 0o700)
		if err := os.Symlink(t.TempDir(), filepath.Join(path, "trash")); err != nil {
			t.Fatal(err)
		}
		if _, err := state.Open(path); !errors.Is(err, fault.NotAvailable) {
			t.Errorf("Open = %v, want not_available", err)
		}
	})
}

func mkdir(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // Mkdir is under the umask
		t.Fatal(err)
	}
}

func TestStateDir(t *testing.T) {
	for _, tt := range []struct {
		name string
		goos string
		home string
		env  map[string]string
		want string
	}{
		{"named", "linux", "/home/u", map[string]string{"CROFT_DIR": "/c/", "XDG_STATE_HOME": "/x"}, "/c"},
		{"XDG", "linux", "/home/u", map[string]string{"XDG_STATE_HOME": "/x/"}, "/x/croft"},
		{"XDG without a home", "linux", "", map[string]string{"XDG_STATE_HOME": "/x"}, "/x/croft"},
		{"XDG empty", "linux", "/home/u", map[string]string{"XDG_STATE_HOME": ""}, "/home/u/.local/state/croft"},
		{"XDG relative", "linux", "/home/u", map[string]string{"XDG_STATE_HOME": "x"}, "/home/u/.local/state/croft"},
		{"home", "freebsd", "/home/u", nil, "/home/u/.local/state/croft"},
		{"macOS", "darwin", "/Users/u", map[string]string{"XDG_STATE_HOME": "/x"}, "/Users/u/Library/Application Support/croft"},
		{"nothing", "linux", "", nil, ""},
	} {
		h := state.Host{GOOS: tt.goos, Home: tt.home, Env: func(name string) string { return tt.env[name] }}
		got, err := h.StateDir()
		if got != tt.want || (tt.want == "") != errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: StateDir = %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestSnapshotSpec(t *testing.T) {
	d := openState(t)
	own := filepath.Join(d.Path(), "snapshots")
	for _, tt := range []struct {
		asked *snapshot.Spec
		want  snapshot.Spec
	}{
		{nil, snapshot.Spec{Type: snapshot.None, ID: "i"}},
		{&snapshot.Spec{Type: snapshot.Tar}, snapshot.Spec{Type: snapshot.Tar, ID: "i", BasePath: own}},
		{&snapshot.Spec{Type: snapshot.Tar, ID: "n", BasePath: "/s"}, snapshot.Spec{Type: snapshot.Tar, ID: "n", BasePath: "/s"}},
	} {
		if got := d.SnapshotSpec(tt.asked, "i"); got != tt.want {
			t.Errorf("%+v: %+v, want %+v", tt.asked, got, tt.want)
		}
	}
}

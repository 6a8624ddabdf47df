package root

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A write that replaces a file makes no name in the workspace where the staging
// directory lies on the same mount, so that a kill leaves nothing there.
func TestReplaceStagesOutsideTheWorkspace(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stage func(t *testing.T, dir string) string
		made  bool // a temporary name is made beside the target
	}{
		{"no stage", nil, true},
		{"same mount", func(t *testing.T, dir string) string { return filepath.Join(dir, "stage") }, false},
		{"another mount", func(t *testing.T, dir string) string {
			var here, there unix.Stat_t
			shm, err := os.MkdirTemp("/dev/shm", "root-test-") //nolint:usetesting // must lie on another mount
			if err != nil {
				t.Skipf("needs a tmpfs at /dev/shm: %v", err)
			}
			t.Cleanup(func() { os.RemoveAll(shm) })
			must(t, unix.Stat(dir, &here))
			must(t, unix.Stat(shm, &there))
			if here.Dev == there.Dev {
				t.Skip("needs a tmpfs at /dev/shm that does not hold the temporary files")
			}
			return shm
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := tempDir(t)
			opts := Options{Path: filepath.Join(dir, "ws")}
			must(t, os.Mkdir(opts.Path, 0o755))
			must(t, os.Mkdir(filepath.Join(dir, "stage"), 0o700))
			must(t, os.WriteFile(filepath.Join(opts.Path, "f"), []byte("old"), 0o640))
			if tt.stage != nil {
				stage, err := os.Open(tt.stage(t, dir))
				must(t, err)
				defer stage.Close()
				opts.Stage = stage
			}
			tree, err := Open(opts)
			must(t, err)
			defer tree.Close()
			created := watchCreated(t, opts.Path)
			res, err := tree.WriteFile(t.Context(), "f", strings.NewReader("new"), WriteOptions{})
			must(t, err)
			if res.How != Replaced {
				t.Fatalf("the write %v, the test is about replacing", res.How)
			}
			if got := created(); (len(got) > 0) != tt.made {
				t.Errorf("names made in the workspace: %q, want some: %v", got, tt.made)
			}
			if data, err := os.ReadFile(filepath.Join(opts.Path, "f")); string(data) != "new" {
				t.Errorf("content = %q, %v", data, err)
			}
			if left, err := os.ReadDir(filepath.Join(dir, "stage")); err != nil || len(left) > 0 {
				t.Errorf("left in the stage: %v, %v", left, err)
			}
		})
	}
}

// watchCreated returns the names made in dir since the call (inotify(7)).
func watchCreated(t *testing.T, dir string) func() []string {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	_, err = unix.InotifyAddWatch(fd, dir, unix.IN_CREATE)
	must(t, err)
	return func() (names []string) {
		buf := make([]byte, 4096)
		n, _ := unix.Read(fd, buf)
		for at := 0; at < n; {
			event := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
			at += unix.SizeofInotifyEvent
			names = append(names, strings.TrimRight(string(buf[at:at+int(event.Len)]), "\x00"))
			at += int(event.Len)
		}
		return names
	}
}

package root

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
)

// both runs a test on the fast and on the slow way.
func both(t *testing.T, opts Options, fn func(t *testing.T, tr *Tree, ws string)) {
	for _, slow := range []bool{false, true} {
		t.Run(map[bool]string{false: "fast", true: "slow"}[slow], func(t *testing.T) {
			tr, ws := openTemp(t, opts)
			tr.slowOnly = slow
			fn(t, tr, ws)
		})
	}
}

// A planted fifo, socket or device is refused and keeps nobody waiting, whatever is
// done with it.
func TestSpecialFiles(t *testing.T) {
	both(t, Options{}, func(t *testing.T, tr *Tree, ws string) {
		ctx := t.Context()
		must(t, unix.Mkfifo(ws+"/fifo", 0o666))
		names := []string{"link", "fifo", "socket"}
		must(t, os.Symlink("fifo", ws+"/link"))
		s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		must(t, err)
		defer unix.Close(s)
		t.Chdir(ws) // the address of a socket is short
		must(t, unix.Bind(s, &unix.SockaddrUnix{Name: "socket"}))
		if os.Geteuid() == 0 && unix.Mknod(ws+"/null", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) == nil {
			names = append(names, "null")
		}
		for _, name := range names {
			_, rerr := tr.ReadFile(ctx, name, ReadOptions{})
			_, oerr := tr.Open(ctx, name, nil)
			_, werr := tr.WriteFile(ctx, name, strings.NewReader("x"), WriteOptions{})
			_, aerr := tr.AppendFile(ctx, name, strings.NewReader("x"), WriteOptions{})
			cerr := tr.Copy(ctx, name, "copy", CopyOptions{})
			for op, err := range map[string]error{"read": rerr, "open": oerr, "write": werr, "append": aerr, "copy": cerr} {
				if e, _ := errors.AsType[*fault.Error](err); e == nil || e.Reason != "not_regular" {
					t.Errorf("%s of %s: %v, want not_regular", op, name, err)
				}
			}
			if i, err := tr.Stat(ctx, name, nil); err != nil || i.Kind != Other {
				t.Errorf("stat of %s = %+v, %v", name, i, err)
			}
			must(t, tr.Remove(ctx, name, RemoveOptions{}))
		}
	})
}

// Paths longer than the kernel takes at once, and deeper than the descriptors that
// a lookup holds, work; so do their parents.
func TestDeepNames(t *testing.T) {
	both(t, Options{}, func(t *testing.T, tr *Tree, ws string) {
		ctx := t.Context()
		const depth = 600
		comp := "directory-" // 600 of 11 bytes are more than PATH_MAX
		dir := strings.TrimSuffix(strings.Repeat(comp+"/", depth), "/")
		must(t, tr.Mkdir(ctx, dir, MkdirOptions{Parents: true}))
		_, err := tr.WriteFile(ctx, dir+"/f", strings.NewReader("deep"), WriteOptions{})
		must(t, err)
		data, err := tr.ReadFile(ctx, dir+"/f", ReadOptions{})
		if err != nil || string(data) != "deep" {
			t.Errorf("read = %q, %v", data, err)
		}
		// An absolute name takes ".." as the kernel does, past what is held.
		up := ws + "/" + dir + strings.Repeat("/..", depth-1) + "/" + comp + "/../../top"
		put(t, ws+"/top", "top", 0o644)
		data, err = tr.ReadFile(ctx, up, ReadOptions{})
		if err != nil || string(data) != "top" {
			t.Errorf("read by .. = %q, %v", data, err)
		}
		must(t, tr.Rename(ctx, dir+"/f", "g", RenameOptions{}))
		must(t, tr.Remove(ctx, comp, RemoveOptions{Recursive: true}))
		onlyEntries(t, ws, "top", "g")
		if _, err := tr.ReadFile(ctx, strings.Repeat("n", 256), ReadOptions{}); err == nil {
			t.Error("a component of 256 bytes was read")
		}
	})
}

// An entry with a backslash in its own name is reached by it; else it separates.
func TestBackslash(t *testing.T) {
	both(t, Options{}, func(t *testing.T, tr *Tree, ws string) {
		put(t, ws+`/a\b`, "own", 0o644)
		put(t, ws+"/c/d", "below", 0o644)
		for name, want := range map[string]string{`a\b`: "own", `c\d`: "below", `.\c\d`: "below"} {
			if data, err := tr.ReadFile(t.Context(), name, ReadOptions{}); err != nil || string(data) != want {
				t.Errorf("%s = %q, %v", name, data, err)
			}
		}
		if _, err := tr.ReadFile(t.Context(), `..\x`, ReadOptions{}); reasonOf(err) != escapes {
			t.Errorf("error = %v", err)
		}
		must(t, tr.Remove(t.Context(), `a\b`, RemoveOptions{}))
		onlyEntries(t, ws, "c")
	})
}

func TestLinks(t *testing.T) {
	both(t, Options{}, func(t *testing.T, tr *Tree, ws string) {
		ctx := t.Context()
		put(t, ws+"/d/f", "inside", 0o644)
		must(t, os.Symlink("l40", ws+"/l41"))
		must(t, os.Symlink("d/f", ws+"/l1"))
		for i := 2; i <= 40; i++ {
			must(t, os.Symlink(fmt.Sprint("l", i-1), fmt.Sprint(ws, "/l", i)))
		}
		must(t, os.Symlink("b", ws+"/a"))
		must(t, os.Symlink("a", ws+"/b"))
		must(t, os.Symlink("d/none", ws+"/dangling"))
		must(t, os.Symlink("d/f/", ws+"/slash"))
		for name, want := range map[string]string{
			"l40": "", "l41": "workspace_archive_read_error/link_loop", "a": "workspace_archive_read_error/link_loop",
			"a/x": "workspace_archive_read_error/link_loop", "dangling": notFound, "slash": "workspace_archive_read_error/not_directory",
			"d/f/x": "workspace_archive_read_error/not_directory", "none/x": notFound, "a\x00b": "invalid_manifest_path/nul_byte",
			ws + "/none/../d/f": "", ws + "/d/f/../f": "workspace_archive_read_error/not_directory",
			"/proc/self/root" + ws + "/d/f": "", "/dev/fd/0": notIn,
		} {
			data, err := tr.ReadFile(ctx, name, ReadOptions{})
			if reasonOf(err) != want || want == "" && string(data) != "inside" {
				t.Errorf("%q: %q, %v; want %q", name, data, err, want)
			}
		}
		if target, err := tr.Readlink(ctx, "dangling", nil); target != "d/none" || err != nil {
			t.Errorf("readlink = %q, %v", target, err)
		}
		_, err := tr.Readlink(ctx, "d/f", nil)
		if reasonOf(err) != "workspace_archive_read_error/not_link" {
			t.Errorf("readlink of a file: %v", err)
		}
		if i, err := tr.Lstat(ctx, "dangling", nil); err != nil || i.Kind != Symlink || i.Name != "dangling" {
			t.Errorf("lstat = %+v, %v", i, err)
		}
		if i, err := tr.Stat(ctx, "l40", nil); err != nil || i.Kind != File || i.Size != 6 {
			t.Errorf("stat = %+v, %v", i, err)
		}
		if p, err := tr.Resolve(ctx, "dangling", ResolveOptions{}); p != ws+"/d/none" || err != nil {
			t.Errorf("resolve = %q, %v", p, err)
		}
	})
}

func TestReadRanges(t *testing.T) {
	tr, ws := openTemp(t, Options{})
	put(t, ws+"/f", "0123456789", 0o644)
	for _, tt := range []struct {
		offset, limit int64
		want          string
	}{{0, 0, "0123456789"}, {0, 3, "012"}, {3, 3, "345"}, {8, 5, "89"}, {10, 1, ""}, {11, 0, ""}, {100, 5, ""}, {4, 0, "456789"}, {0, 10, "0123456789"}, {0, 1 << 40, "0123456789"}} {
		data, err := tr.ReadFile(t.Context(), "f", ReadOptions{Offset: tt.offset, Limit: tt.limit})
		if err != nil || string(data) != tt.want || data == nil {
			t.Errorf("offset %d limit %d = %q, %v; want %q", tt.offset, tt.limit, data, err, tt.want)
		}
	}
	if _, err := tr.ReadFile(t.Context(), "f", ReadOptions{Offset: -1}); err == nil {
		t.Error("a negative offset was taken")
	}
	big := strings.Repeat("0123456789", 1_000_000)
	put(t, ws+"/big", big, 0o644)
	if data, err := tr.ReadFile(t.Context(), "big", ReadOptions{Offset: 5}); err != nil || string(data) != big[5:] {
		t.Errorf("big: %d bytes, %v", len(data), err)
	}
}

// Files of /proc say that they are empty.
func TestReadUnsizedFiles(t *testing.T) {
	tr, err := Open(Options{Path: t.TempDir(), Grants: []Grant{{Path: "/proc/self/status"}, {Path: "/proc/cpuinfo"}}})
	must(t, err)
	defer tr.Close()
	for _, name := range []string{"/proc/self/status", "/proc/cpuinfo"} {
		data, err := tr.ReadFile(t.Context(), name, ReadOptions{})
		if err != nil || len(data) < 100 || !strings.HasSuffix(string(data), "\n") {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
		if data, err := tr.ReadFile(t.Context(), name, ReadOptions{Limit: 7}); err != nil || len(data) != 7 {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

func TestList(t *testing.T) {
	both(t, Options{}, func(t *testing.T, tr *Tree, ws string) {
		for i := range 1200 {
			put(t, fmt.Sprintf("%s/many/%04d-%s", ws, i, strings.Repeat("n", i%200)), "", 0o644)
		}
		entries, err := tr.List(t.Context(), "many", nil)
		must(t, err)
		std, err := os.ReadDir(ws + "/many")
		must(t, err)
		if len(entries) != len(std) {
			t.Fatalf("%d entries, want %d", len(entries), len(std))
		}
		for i, e := range entries {
			si, err := std[i].Info()
			must(t, err)
			if e.Name != si.Name() || e.Mode != si.Mode() || e.Size != si.Size() || !e.ModTime.Equal(si.ModTime()) {
				t.Fatalf("entry %d = %+v, want %v", i, e, si)
			}
		}
		if _, err := tr.List(t.Context(), "many/"+entries[0].Name, nil); reasonOf(err) != "workspace_archive_read_error/not_directory" {
			t.Errorf("list of a file: %v", err)
		}
	})
}

func TestRenameAndCopy(t *testing.T) {
	both(t, Options{}, func(t *testing.T, tr *Tree, ws string) {
		ctx := t.Context()
		put(t, ws+"/d/sub/f", "text", 0o751)
		put(t, ws+"/f", "top", 0o640)
		must(t, os.Symlink("/etc/passwd", ws+"/d/out"))
		must(t, os.Mkdir(ws+"/d/empty", 0o700))
		for _, tt := range []struct {
			name string
			err  error
			want string
		}{
			{"copy a file", tr.Copy(ctx, "f", "g", CopyOptions{}), ""},
			{"over an existing one", tr.Copy(ctx, "d/sub/f", "g", CopyOptions{}), ""},
			{"not over an existing one", tr.Copy(ctx, "f", "g", CopyOptions{NoReplace: true}), "workspace_archive_write_error/exists"},
			{"copy what is missing", tr.Copy(ctx, "none", "h", CopyOptions{}), notFound},
			{"copy to a missing directory", tr.Copy(ctx, "f", "none/h", CopyOptions{}), "workspace_archive_write_error/missing"},
			{"copy a directory needs recursive", tr.Copy(ctx, "d", "e", CopyOptions{}), "workspace_archive_read_error/is_directory"},
			{"copy a directory", tr.Copy(ctx, "d", "e", CopyOptions{Recursive: true}), ""},
			{"not over an existing one", tr.Copy(ctx, "d", "e", CopyOptions{Recursive: true}), "workspace_archive_write_error/exists"},
			{"not into itself", tr.Copy(ctx, "d", "d/sub/x", CopyOptions{Recursive: true}), "workspace_archive_write_error/into_itself"},
			{"copy an escape", tr.Copy(ctx, "d/out", "h", CopyOptions{}), escapes},
			{"copy out", tr.Copy(ctx, "f", "../h", CopyOptions{}), escapes},
			{"rename", tr.Rename(ctx, "e/sub/f", "r", RenameOptions{}), ""},
			{"rename over", tr.Rename(ctx, "r", "f", RenameOptions{}), ""},
			{"not over", tr.Rename(ctx, "g", "f", RenameOptions{NoReplace: true}), "workspace_archive_write_error/exists"},
			{"rename what is missing", tr.Rename(ctx, "none", "x", RenameOptions{}), notFound},
			{"rename to a missing directory", tr.Rename(ctx, "f", "none/x", RenameOptions{}), "workspace_archive_write_error/missing"},
			{"rename into itself", tr.Rename(ctx, "d", "d/sub/x", RenameOptions{}), "workspace_archive_write_error/into_itself"},
			{"rename the root", tr.Rename(ctx, ".", "x", RenameOptions{}), "workspace_archive_write_error/is_root"},
			{"rename over the root", tr.Rename(ctx, "d", ws, RenameOptions{}), "workspace_archive_write_error/is_root"},
			{"rename a link, not its target", tr.Rename(ctx, "d/out", "moved", RenameOptions{}), ""},
			{"symlink over something", tr.Symlink(ctx, "x", "f", nil), "workspace_archive_write_error/exists"},
			{"mkdir over a link to a file", tr.Mkdir(ctx, "moved", MkdirOptions{}), escapes},
		} {
			if got := reasonOf(tt.err); got != tt.want {
				t.Errorf("%s: %q, want %q (%v)", tt.name, got, tt.want, tt.err)
			}
		}
		if content(ws+"/f") != "text" || stat(t, ws+"/f").Mode&0o777 != 0o751 || content(ws+"/g") != "text" {
			t.Error("renamed or copied content is wrong")
		}
		if target, _ := os.Readlink(ws + "/e/out"); target != "/etc/passwd" || stat(t, ws+"/e/empty").Mode&0o777 != 0o700 {
			t.Error("the copied directory is not like the first")
		}
		onlyEntries(t, ws, "d", "e", "f", "g", "moved")
	})
}

// A recursive copy that fails leaves nothing.
func TestCopyFailsWhole(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("needs an ordinary user: modes do not bind root")
	}
	tr, ws := openTemp(t, Options{})
	put(t, ws+"/d/a/f", "x", 0o644)
	put(t, ws+"/d/z/f", "x", 0)
	err := tr.Copy(t.Context(), "d", "e", CopyOptions{Recursive: true})
	e, _ := errors.AsType[*fault.Error](err)
	if e == nil || !errors.Is(err, unix.EACCES) || e.Path != "d/z/f" || e.Code != fault.WorkspaceArchiveReadError {
		t.Errorf("error = %v", err)
	}
	onlyEntries(t, ws, "d")
}

// What stays after a recursive removal is named.
func TestRemoveNamesWhatStays(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("needs an ordinary user: modes do not bind root")
	}
	tr, ws := openTemp(t, Options{})
	put(t, ws+"/d/keep/f", "x", 0o644)
	put(t, ws+"/d/gone/f", "x", 0o644)
	must(t, os.Chmod(ws+"/d/keep", 0o555))
	defer os.Chmod(ws+"/d/keep", 0o755)
	err := tr.Remove(t.Context(), "d", RemoveOptions{Recursive: true})
	e, _ := errors.AsType[*fault.Error](err)
	left, _ := e.Details["left"].([]string)
	if e.Reason != "permission" || len(left) != 1 || left[0] != "d/keep/f" {
		t.Errorf("error = %v, left = %v", err, left)
	}
	if _, err := os.Lstat(filepath.Join(ws, "d/gone")); err == nil {
		t.Error("what could be removed was not")
	}
}

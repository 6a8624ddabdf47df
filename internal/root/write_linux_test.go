package root

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
)

// openTemp opens a tree on a fresh workspace and returns both.
func openTemp(t testing.TB, opts Options) (*Tree, string) {
	dir := tempDir(t) + "/ws"
	must(t, os.MkdirAll(dir, 0o755))
	opts.Path = dir
	tr, err := Open(opts)
	must(t, err)
	t.Cleanup(func() { tr.Close() })
	return tr, dir
}

func put(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(text), 0o600))
	must(t, unix.Chmod(path, modeBits(mode)))
}

// content returns what is at path, or "" if nothing is.
func content(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

func stat(t testing.TB, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Lstat(path, &st))
	return st
}

// Replacing a file must lose nothing of it: where it would, the content changes in place.
func TestWriteKeepsWhatTheFileHas(t *testing.T) {
	asRoot := os.Geteuid() == 0
	for _, tt := range []struct {
		name   string
		root   bool // only root can set it up
		prep   func(t *testing.T, f string) error
		want   How
		verify func(t *testing.T, f string) bool
	}{
		{name: "plain", want: Replaced},
		{name: "mode", prep: func(t *testing.T, f string) error { return os.Chmod(f, 0o751) }, want: Replaced,
			verify: func(t *testing.T, f string) bool { return stat(t, f).Mode&0o7777 == 0o751 }},
		{name: "setuid goes, since it was given to the old content",
			prep: func(t *testing.T, f string) error { return unix.Chmod(f, 0o6755) }, want: Replaced,
			verify: func(t *testing.T, f string) bool { return stat(t, f).Mode&0o7777 == 0o755 }},
		{name: "hard link", prep: func(t *testing.T, f string) error { return os.Link(f, f+".2") }, want: InPlace,
			verify: func(t *testing.T, f string) bool { return content(f+".2") == "new" }},
		{name: "owner", root: true, prep: func(t *testing.T, f string) error { return os.Chown(f, 123, 456) }, want: Replaced,
			verify: func(t *testing.T, f string) bool { st := stat(t, f); return st.Uid == 123 && st.Gid == 456 }},
		{name: "attribute", prep: func(t *testing.T, f string) error { return unix.Setxattr(f, "user.croft", []byte("v"), 0) }, want: Replaced,
			verify: func(t *testing.T, f string) bool {
				buf := make([]byte, 8)
				n, err := unix.Getxattr(f, "user.croft", buf)
				return err == nil && string(buf[:n]) == "v"
			}},
		{name: "access list", prep: func(t *testing.T, f string) error { return setfacl("u:123:rw", f) }, want: Replaced,
			verify: func(t *testing.T, f string) bool { return hasACL(f) }},
		{name: "no access list although the directory passes one on",
			prep: func(t *testing.T, f string) error { return setfacl("d:u:123:rw", filepath.Dir(f)) }, want: Replaced,
			verify: func(t *testing.T, f string) bool { return !hasACL(f) }},
	} {
		for _, named := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: ", named temporary file"}[named], func(t *testing.T) {
				if tt.root && !asRoot {
					t.Skip("needs root")
				}
				unnamedTemps = !named
				defer func() { unnamedTemps = true }()
				tr, dir := openTemp(t, Options{})
				f := dir + "/f"
				put(t, f, "old and longer", 0o644)
				if tt.prep != nil {
					if err := tt.prep(t, f); errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, exec.ErrNotFound) {
						t.Skipf("missing: %v", err)
					} else {
						must(t, err)
					}
				}
				res, err := tr.WriteFile(t.Context(), "f", strings.NewReader("new"), WriteOptions{})
				must(t, err)
				if res.How != tt.want || res.Bytes != 3 || content(f) != "new" {
					t.Errorf("WriteFile = %v %d, content %q; want %v", res.How, res.Bytes, content(f), tt.want)
				}
				if tt.verify != nil && !tt.verify(t, f) {
					t.Error("something was lost")
				}
				onlyEntries(t, dir, "f", "f.2")
			})
		}
	}
}

func setfacl(rule, path string) error {
	return exec.Command("setfacl", "-m", rule, path).Run()
}

func hasACL(path string) bool {
	n, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}

// onlyEntries fails if the directory holds anything else: no temporary file may stay.
func onlyEntries(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		found := false
		for _, n := range names {
			found = found || n == e.Name()
		}
		if !found {
			t.Errorf("%s was left in the directory", e.Name())
		}
	}
}

func TestWriteSizesAndWays(t *testing.T) {
	for _, size := range []int{0, 1, 4095, 4096, 4097, memoryPayload - 1, memoryPayload, memoryPayload + 1, 3*memoryPayload + 7} {
		for _, named := range []bool{false, true} {
			unnamedTemps = !named
			tr, dir := openTemp(t, Options{})
			data := bytes.Repeat([]byte("0123456789abcdef\n"), size/17+1)[:size]
			check := func(name string, want How, all []byte) func(WriteResult, error) {
				return func(res WriteResult, err error) {
					t.Helper()
					must(t, err)
					got, _ := os.ReadFile(dir + "/" + name)
					if res.How != want || res.Bytes != int64(size) || !bytes.Equal(got, all) {
						t.Errorf("size %d, %s: %v, %d bytes, %d in the file; want %v", size, name, res.How, res.Bytes, len(got), want)
					}
				}
			}
			rd := func() io.Reader { return iotest.HalfReader(bytes.NewReader(data)) }
			ctx := t.Context()
			check("n", Created, data)(tr.WriteFile(ctx, "n", rd(), WriteOptions{}))
			put(t, dir+"/r", "old", 0o644)
			check("r", Replaced, data)(tr.WriteFile(ctx, "r", rd(), WriteOptions{}))
			put(t, dir+"/i", strings.Repeat("old", 100_000), 0o644)
			must(t, os.Link(dir+"/i", dir+"/i2"))
			check("i", InPlace, data)(tr.WriteFile(ctx, "i", rd(), WriteOptions{}))
			put(t, dir+"/a", "old", 0o644)
			check("a", Appended, append([]byte("old"), data...))(tr.AppendFile(ctx, "a", rd(), WriteOptions{}))
			check("an", Created, data)(tr.AppendFile(ctx, "an", rd(), WriteOptions{}))
			check("p/q/n", Created, data)(tr.WriteFile(ctx, "p/q/n", rd(), WriteOptions{}))
			onlyEntries(t, dir, "n", "r", "i", "i2", "a", "an", "p")
			onlyEntries(t, dir+"/p/q", "n")
		}
	}
	unnamedTemps = true
}

func TestWriteOptions(t *testing.T) {
	defer unix.Umask(unix.Umask(0o022))
	tr, dir := openTemp(t, Options{})
	put(t, dir+"/f", "old", 0o600)
	must(t, os.Symlink("nowhere", dir+"/dangling"))
	must(t, os.Mkdir(dir+"/d", 0o755))
	mode := func(m fs.FileMode) *fs.FileMode { return &m }
	for _, tt := range []struct {
		name, file string
		opts       WriteOptions
		reason     string // of the error
		mode       uint32
	}{
		{name: "default mode", file: "n1", mode: 0o644},
		{name: "exact mode whatever the umask", file: "n2", opts: WriteOptions{Mode: mode(0o666)}, mode: 0o666},
		{name: "mode zero", file: "n3", opts: WriteOptions{Mode: mode(0)}, mode: 0},
		{name: "mode of an existing file", file: "f", opts: WriteOptions{Mode: mode(0o640)}, mode: 0o640},
		{name: "exclusive on a file", file: "f", opts: WriteOptions{Exclusive: true}, reason: "exists"},
		{name: "exclusive on a link to nothing", file: "dangling", opts: WriteOptions{Exclusive: true}, reason: "exists"},
		{name: "exclusive on nothing", file: "n4", opts: WriteOptions{Exclusive: true}, mode: 0o644},
		{name: "no parents", file: "x/y", opts: WriteOptions{NoParents: true}, reason: "missing"},
		{name: "a directory", file: "d", reason: "is_directory"},
		{name: "through a link to nothing", file: "dangling", mode: 0o777},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tr.WriteFile(t.Context(), tt.file, strings.NewReader("new"), tt.opts)
			if e, _ := errors.AsType[*fault.Error](err); (tt.reason != "") != (e != nil) || e != nil && e.Reason != tt.reason {
				t.Fatalf("error = %v, want reason %q", err, tt.reason)
			}
			if st := (unix.Stat_t{}); tt.reason == "" {
				must(t, unix.Lstat(filepath.Join(dir, tt.file), &st))
				if st.Mode&0o7777 != tt.mode {
					t.Errorf("mode = %o, want %o", st.Mode&0o7777, tt.mode)
				}
			}
		})
	}
	if content(dir+"/nowhere") != "new" {
		t.Error("the dangling link's target was not made")
	}
	if _, err := os.Stat(dir + "/x"); err == nil {
		t.Error("a parent was made although none was wanted")
	}
}

// A payload that cannot be read to its end leaves everything as it was.
func TestWriteFailingSource(t *testing.T) {
	boom := errors.New("boom")
	for _, size := range []int{0, 10, memoryPayload * 2} {
		tr, dir := openTemp(t, Options{})
		put(t, dir+"/f", "old", 0o644)
		for _, name := range []string{"f", "n"} {
			r := io.MultiReader(bytes.NewReader(make([]byte, size)), iotest.ErrReader(boom))
			if _, err := tr.WriteFile(t.Context(), name, r, WriteOptions{}); !errors.Is(err, boom) || !errors.Is(err, fault.WorkspaceArchiveWriteError) {
				t.Errorf("size %d: error = %v, want the reader's", size, err)
			}
			r = io.MultiReader(bytes.NewReader(make([]byte, size)), iotest.ErrReader(boom))
			if _, err := tr.AppendFile(t.Context(), name, r, WriteOptions{}); !errors.Is(err, boom) {
				t.Errorf("size %d: append error = %v, want the reader's", size, err)
			}
		}
		if content(dir+"/f") != "old" {
			t.Error("the old content is gone")
		}
		onlyEntries(t, dir, "f")
	}
}

// cancelReader cancels a context after some reads and goes on without end.
type cancelReader struct {
	cancel context.CancelFunc
	left   int
}

func (r *cancelReader) Read(p []byte) (int, error) {
	if r.left--; r.left == 0 {
		r.cancel()
	}
	return len(p), nil
}

func TestWriteCancelled(t *testing.T) {
	for _, reads := range []int{1, 40} { // in memory, and on the disk
		tr, dir := openTemp(t, Options{})
		put(t, dir+"/f", "old", 0o644)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := tr.WriteFile(ctx, "f", &cancelReader{cancel, reads}, WriteOptions{})
		if !fault.Canceled(err) || content(dir+"/f") != "old" {
			t.Errorf("error = %v, content %q; want a cancellation and the old content", err, content(dir+"/f"))
		}
		onlyEntries(t, dir, "f")
	}
}

// Readers of a file that is replaced again and again see one content or the other.
func TestWriteIsNeverPartlyVisible(t *testing.T) {
	tr, dir := openTemp(t, Options{})
	texts := []string{strings.Repeat("a", 10_000), strings.Repeat("b", memoryPayload+5)}
	put(t, dir+"/f", texts[0], 0o644)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if _, err := tr.WriteFile(t.Context(), "f", strings.NewReader(texts[i%2]), WriteOptions{}); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 2000 {
		if got := content(dir + "/f"); got != texts[0] && got != texts[1] {
			t.Fatalf("a reader saw %d bytes", len(got))
		}
	}
	close(stop)
	must(t, <-done)
}

// A full disk leaves the old file, on each of the ways.
func TestWriteDiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: a small file system")
	}
	tr, dir := openTemp(t, Options{})
	must(t, unix.Mount("croft", dir, "tmpfs", 0, "size=1m"))
	defer unix.Unmount(dir, unix.MNT_DETACH)
	tr.Close()
	tr, err := Open(Options{Path: dir})
	must(t, err)
	defer tr.Close()
	old := strings.Repeat("o", 100_000)
	for _, f := range []string{"r", "i"} {
		put(t, dir+"/"+f, old, 0o644)
	}
	must(t, os.Link(dir+"/i", dir+"/i2"))
	big := func() io.Reader { return bytes.NewReader(make([]byte, 2<<20)) }
	for _, f := range []string{"n", "r", "i"} {
		_, err := tr.WriteFile(t.Context(), f, big(), WriteOptions{})
		if e, _ := errors.AsType[*fault.Error](err); e == nil || e.Reason != "no_space" {
			t.Errorf("%s: error = %v, want no_space", f, err)
		}
	}
	// Small enough to be in memory, too large for what is left in place.
	put(t, dir+"/filler", strings.Repeat("x", 800_000), 0o644)
	for _, do := range []func(context.Context, string, io.Reader, WriteOptions) (WriteResult, error){tr.WriteFile, tr.AppendFile} {
		if _, err := do(t.Context(), "i", bytes.NewReader(make([]byte, memoryPayload-1)), WriteOptions{}); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("in place: error = %v, want ENOSPC", err)
		}
	}
	for _, f := range []string{"r", "i"} {
		if content(dir+"/"+f) != old {
			t.Errorf("%s: the old content is gone", f)
		}
	}
	onlyEntries(t, dir, "r", "i", "i2", "filler")
}

// A running program is replaced, since it cannot be changed.
func TestWriteRunningProgram(t *testing.T) {
	tr, dir := openTemp(t, Options{})
	sleep, err := exec.LookPath("sleep")
	must(t, err)
	data, err := os.ReadFile(sleep)
	must(t, err)
	must(t, os.WriteFile(dir+"/prog", data, 0o755))
	cmd := exec.Command(dir+"/prog", "100")
	must(t, cmd.Start())
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	res, err := tr.WriteFile(t.Context(), "prog", strings.NewReader("new"), WriteOptions{})
	if err != nil || res.How != Replaced || content(dir+"/prog") != "new" {
		t.Errorf("WriteFile = %v, %v", res, err)
	}
}

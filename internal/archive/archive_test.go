//go:build linux

package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/archive"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/tree"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openDir(t testing.TB, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// plant makes a tree with all that a workspace archive keeps.
func plant(t testing.TB, dir string) {
	t.Helper()
	must(t, os.MkdirAll(dir+"/venv/bin", 0o755))
	must(t, os.MkdirAll(dir+"/empty", 0o700))
	must(t, os.MkdirAll(dir+"/closed", 0o755))
	must(t, os.Symlink("/usr/bin/python3", dir+"/venv/bin/python3"))
	must(t, os.Symlink("python3", dir+"/venv/bin/python"))
	must(t, os.Symlink("../../elsewhere/../x", dir+"/up"))
	must(t, os.Symlink("nowhere", dir+"/dangling"))
	must(t, os.WriteFile(dir+"/venv/bin/tool", []byte("#!/bin/sh\n"), 0o755))
	must(t, os.WriteFile(dir+"/closed/object", []byte("read only"), 0o444))
	must(t, os.Link(dir+"/closed/object", dir+"/second"))
	must(t, os.WriteFile(dir+"/a\\b:c\xff\n", []byte("odd"), 0o600))
	must(t, os.WriteFile(dir+"/"+strings.Repeat("n", 255), []byte("long"), 0o640))
	big := make([]byte, 700<<10)
	rand.Read(big)
	must(t, os.WriteFile(dir+"/big", big, 0o644))
	must(t, os.WriteFile(dir+"/nothing", nil, 0o666))
	must(t, os.Chmod(dir+"/nothing", 0o666))
	must(t, os.Chtimes(dir+"/big", time.Time{}, time.Unix(1e9, 987654321)))
	must(t, os.Chmod(dir+"/closed", 0o555))
	must(t, os.Chtimes(dir+"/closed", time.Time{}, time.Unix(1e9+1, 1)))
	t.Cleanup(func() { os.Chmod(dir+"/closed", 0o755) })
}

// describe lists a tree with all that an archive keeps.
func describe(t testing.TB, dir string) []string {
	t.Helper()
	var lines []string
	first := map[uint64]string{}
	must(t, tree.Ordered(context.Background(), openDir(t, dir), tree.Options{}, func(e *tree.Entry) error {
		l := fmt.Sprintf("%q %v %04o %d", e.Rel(), e.Kind, e.Mode, e.MTime.UnixNano())
		switch e.Kind {
		case tree.File:
			f, err := e.Open()
			if err != nil {
				return err
			}
			defer f.Close()
			b, err := io.ReadAll(f)
			if err != nil {
				return err
			}
			l += fmt.Sprintf(" %d %x", len(b), b[:min(len(b), 20)])
			if e.Nlink > 1 {
				if name, ok := first[e.Ino]; ok {
					l += " = " + name
				}
				first[e.Ino] = e.Rel()
			}
		case tree.Symlink:
			target, _ := e.Readlink()
			l += " -> " + target
		}
		lines = append(lines, l)
		return e.Err
	}))
	return lines
}

func pack(t testing.TB, dir string, opts archive.PackOptions) ([]byte, archive.Report) {
	t.Helper()
	var buf bytes.Buffer
	report, err := archive.Pack(t.Context(), openDir(t, dir), &buf, opts)
	must(t, err)
	return buf.Bytes(), report
}

func unpack(t testing.TB, data []byte, dir string, opts archive.UnpackOptions) (*archive.Unpacked, error) {
	t.Helper()
	return archive.Unpack(t.Context(), bytes.NewReader(data), openDir(t, dir), opts)
}

func TestRoundTrip(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	plant(t, src)
	l, err := net.Listen("unix", src+"/socket")
	must(t, err)
	defer l.Close()
	must(t, unix.Mkfifo(src+"/fifo", 0o600))
	xattr := unix.Setxattr(src+"/big", "user.note", []byte("a\x00b"), 0)

	data, report := pack(t, src, archive.PackOptions{})
	if report.LeftOut != 2 || report.Left[0].Rel != "fifo" || report.Left[1].Rel != "socket" {
		t.Errorf("left out: %+v", report.Left)
	}
	if report.Files != 6 || report.Links != 1 || report.Symlinks != 4 || report.Dirs != 4 || len(report.Changed) != 0 {
		t.Errorf("report: %+v", report)
	}
	up, err := unpack(t, data, dst, archive.UnpackOptions{})
	must(t, err)
	t.Cleanup(func() { os.Chmod(dst+"/closed", 0o755) })
	if !up.Marked || up.Files != report.Files || up.Bytes != report.Bytes || up.Dirs != report.Dirs {
		t.Errorf("unpacked %+v", up)
	}
	want := slices.DeleteFunc(describe(t, src), func(s string) bool {
		return strings.HasPrefix(s, `"fifo"`) || strings.HasPrefix(s, `"socket"`)
	})
	if got := describe(t, dst); !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	if xattr == nil {
		var b [8]byte
		n, err := unix.Getxattr(dst+"/big", "user.note", b[:])
		if err != nil || string(b[:n]) != "a\x00b" {
			t.Errorf("attribute: %q, %v", b[:n], err)
		}
	}
}

func TestEqualTreesGiveEqualBytes(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	plant(t, a)
	_, err := tree.Copy(t.Context(), openDir(t, a), openDir(t, b), tree.CopyOptions{})
	must(t, err)
	t.Cleanup(func() { os.Chmod(b+"/closed", 0o755) })
	for _, d := range []string{a, b} {
		must(t, os.Chmod(d, 0o755))
		must(t, os.Chtimes(d, time.Time{}, time.Unix(1e9, 0)))
	}
	x, _ := pack(t, a, archive.PackOptions{})
	y, _ := pack(t, b, archive.PackOptions{Workers: 1})
	if !bytes.Equal(x, y) {
		t.Error("two equal trees gave different archives")
	}
}

func TestSetIDBitsAreDropped(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(src+"/s", []byte("x"), 0o755))
	must(t, os.Chmod(src+"/s", 0o755|os.ModeSetuid|os.ModeSetgid))
	data, _ := pack(t, src, archive.PackOptions{})
	_, err := unpack(t, data, dst, archive.UnpackOptions{})
	must(t, err)
	if fi, err := os.Stat(dst + "/s"); err != nil || fi.Mode() != 0o755 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

func TestOtherTarsUnderstandIt(t *testing.T) {
	gnu, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("needs tar(1)")
	}
	src, dst := t.TempDir(), t.TempDir()
	plant(t, src)
	data, _ := pack(t, src, archive.PackOptions{})
	cmd := exec.Command(gnu, "-xpf", "-", "-C", dst)
	cmd.Stdin = bytes.NewReader(data)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	t.Cleanup(func() { os.Chmod(dst+"/closed", 0o755) })
	if got, want := describe(t, dst), describe(t, src); !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	// And the other way round: a stranger's tar, with its links inside.
	theirs, back := t.TempDir(), t.TempDir()
	must(t, os.MkdirAll(theirs+"/d", 0o755))
	must(t, os.WriteFile(theirs+"/d/f", []byte("text"), 0o664))
	must(t, os.Symlink("d/f", theirs+"/l"))
	for _, args := range [][]string{{"-cf"}, {"-czf"}, {"--format=ustar", "-cf"}, {"--format=gnu", "-cf"}} {
		out, err := exec.Command(gnu, append(args, "-", "-C", theirs, ".")...).Output()
		must(t, err)
		sub := filepath.Join(back, strings.Join(args, ""))
		must(t, os.Mkdir(sub, 0o755))
		up, err := unpack(t, out, sub, archive.UnpackOptions{})
		must(t, err)
		if b, err := os.ReadFile(sub + "/l"); up.Marked || string(b) != "text" {
			t.Errorf("%v: %q, %v", args, b, err)
		}
	}
}

func TestSkip(t *testing.T) {
	src := t.TempDir()
	for _, n := range []string{"a/keep", "a/drop/x", "b/y", "logs/e"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(src, n)), 0o755))
		must(t, os.WriteFile(filepath.Join(src, n), nil, 0o644))
	}
	data, _ := pack(t, src, archive.PackOptions{Skip: []string{"/a/drop", "b/./y", "logs/"}})
	if got := strings.Join(members(t, data), " "); got != ". ./a ./a/keep ./b" {
		t.Errorf("members: %s", got)
	}
}

func members(t *testing.T, data []byte) []string {
	var names []string
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names
		}
		must(t, err)
		names = append(names, h.Name)
	}
}

func TestDeepTreeRoundTrip(t *testing.T) {
	depth := 3000
	if testing.Short() {
		depth = 300
	}
	src, dst := t.TempDir(), t.TempDir()
	fd, err := unix.Open(src, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	name := strings.Repeat("d", 30)
	for range depth {
		must(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	data, report := pack(t, src, archive.PackOptions{})
	if report.Dirs != int64(depth) {
		t.Fatalf("packed %+v", report)
	}
	up, err := unpack(t, data, dst, archive.UnpackOptions{})
	must(t, err)
	if up.Dirs != int64(depth) {
		t.Errorf("unpacked %+v", up)
	}
	for _, d := range []string{src, dst} {
		stats, err := tree.RemoveContents(t.Context(), openDir(t, d), tree.RemoveOptions{})
		must(t, err)
		if stats.Dirs != int64(depth) {
			t.Errorf("%d levels", stats.Dirs)
		}
	}
}

// endless is a reader of a tar with one file that never ends.
type endless struct {
	head  *bytes.Reader
	after func()
	n     int64
}

func (e *endless) Read(b []byte) (int, error) {
	if e.head.Len() > 0 {
		return e.head.Read(b)
	}
	if e.n += int64(len(b)); e.n > 4<<20 && e.after != nil {
		e.after()
		e.after = nil
	}
	return len(b), nil
}

func TestUnpackCancelled(t *testing.T) {
	var head bytes.Buffer
	must(t, tar.NewWriter(&head).WriteHeader(&tar.Header{Name: "f", Typeflag: tar.TypeReg, Size: 1 << 40, Mode: 0o644}))
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	_, err := archive.Unpack(ctx, &endless{head: bytes.NewReader(head.Bytes()), after: cancel}, openDir(t, dir), archive.UnpackOptions{})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, fault.WorkspaceArchiveWriteError) {
		t.Errorf("error = %v", err)
	}
}

func TestPackCancelled(t *testing.T) {
	src := t.TempDir()
	for i := range 300 {
		must(t, os.WriteFile(filepath.Join(src, strconv.Itoa(i)), make([]byte, 10<<10), 0o644))
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &cancelWriter{cancel: cancel}
	_, err := archive.Pack(ctx, openDir(t, src), w, archive.PackOptions{})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, fault.WorkspaceArchiveReadError) {
		t.Errorf("error = %v", err)
	}
	at := w.n
	buf := make([]byte, 1<<20)
	if stacks := string(buf[:runtime.Stack(buf, true)]); strings.Contains(stacks, "archive.(*packer)") {
		t.Errorf("a worker still runs:\n%s", stacks)
	}
	if w.n != at {
		t.Error("written after the call")
	}
}

type cancelWriter struct {
	cancel func()
	n      int
}

func (w *cancelWriter) Write(b []byte) (int, error) {
	w.n += len(b)
	w.cancel()
	return len(b), nil
}

func TestPackWriterFails(t *testing.T) {
	src := t.TempDir()
	for i := range 100 {
		must(t, os.WriteFile(filepath.Join(src, strconv.Itoa(i)), make([]byte, 300<<10), 0o644))
	}
	r, w, err := os.Pipe()
	must(t, err)
	r.Close()
	defer w.Close()
	if _, err = archive.Pack(t.Context(), openDir(t, src), w, archive.PackOptions{}); !errors.Is(err, unix.EPIPE) {
		t.Errorf("error = %v", err)
	}
}

func TestPackNamesWhatCannotBeRead(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("needs an ordinary user: modes do not bind root")
	}
	src := t.TempDir()
	must(t, os.MkdirAll(src+"/d", 0o755))
	must(t, os.WriteFile(src+"/d/f", []byte("x"), 0o000))
	_, err := archive.Pack(t.Context(), openDir(t, src), io.Discard, archive.PackOptions{})
	fe, ok := errors.AsType[*fault.Error](err)
	if !ok || fe.Path != "d/f" || !errors.Is(err, os.ErrPermission) {
		t.Errorf("error = %v", err)
	}
}

// TestPackWhileFilesChange packs files that a goroutine grows, cuts and replaces:
// the archive stays readable.
func TestPackWhileFilesChange(t *testing.T) {
	src := t.TempDir()
	stop, done := make(chan struct{}), make(chan struct{})
	change := func(i int) {
		p := filepath.Join(src, "f"+strconv.Itoa(i%8))
		switch i % 4 {
		case 0:
			os.WriteFile(p, make([]byte, 600<<10), 0o644)
		case 1:
			os.Truncate(p, int64(i%7)*100<<10)
		case 2:
			os.Remove(p)
		case 3:
			os.Symlink("x", p)
		}
	}
	for i := range 8 {
		change(4 * i)
		must(t, os.WriteFile(filepath.Join(src, "f"+strconv.Itoa(i)), make([]byte, 500<<10), 0o644))
	}
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				change(i * 5)
			}
		}
	}()
	changed := 0
	for range 60 {
		data, report := pack(t, src, archive.PackOptions{})
		changed += len(report.Changed)
		dst := t.TempDir()
		if _, err := unpack(t, data, dst, archive.UnpackOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	<-done
	t.Logf("files changed while read: %d", changed)
}

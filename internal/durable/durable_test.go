package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/croftdev/croft/internal/durable"
)

func openDir(t *testing.T) (*durable.Dir, string) {
	t.Helper()
	path := t.TempDir()
	d, err := durable.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, path
}

func names(t *testing.T, d *durable.Dir) []string {
	t.Helper()
	out, err := d.Names()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func TestWriteFileReplacesWhole(t *testing.T) {
	d, path := openDir(t)
	for _, content := range []string{"first", "second, longer", ""} {
		if err := d.WriteFile("f", []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := d.ReadFile("f", 100)
		if err != nil || string(got) != content {
			t.Errorf("ReadFile = %q, %v, want %q", got, err, content)
		}
	}
	fi, err := os.Stat(filepath.Join(path, "f"))
	if err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", fi.Mode(), err)
	}
	if got := names(t, d); !slices.Equal(got, []string{"f"}) {
		t.Errorf("names = %q, want only f", got)
	}
}

func TestWriteFileFailsWithoutTrace(t *testing.T) {
	d, path := openDir(t)
	if err := os.Mkdir(filepath.Join(path, "f"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteFile("f", []byte("x")); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("WriteFile onto a directory = %v, want EISDIR", err)
	}
	if got := names(t, d); !slices.Equal(got, []string{"f"}) {
		t.Errorf("names = %q, want only f", got)
	}
}

func TestOpenFileTakesRegularFilesOnly(t *testing.T) {
	d, path := openDir(t)
	at := func(name string) string { return filepath.Join(path, name) }
	for _, err := range []error{
		os.Mkdir(at("dir"), 0o700), syscall.Mkfifo(at("fifo"), 0o600),
		os.WriteFile(at("file"), []byte("12345"), 0o600), os.Symlink("file", at("link")),
		os.Symlink("nowhere", at("dangling")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		want error
	}{
		{"dir", durable.ErrNotRegular}, {"fifo", durable.ErrNotRegular}, {"file", nil},
		{"link", nil}, {"dangling", fs.ErrNotExist}, {"missing", fs.ErrNotExist},
	} {
		f, err := d.OpenFile(tt.name)
		if !errors.Is(err, tt.want) {
			t.Errorf("OpenFile(%s) = %v, want %v", tt.name, err, tt.want)
		}
		if err == nil {
			f.Close()
		}
	}
	if _, err := d.ReadFile("file", 4); !errors.Is(err, durable.ErrTooLarge) {
		t.Errorf("ReadFile above the limit = %v, want ErrTooLarge", err)
	}
	if _, err := d.OpenDir("link"); err == nil {
		t.Error("OpenDir followed a link")
	}
}

// A directory that is renamed and replaced while it is held is not followed by its name.
func TestDirIsHeldNotNamed(t *testing.T) {
	d, path := openDir(t)
	old, err := d.OpenDir(".")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if err := d.Mkdir("a"); err != nil {
		t.Fatal(err)
	}
	a, err := d.OpenDir("a")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if err := d.Rename("a", d, "b"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(path, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := a.WriteFile("f", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(path, "b", "f")); err != nil {
		t.Errorf("the file is not in the directory that was held: %v", err)
	}
	for name, want := range map[string]bool{"a": false, "b": true, "missing": false} {
		if same, err := d.SameAs(name, a); err != nil || same != want {
			t.Errorf("SameAs(%s) = %v, %v, want %v", name, same, err, want)
		}
	}
}

func TestRenameNewNeverReplaces(t *testing.T) {
	d, _ := openDir(t)
	for _, name := range []string{"a", "b"} {
		if err := d.Mkdir(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.RenameNew("a", "b"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("RenameNew onto an empty directory = %v, want ErrExist", err)
	}
	if err := d.RenameNew("a", "c"); err != nil {
		t.Errorf("RenameNew = %v", err)
	}
	if err := d.Exchange("b", "missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Exchange with nothing = %v, want ErrNotExist", err)
	}
}

func TestLockExcludesAlsoTheSameProcess(t *testing.T) {
	d, _ := openDir(t)
	held, got, err := d.Lock()
	if err != nil || !got {
		t.Fatalf("Lock = %v, %v", got, err)
	}
	if _, got, err := d.Lock(); got || err != nil {
		t.Errorf("second Lock = %v, %v, want false", got, err)
	}
	held.Close()
	again, got, err := d.Lock()
	if err != nil || !got {
		t.Fatalf("Lock after Close = %v, %v", got, err)
	}
	again.Close()
}

// A killed writer's file is a leftover; that of a living one is not.
func TestRemoveLeftovers(t *testing.T) {
	if os.Getenv("CROFT_TEST_WRITER") != "" {
		d, err := durable.Open(os.Getenv("CROFT_TEST_WRITER"))
		if err == nil {
			_, err = d.NewFile()
		}
		if err != nil {
			t.Fatal(err)
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	d, path := openDir(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestRemoveLeftovers$")
	cmd.Env = append(os.Environ(), "CROFT_TEST_WRITER="+path)
	if err := cmd.Run(); err == nil {
		t.Fatal("the writer was not killed")
	}
	if got := names(t, d); len(got) != 1 {
		t.Fatalf("names = %q, want the killed writer's one file", got)
	}
	living, err := d.NewFile()
	if err != nil {
		t.Fatal(err)
	}
	defer living.Discard()
	if err := os.WriteFile(filepath.Join(path, ".croft-other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := d.RemoveLeftovers(); n != 1 || err != nil {
		t.Errorf("RemoveLeftovers = %d, %v, want 1", n, err)
	}
	if err := living.Commit("f"); err != nil {
		t.Errorf("the living writer lost its file: %v", err)
	}
	if got := names(t, d); !slices.Equal(got, []string{".croft-other", "f"}) {
		t.Errorf("names = %q", got)
	}
}

func TestWriteNewRefusesWhatIsThere(t *testing.T) {
	d, _ := openDir(t)
	if err := d.WriteNew("f", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteNew("f", []byte("y")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second WriteNew = %v, want ErrExist", err)
	}
}

func TestLongNames(t *testing.T) {
	d, _ := openDir(t)
	if err := d.WriteFile(strings.Repeat("x", 255), []byte("x")); err != nil {
		t.Errorf("WriteFile with the longest name = %v", err)
	}
}

// BenchmarkWriteFile is the cost of one record write; the plain arm is a write and
// an fsync without a name to replace.
func BenchmarkWriteFile(b *testing.B) {
	data := make([]byte, 2000)
	b.Run("WriteFile", func(b *testing.B) {
		d, err := durable.Open(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		defer d.Close()
		for b.Loop() {
			if err := d.WriteFile("f", data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("fsync", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "f"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for b.Loop() {
			if _, err := f.WriteAt(data, 0); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

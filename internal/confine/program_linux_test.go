package confine_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/croftdev/croft/internal/confine"
)

// TestProgramInsideTheCell: croft may be installed where commands can read it, such as in
// /usr/local/bin or in the project itself; its own program is then no proof that
// landlock denies something.
func TestProgramInsideTheCell(t *testing.T) {
	spec := confine.Spec{SessionID: "test", Workspace: confine.Bind{Path: t.TempDir(), Target: "/workspace"}, Owned: true}
	if confine.IsRoot() {
		uid, err := confine.ChooseUID()
		if err != nil {
			t.Fatal(err)
		}
		spec.UID = uid
		if err := os.Chown(spec.Workspace.Path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(spec.Workspace.Path, "croft")
	copyProgram(t, program)
	dir, err := os.Open(spec.Workspace.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	spec.Workspace.Dir = dir

	l := confine.NewLauncher(program)
	defer l.Close()
	cell, err := l.Start(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cell.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if out := run(t, cell, "/usr/bin/test", "-r", "/workspace/croft"); out.status.Code != 0 {
		t.Errorf("the program is not readable inside, so this tests nothing: %+v", out)
	}
}

// copyProgram writes the test binary, which is a helper too, to path.
func copyProgram(t *testing.T, path string) {
	t.Helper()
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
}

//go:build linux

package confine_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/process"
	"github.com/croftdev/croft/policy"
)

func TestMain(m *testing.M) {
	confine.Init()
	role, what, _ := strings.Cut(os.Getenv(roleEnv), ":")
	switch role {
	case "attack":
		playAttack()
	case "refusal":
		playRefusal(what)
		return
	case "host":
		playHost(policy.Tier(what))
	}
	// Whatever the tests themselves take.
	confine.SetSmallProgram(1 << 40)
	os.Exit(m.Run())
}

// start makes a cell with a workspace of its own and ends it with the test.
func start(t testing.TB, change func(*confine.Spec)) *confine.Cell {
	t.Helper()
	spec := confine.Spec{
		SessionID: "test", Workspace: confine.Bind{Path: t.TempDir(), Target: "/workspace"}, Owned: true,
	}
	if confine.IsRoot() {
		uid, err := confine.ChooseUID()
		if err != nil {
			t.Fatal(err)
		}
		spec.UID = uid
	}
	if change != nil {
		change(&spec)
	}
	if confine.IsRoot() && spec.Owned && spec.Policy.Tier != policy.None {
		if err := os.Chown(spec.Workspace.Path, spec.UID, spec.UID); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.Open(spec.Workspace.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	spec.Workspace.Dir = dir
	l := confine.NewLauncher("")
	t.Cleanup(func() { l.Close() })
	cell, err := l.Start(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cell.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return cell
}

// output is what a command wrote, both streams together, and how it ended.
type output struct {
	text   string
	status process.Status
}

// spawn starts argv with its output in a pipe that is returned.
func spawn(t testing.TB, cell process.Spawner, env []string, argv ...string) (process.Child, *os.File, error) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	child, err := cell.Spawn(context.Background(), process.Spec{Argv: argv, Env: env, Files: [3]*os.File{null, w, w}})
	if err != nil {
		r.Close()
		return nil, nil, err
	}
	t.Cleanup(func() { r.Close() })
	return child, r, nil
}

// run runs argv to its end.
func run(t testing.TB, cell *confine.Cell, argv ...string) output {
	t.Helper()
	env := []string{"PATH=" + cell.SearchPath(), "HOME=" + cell.Home(), "TMPDIR=/tmp", "LANG=C.UTF-8"}
	child, r, err := spawn(t, cell, env, argv...)
	if err != nil {
		t.Fatalf("spawn %q: %v", argv, err)
	}
	defer r.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, r); err != nil {
		t.Fatal(err)
	}
	status, err := child.Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return output{strings.TrimSpace(b.String()), status}
}

// sh runs a shell line.
func sh(t testing.TB, cell *confine.Cell, line string) output {
	t.Helper()
	return run(t, cell, "sh", "-c", line)
}

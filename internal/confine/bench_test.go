//go:build linux

package confine_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/process"
)

// BenchmarkTrue runs `true` in a live cell, by a plain fork and exec of this process
// (which is what a program without croft would do), and by bubblewrap with like flags.
func BenchmarkTrue(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	b.Run("confined", func(b *testing.B) {
		cell := start(b, nil)
		spec := process.Spec{Argv: []string{"/usr/bin/true"}, Files: [3]*os.File{null, null, null}}
		for b.Loop() {
			child, err := cell.Spawn(context.Background(), spec)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := child.Wait(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			p, err := os.StartProcess("/usr/bin/true", []string{"true"}, &os.ProcAttr{Env: []string{}, Files: []*os.File{null, null, null}})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := p.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bwrap", func(b *testing.B) {
		bwrap, err := exec.LookPath("bwrap")
		if err != nil {
			b.Skip("bubblewrap is missing")
		}
		args := []string{"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
			"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
			"--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc/ssl", "/etc/ssl", "--ro-bind", "/etc/alternatives", "/etc/alternatives",
			"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", b.TempDir(), "/workspace", "/usr/bin/true"}
		for b.Loop() {
			p, err := os.StartProcess(bwrap, args, &os.ProcAttr{Env: []string{}, Files: []*os.File{null, null, null}})
			if err != nil {
				b.Fatal(err)
			}
			st, err := p.Wait()
			if err != nil || !st.Success() {
				b.Fatal(st, err)
			}
		}
	})
}

// BenchmarkStart makes and ends a cell.
func BenchmarkStart(b *testing.B) {
	l := confine.NewLauncher("")
	defer l.Close()
	spec := confine.Spec{Workspace: confine.Bind{Path: b.TempDir(), Target: "/workspace"}, Owned: true, UID: 2000000001}
	for b.Loop() {
		cell, err := l.Start(context.Background(), spec)
		if err != nil {
			b.Fatal(err)
		}
		if err := cell.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

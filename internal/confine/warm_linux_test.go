package confine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/policy"
)

// TestWarm: what was prepared is used by a start that it fits, and is in nobody's way
// otherwise.
func TestWarm(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy policy.Policy
	}{
		{"the usual", policy.Policy{}},
		{"another network", policy.Policy{Network: policy.NetworkHost}},
		{"another tier", policy.Policy{Tier: policy.None}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T) {
				dir := t.TempDir()
				if confine.IsRoot() {
					if err := os.Chown(dir, 2_000_000_031, 2_000_000_031); err != nil {
						t.Fatal(err)
					}
				}
				l := confine.NewLauncher("")
				defer l.Close()
				for range 3 {
					l.Warm()
					cell, err := l.Start(context.Background(), confine.Spec{
						Workspace: confine.Bind{Path: dir, Target: "/workspace"}, Owned: true, Policy: tt.policy, UID: 2_000_000_031,
					})
					if err != nil {
						t.Fatal(err)
					}
					if out := sh(t, cell, "echo x > f && cat f"); out.text != "x" {
						t.Errorf("%+v", out)
					}
					if err := cell.Close(context.Background()); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// TestWarmUnused: what was prepared and not used ends with the launcher.
func TestWarmUnused(t *testing.T) {
	before := openFiles(t)
	for range 5 {
		l := confine.NewLauncher("")
		l.Warm()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := openFiles(t); after > before+1 { // the runtime's own poller
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if _, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("a child is left: %v", err)
	}
}

// TestWarmStale: a warden that was forked before a file system was mounted does not hide
// it.
func TestWarmStale(t *testing.T) {
	needRoot(t)
	l := confine.NewLauncher("")
	defer l.Close()
	l.Warm()
	// The first start waits until the warm one is there; the second Warm has a spare again.
	dir := filepath.Join(tmpfs(t), "project")
	makeProject(t, dir, [2]uint32{0, 0})
	cell, err := l.Start(context.Background(), confine.Spec{Workspace: confine.Bind{Path: dir}, UID: 2_000_000_032})
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Close(context.Background())
	if out := sh(t, cell, "cat mine"); out.text != "x" {
		t.Errorf("%+v", out)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/croftdev/croft"
	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/root"
	"github.com/croftdev/croft/policy"
)

// rowsToMeasure lists every row that doc and issues promise, in their order.
func rowsToMeasure() []compare {
	return []compare{
		{name: "read 4 KB, depth 6", peer: "os.ReadFile", unit: time.Microsecond, bound: 1, n: 201, batch: 200,
			prepare: func() (func() error, func() error, func(), error) { return readRoot(readFile) }},
		{name: "read 4 KB, depth 6, by root", peer: "os.Root.ReadFile", unit: time.Microsecond, bound: 0.5, n: 201, batch: 200,
			prepare: func() (func() error, func() error, func(), error) { return readRoot(readOSRoot) }},
		{name: "session read 4 KB, JSONL events", peer: "os.ReadFile", unit: time.Microsecond, bound: 2, n: 201, batch: 200,
			prepare: readSession},
		{name: "list 10,000 entries with stat", peer: "os.ReadDir and Lstat", unit: time.Millisecond, bound: 1.2, n: 41, batch: 1,
			prepare: listMany},
		{name: "croft run -- true", peer: "bwrap", unit: time.Millisecond, bound: 3, n: 41, batch: 1,
			prepare: runTrue},
	}
}

const deepName = "a/b/c/d/e/file"

func readFile(dir string) (func() error, func(), error) {
	path := filepath.Join(dir, deepName)
	return func() error {
		_, err := os.ReadFile(path)
		return err
	}, func() {}, nil
}

func readOSRoot(dir string) (func() error, func(), error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	return func() error {
		_, err := r.ReadFile(deepName)
		return err
	}, func() { r.Close() }, nil
}

// readRoot compares a read through internal/root with a peer.
func readRoot(peer func(string) (func() error, func(), error)) (ours, theirs func() error, cleanup func(), err error) {
	dir, remove, err := scratch()
	if err != nil {
		return nil, nil, nil, err
	}
	if err := writeFile(filepath.Join(dir, deepName), 4096); err != nil {
		return nil, nil, nil, err
	}
	tree, err := root.Open(root.Options{Path: dir})
	if err != nil {
		return nil, nil, nil, err
	}
	theirs, end, err := peer(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx := context.Background()
	ours = func() error {
		_, err := tree.ReadFile(ctx, deepName, root.ReadOptions{})
		return err
	}
	return ours, theirs, func() { end(); tree.Close(); remove() }, nil
}

// readSession compares a read through a live session, whose events go to a file.
func readSession() (ours, theirs func() error, cleanup func(), err error) {
	dir, remove, err := scratch()
	if err != nil {
		return nil, nil, nil, err
	}
	ws := filepath.Join(dir, "ws")
	if err := writeFile(filepath.Join(ws, deepName), 4096); err != nil {
		return nil, nil, nil, err
	}
	c, err := croft.Open(croft.Config{
		Dir: filepath.Join(dir, "state"), Policy: policy.Policy{Tier: policy.None}, NoEventLog: true,
		Sinks: []event.Sink{event.File(filepath.Join(dir, "events.jsonl"), event.FileOptions{})},
	})
	if err != nil {
		return nil, nil, nil, err
	}
	ctx := context.Background()
	s, err := c.Create(ctx, croft.CreateOptions{Root: ws})
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, c.Close())
	}
	ours = func() error {
		_, err := s.ReadFile(ctx, deepName, croft.ReadOptions{})
		return err
	}
	theirs, _, err = readFile(ws)
	return ours, theirs, func() { s.Close(ctx); c.Close(); remove() }, err
}

// listMany compares a listing with the standard library's.
func listMany() (ours, theirs func() error, cleanup func(), err error) {
	dir, remove, err := scratch()
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range 10_000 {
		if err := writeFile(filepath.Join(dir, "many", fmt.Sprintf("entry-%05d", i)), 1); err != nil {
			return nil, nil, nil, err
		}
	}
	tree, err := root.Open(root.Options{Path: dir})
	if err != nil {
		return nil, nil, nil, err
	}
	many := filepath.Join(dir, "many")
	theirs = func() error {
		entries, err := os.ReadDir(many)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if _, err := os.Lstat(filepath.Join(many, e.Name())); err != nil {
				return err
			}
		}
		return nil
	}
	ctx := context.Background()
	ours = func() error {
		_, err := tree.List(ctx, "many", nil)
		return err
	}
	return ours, theirs, func() { tree.Close(); remove() }, nil
}

// bwrapFlags ask bubblewrap for about what croft gives a command by default; it adds
// neither landlock nor a system call filter.
func bwrapFlags(dir string) []string {
	args := []string{
		"--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL",
		"--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
		"--bind", dir, dir, "--chdir", dir,
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if to, err := os.Readlink("/" + link); err == nil {
			args = append(args, "--symlink", to, "/"+link)
		}
	}
	return args
}

// runTrue compares the whole program from a shell.
func runTrue() (ours, theirs func() error, cleanup func(), err error) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return nil, nil, nil, fmt.Errorf("install bubblewrap to measure this row: %w", err)
	}
	dir, remove, err := scratch()
	if err != nil {
		return nil, nil, nil, err
	}
	bin := filepath.Join(dir, "croft")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "./cmd/croft")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, nil, nil, fmt.Errorf("build croft: %w: %s", err, out)
	}
	ws := filepath.Join(dir, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		return nil, nil, nil, err
	}
	arm := func(name string, args ...string) func() error {
		return func() error {
			// From a shell, as a user runs it.
			cmd := exec.Command("sh", append([]string{"-c", `exec "$@"`, "sh", name}, args...)...)
			cmd.Dir = ws
			cmd.Env = append(os.Environ(), "CROFT_DIR="+filepath.Join(dir, "state"))
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", name, err, out)
			}
			return nil
		}
	}
	return arm(bin, "run", "--", "true"), arm(bwrap, append(bwrapFlags(ws), "--", "true")...), remove, nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
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
		{name: "croft run -- true", peer: "bwrap, same mounts", unit: time.Millisecond, bound: 3, n: 101, batch: 1,
			prepare: func() (func() error, func() error, func(), error) { return runTrue(likeMounts) }},
		{name: "croft run -- true, to the least", peer: "bwrap, four mounts", unit: time.Millisecond, n: 101, batch: 1,
			prepare: func() (func() error, func() error, func(), error) { return runTrue(fewMounts) }},
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

// runTrue compares the whole program, started from a shell, with bubblewrap.
func runTrue(flags func(bin, ws string) ([]string, error)) (ours, theirs func() error, cleanup func(), err error) {
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
	env := append(os.Environ(), "CROFT_DIR="+filepath.Join(dir, "state"))
	arm := func(name string, args ...string) func() error {
		return func() error {
			cmd := exec.Command("sh", append([]string{"-c", `exec "$@"`, "sh", name}, args...)...)
			cmd.Dir, cmd.Env = ws, env
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", name, err, out)
			}
			return nil
		}
	}
	args, err := flags(bin, ws)
	if err != nil {
		return nil, nil, nil, err
	}
	return arm(bin, "run", "--", "true"), arm(bwrap, append(args, "--", "true")...), remove, nil
}

// namespaces are the flags that ask bubblewrap for what croft's namespaces tier has; it
// adds neither landlock nor a system call filter.
var namespaces = []string{"--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"}

// fewMounts is the least with which true runs.
func fewMounts(_, ws string) ([]string, error) {
	args := append(slices.Clone(namespaces), "--ro-bind", "/usr", "/usr")
	args = append(args, rootLinks()...)
	return append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", ws, ws, "--chdir", ws), nil
}

// likeMounts shows a command the same files as croft does by default: every mount of
// its receipt.
func likeMounts(bin, ws string) ([]string, error) {
	file := filepath.Join(filepath.Dir(bin), "receipt.json")
	cmd := exec.Command(bin, "run", "--receipt", file, "--", "true")
	cmd.Dir = ws
	cmd.Env = append(os.Environ(), "CROFT_DIR="+filepath.Join(filepath.Dir(bin), "state"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("croft run: %w: %s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var receipt policy.Receipt
	if err := json.Unmarshal(data, &receipt); err != nil {
		return nil, err
	}
	args := append(slices.Clone(namespaces), "--dev", "/dev")
	// What is mounted over comes first.
	slices.SortStableFunc(receipt.Mounts, func(a, b policy.Mount) int { return strings.Count(a.Target, "/") - strings.Count(b.Target, "/") })
	for _, m := range receipt.Mounts {
		switch {
		case m.Target == "/" || strings.HasPrefix(m.Target, "/dev/"): // made by --dev, or the root itself
		case m.Type == "proc":
			args = append(args, "--proc", m.Target)
		case m.Type == "tmpfs" && !m.Workspace:
			args = append(args, "--tmpfs", m.Target)
		case m.ReadOnly:
			args = append(args, "--ro-bind", m.Target, m.Target)
		default:
			args = append(args, "--bind", m.Target, m.Target)
		}
	}
	args = append(args, rootLinks()...)
	// croft copies single files of /etc; the nearest that bubblewrap has is one bind for each.
	for _, name := range []string{"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group", "/etc/ld.so.cache", "/etc/localtime"} {
		if _, err := os.Stat(name); err == nil {
			args = append(args, "--ro-bind", name, name)
		}
	}
	return append(args, "--chdir", ws), nil
}

// rootLinks are the links of a merged /usr.
func rootLinks() []string {
	var args []string
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if to, err := os.Readlink("/" + link); err == nil {
			args = append(args, "--symlink", to, "/"+link)
		}
	}
	return args
}

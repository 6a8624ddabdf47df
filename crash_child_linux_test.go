package croft_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft"
	"github.com/croftdev/croft/manifest"
	"github.com/croftdev/croft/snapshot"
)

// crashRun tells a child of the test binary which life to lead.
type crashRun struct {
	Dir    string // the state directory
	Script string // a key of crashScripts
	Root   string // a caller's root, or empty
	Saves  bool   // whether stops save a snapshot
	KillAt int    // the step at which the child kills itself, from 1; 0: none
	Inject bool   // whether it asks before each call of faultKinds; the socket is descriptor 3
}

const (
	crashRunEnv = "CROFT_TEST_CRASH" // holds a crashRun for the process under test
	reaperEnv   = "CROFT_TEST_REAPER"
)

// crashMain leads another life if this process is a child of a crash test.
func crashMain() {
	if text := os.Getenv(reaperEnv); text != "" {
		os.Exit(reap(text))
	}
	text := os.Getenv(crashRunEnv)
	if text == "" {
		return
	}
	var run crashRun
	if err := json.Unmarshal([]byte(text), &run); err != nil {
		panic(err)
	}
	if run.Inject {
		run.Inject = false
		if err := notifyAndExec(run); err != nil {
			fmt.Println("unsupported:", err)
			os.Exit(3)
		}
	}
	l := life{run: run}
	if err := crashScripts[run.Script](context.Background(), &l); err != nil {
		l.say("failed %s: %v", croft.CodeOf(err), err)
		if croft.CodeOf(err) == "" {
			l.say("uncoded %v", err)
		}
	}
	l.say("end")
	os.Exit(0)
}

// notifyAndExec becomes the process under test anew, under the filter.
func notifyAndExec(run crashRun) error {
	text, err := json.Marshal(run)
	if err != nil {
		return err
	}
	if err := installNotifier(3); err != nil {
		return err
	}
	unix.CloseOnExec(3)
	if err := os.Setenv(crashRunEnv, string(text)); err != nil {
		return err
	}
	return syscall.Exec(os.Args[0], os.Args[:1], os.Environ())
}

// reap runs the process under test, adopts what it leaves behind, and returns when
// the last of it has ended.
func reap(text string) int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Println("uncoded", err)
		return 1
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashRunEnv+"="+text, reaperEnv+"=")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if socket := os.NewFile(3, "socket"); strings.Contains(text, `"Inject":true`) {
		cmd.ExtraFiles = []*os.File{socket}
	}
	err := cmd.Run()
	unix.CloseOnExec(3)
	_ = unix.Close(3)
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			break
		}
	}
	fmt.Println("reaped", err)
	return 0
}

// life is a process under test. What it says is read by the test: "writing 2" before
// and "wrote 2" after, so that the test knows what must be there.
type life struct {
	run  crashRun
	step int
}

func (l *life) say(format string, args ...any) {
	_, _ = os.Stdout.WriteString(strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ") + "\n")
}

func (l *life) open() (*croft.Client, error) {
	return croft.Open(croft.Config{Dir: l.run.Dir, OnStep: func(_ context.Context, _ string, s croft.Step) error {
		l.step++
		if l.step == l.run.KillAt {
			l.say("killed at %s", s)
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
		return nil
	}})
}

func (l *life) options() (croft.CreateOptions, error) {
	m, err := manifest.Parse([]byte(crashManifest), manifest.Options{})
	opts := croft.CreateOptions{Manifest: m, Root: l.run.Root}
	if l.run.Saves {
		opts.Snapshot = &snapshot.Spec{Type: snapshot.Tar}
	}
	return opts, err
}

// crashManifest has an entry that is saved and one that is not.
const crashManifest = `{"entries": {
	"kept": {"type": "file", "content": "k"},
	"d": {"type": "dir", "children": {"fleeting": {"type": "file", "content": "f", "ephemeral": true}}}}}`

// write puts the number into the file "work".
func (l *life) write(ctx context.Context, s *croft.Session, n int) error {
	l.say("writing %d", n)
	_, err := s.WriteFile(ctx, "work", strings.NewReader(strconv.Itoa(n)), croft.WriteOptions{})
	if err == nil {
		l.say("wrote %d", n)
	}
	return err
}

// expect reads the number back.
func (l *life) expect(ctx context.Context, s *croft.Session, n int) error {
	got, err := s.ReadFile(ctx, "work", croft.ReadOptions{})
	if err == nil && string(got) != strconv.Itoa(n) {
		l.say("wrong work %q, want %d", got, n)
	}
	return err
}

var crashScripts = map[string]func(context.Context, *life) error{
	"session": sessionLife, "carried": carriedLife, "busy": busyLife,
}

// sessionLife goes through every call of a session's life.
func sessionLife(ctx context.Context, l *life) (err error) {
	opts, err := l.options()
	if err != nil {
		return err
	}
	c, err := l.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	s, err := c.Create(ctx, opts)
	if err != nil {
		return err
	}
	l.say("session %s", s.ID())
	if err := s.Start(ctx); err != nil {
		return err
	}
	l.say("started")
	if err := l.write(ctx, s, 1); err != nil {
		return err
	}
	if _, err := s.Exec(ctx, croft.Command{Shell: "echo c > by-command"}); err != nil {
		return err
	}
	l.say("commanded")
	if err := s.Stop(ctx); err != nil {
		return err
	}
	l.say("saved")
	if err := l.write(ctx, s, 2); err != nil {
		return err
	}
	// The stop has ended the warden: this command gets another one.
	if _, err := s.Exec(ctx, croft.Command{Shell: "echo c >> by-command"}); err != nil {
		return err
	}
	if err := s.Close(ctx); err != nil {
		return err
	}
	l.say("closed")
	if s, err = c.Resume(ctx, s.ID()); err != nil {
		return err
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	if err := errors.Join(l.expect(ctx, s, 2), l.write(ctx, s, 3)); err != nil {
		return err
	}
	if err := s.Close(ctx); err != nil {
		return err
	}
	l.say("deleting")
	if err := c.Delete(ctx, s.ID()); err != nil {
		return err
	}
	l.say("deleted")
	return nil
}

// carriedLife leaves nothing but a snapshot and goes on from the state that it carries.
func carriedLife(ctx context.Context, l *life) (err error) {
	opts, err := l.options()
	if err != nil {
		return err
	}
	c, err := l.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	with := croft.WithOptions{Create: opts}
	for n := 1; n <= 2; n++ {
		st, err := c.With(ctx, with, func(ctx context.Context, s *croft.Session) error {
			l.say("session %s", s.ID())
			if n > 1 {
				if err := l.expect(ctx, s, n-1); err != nil {
					return err
				}
			}
			return l.write(ctx, s, n)
		})
		if err != nil {
			return err
		}
		text, err := json.Marshal(st)
		if err != nil {
			return err
		}
		l.say("carried %s", text)
		with = croft.WithOptions{State: st}
	}
	return nil
}

// busyLife is killed while a command writes, in a warden that came after a stop.
func busyLife(ctx context.Context, l *life) error {
	opts, err := l.options()
	if err != nil {
		return err
	}
	c, err := l.open()
	if err != nil {
		return err
	}
	s, err := c.Create(ctx, opts)
	if err != nil {
		return err
	}
	if err := errors.Join(s.Start(ctx), s.Stop(ctx)); err != nil {
		return err
	}
	busy := "(while :; do echo x >> busy; done) & while ! test -s busy; do :; done"
	if _, err := s.Exec(ctx, croft.Command{Shell: busy}); err != nil {
		return err
	}
	l.say("session %s", s.ID())
	return unix.Kill(os.Getpid(), unix.SIGKILL)
}

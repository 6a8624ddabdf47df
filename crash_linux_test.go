package croft_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft"
	"github.com/croftdev/croft/internal/state"
)

// A process is killed, or a system call of it fails, at every point of a session's
// life. The next process must find a sound state: everything that was acknowledged
// is there, the session starts and can be deleted, and then nothing is left. Full
// form with PROVE=long, else every step of one life and a twentieth of the rest.

// proveLong reports whether the full form was asked for.
func proveLong() bool { return os.Getenv("PROVE") == "long" }

// heard is what a life has said.
type heard struct {
	session            string // id, once the session was created
	deleting, deleted  bool
	started, commanded bool
	saved              bool
	wrote, writing     string // the last number acknowledged, and the last begun
	carried            string // the state carried away
	killed, failed     string
	ended              bool
	wrong              []string
}

func (h *heard) line(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "session":
		h.session = rest
	case "started":
		h.started = true
	case "writing":
		h.writing = rest
	case "wrote":
		h.wrote = rest
	case "commanded":
		h.commanded = true
	case "saved":
		h.saved = true
	case "deleting":
		h.deleting = true
	case "deleted":
		h.deleted = true
	case "carried":
		// The state is complete now: what went before need not be on disk.
		h.carried, h.saved = rest, true
	case "killed":
		h.killed = rest
	case "failed":
		h.failed = rest
	case "end":
		h.ended = true
	case "closed", "reaped":
	default:
		h.wrong = append(h.wrong, line)
	}
}

// lead runs a life to its end and returns what it said, with the injector if
// there was one. It returns when no process of it is left.
func lead(t *testing.T, run crashRun, f *fault) (*heard, *injector) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run.Inject = f != nil
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), reaperEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	var in *injector
	served := make(chan error, 1)
	if f != nil {
		here, there := socketPair(t)
		cmd.ExtraFiles = []*os.File{there}
		in = &injector{fault: *f, below: []string{run.Dir, run.Root}}
		go func() { served <- in.serve(here) }()
		defer there.Close()
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &heard{}
	reaped := false
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "unsupported:") {
			_ = cmd.Wait()
			t.Skipf("needs seccomp user notification: %s", sc.Text())
		}
		reaped = reaped || strings.HasPrefix(sc.Text(), "reaped")
		h.line(sc.Text())
	}
	if err := cmd.Wait(); err != nil || !reaped {
		t.Fatalf("processes of the life are left a minute later: %v", err)
	}
	if f != nil {
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
	return h, in
}

// names lists everything below dir.
func namesBelow(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, path); rel != "." {
			names = append(names, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// sound checks what a life has left and clears it away.
func sound(t *testing.T, run crashRun, h *heard) {
	t.Helper()
	for _, line := range h.wrong {
		t.Errorf("the process said %q", line)
	}
	c, err := croft.Open(croft.Config{Dir: run.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, info := range all {
		if info.Err != nil {
			t.Errorf("session %s: %v", info.ID, info.Err)
			continue
		}
		s, err := c.Resume(t.Context(), info.ID)
		if err != nil {
			t.Errorf("Resume = %v", err)
			continue
		}
		found = found || info.ID == h.session
		usable(t, run, h, s)
	}
	switch {
	case run.Script == "carried" && !found && h.wrote != "":
		// The process may have ended after the session was deleted and before it had the
		// state: then what it knows, the id and what it asked for, must do.
		s, err := c.ResumeState(t.Context(), carriedState(t, run, h), croft.ResumeOptions{})
		if err != nil {
			t.Fatalf("ResumeState = %v", err)
		}
		usable(t, run, h, s)
	case run.Script == "session" && h.session != "" && !h.deleting && !found:
		t.Errorf("session %s is lost", h.session)
	}
	if err := c.Close(); err != nil {
		t.Errorf("Client.Close = %v", err)
	}
	nothingLeft(t, run, h)
}

// carriedState is the state that the process had, or could have made itself.
func carriedState(t *testing.T, run crashRun, h *heard) croft.State {
	t.Helper()
	if h.carried != "" {
		st, err := croft.ParseState([]byte(h.carried))
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	opts, err := (&life{run: run}).options()
	if err != nil {
		t.Fatal(err)
	}
	spec := opts.Snapshot.ForSession(h.session)
	spec.BasePath = state.SnapshotDir(run.Dir)
	return croft.State{SessionID: state.ID(h.session), Snapshot: spec, Manifest: opts.Manifest}
}

// usable starts a session, looks for everything that was acknowledged, and deletes it.
func usable(t *testing.T, run crashRun, h *heard, s *croft.Session) {
	t.Helper()
	if err := s.Start(t.Context()); err != nil {
		t.Errorf("Start = %v", err)
		return
	}
	res, err := s.Exec(t.Context(), croft.Command{Shell: "cat kept d/fleeting; cat work 2>/dev/null"})
	if err != nil {
		t.Errorf("Exec = %v", err)
		return
	}
	work, ok := strings.CutPrefix(string(res.Stdout), "kf")
	if !ok {
		t.Errorf("the manifest's files hold %q, %s", res.Stdout, res.Stderr)
	}
	if work != h.wrote && work != h.writing {
		t.Errorf("work is %q, acknowledged was %q, begun %q", work, h.wrote, h.writing)
	}
	want := []string{"d", "d/fleeting", "kept"}
	if work != "" {
		want = append(want, "work")
	}
	got := namesBelow(t, s.HostRoot())
	if i := slices.Index(got, "by-command"); i >= 0 {
		got = slices.Delete(got, i, i+1)
	} else if h.commanded {
		t.Error("the command's file is lost")
	}
	if run.Root != "" {
		want = append(want, "mine")
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the workspace holds %q, want %q", got, want)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
}

// nothingLeft deletes every session and looks for what remains.
func nothingLeft(t *testing.T, run crashRun, h *heard) {
	t.Helper()
	c, err := croft.Open(croft.Config{Dir: run.Dir})
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range all {
		if err := c.Delete(t.Context(), info.ID); err != nil {
			t.Errorf("Delete = %v", err)
		}
	}
	if err := c.Close(); err != nil {
		t.Errorf("Client.Close = %v", err)
	}
	d, err := state.Open(run.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Sweep(t.Context(), nil); err != nil {
		t.Errorf("Sweep = %v", err)
	}
	want := []string{"run", "sessions", "snapshots", "trash"}
	got := slices.DeleteFunc(namesBelow(t, run.Dir), func(name string) bool {
		return run.Saves && strings.HasPrefix(name, "snapshots/") && strings.HasSuffix(name, ".tar")
	})
	if !slices.Equal(got, want) {
		t.Errorf("left in the state directory: %q", got)
	}
	if run.Root != "" {
		data, err := os.ReadFile(filepath.Join(run.Root, "mine"))
		if string(data) != "m" {
			t.Errorf("the caller's own file holds %q, %v", data, err)
		}
	}
}

// newLife makes the directories for a life.
func newLife(t *testing.T, script string, callers, saves bool) crashRun {
	t.Helper()
	dir := t.TempDir()
	run := crashRun{Dir: filepath.Join(dir, "state"), Script: script, Saves: saves}
	if callers {
		run.Root = filepath.Join(dir, "root")
		if err := os.Mkdir(run.Root, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(run.Root, "mine"), []byte("m"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// lives are the lives that are cut short.
var lives = []struct {
	name, script   string
	callers, saves bool
}{
	{"own workspace, saved", "session", false, true},
	{"own workspace, not saved", "session", false, false},
	{"caller's root, saved", "session", true, true},
	{"carried state", "carried", false, true},
}

func TestKilledAtEveryStep(t *testing.T) {
	killed := 0
	for i, l := range lives {
		if i > 0 && !proveLong() {
			break
		}
		t.Run(l.name, func(t *testing.T) {
			for at := 1; ; at++ {
				over := false
				t.Run(fmt.Sprint(at), func(t *testing.T) {
					run := newLife(t, l.script, l.callers, l.saves)
					run.KillAt = at
					h, _ := lead(t, run, nil)
					if h.failed != "" {
						t.Errorf("the life failed: %s", h.failed)
					}
					if over = h.killed == ""; !over {
						killed++
					}
					sound(t, run, h)
				})
				if over || t.Failed() && !proveLong() {
					break
				}
			}
		})
	}
	t.Logf("killed at %d steps", killed)
}

func TestFaultAtEveryCall(t *testing.T) {
	stride := int64(20)
	if proveLong() {
		stride = 1
	}
	runs, hits := 0, 0
	for _, l := range lives {
		if l.script != "session" && !proveLong() {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			run := newLife(t, l.script, l.callers, l.saves)
			h, in := lead(t, run, &fault{})
			if h.failed != "" || !h.ended {
				t.Fatalf("the life failed without a fault: %+v", h)
			}
			sound(t, run, h)
			t.Logf("calls below the state directory and the root: %v", in.counts)
			for kind := range faultKinds {
				for n := int64(1); n <= in.counts[kind]; n += stride {
					for _, f := range []fault{{kind, n, true, 0}, {kind, n, false, unix.ENOSPC}, {kind, n, false, unix.EIO}} {
						t.Run(f.String(), func(t *testing.T) {
							run := newLife(t, l.script, l.callers, l.saves)
							h, in := lead(t, run, &f)
							runs++
							if in.hit.Load() {
								hits++
							}
							if h.failed == "" && !h.ended && !in.hit.Load() {
								t.Errorf("the life ended early: %+v", h)
							}
							sound(t, run, h)
							if t.Failed() {
								t.Logf("the life: %+v", h)
							}
						})
					}
				}
			}
		})
	}
	t.Logf("%d lives, %d of them met their fault", runs, hits)
}

// The commands of a croft that was killed have ended before the next start touches
// the workspace, also those in a warden that was started after a stop.
func TestNextStartWaitsForTheWarden(t *testing.T) {
	for range 5 {
		run := newLife(t, "busy", false, false)
		text, err := json.Marshal(run)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashRunEnv+"="+string(text))
		out, err := cmd.Output() // at its end the process is dead; its warden may not be
		line, _, _ := strings.Cut(string(out), "\n")
		id, ok := strings.CutPrefix(line, "session ")
		if !ok {
			t.Fatalf("the process said %q, %v", out, err)
		}
		c := openClient(t, croft.Config{Dir: run.Dir})
		s, err := c.Resume(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		size := func() int64 {
			t.Helper()
			fi, err := s.Stat(t.Context(), "busy", croft.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return fi.Size
		}
		before := size()
		sh(t, s, "i=0; while test $i -lt 2000; do i=$((i+1)); done")
		if after := size(); after != before {
			t.Errorf("a command of the killed croft went on writing: %d bytes, then %d", before, after)
		}
	}
}

package croft_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croftdev/croft"
	"github.com/croftdev/croft/snapshot"
)

func TestOwnWorkspaceFromCreateToDelete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	c := openClient(t, croft.Config{Dir: dir})
	s := started(t, c, croft.CreateOptions{})
	if got := s.Root(); got != "/workspace" {
		t.Errorf("Root() = %q, want /workspace", got)
	}
	if got := sh(t, s, "pwd; echo $HOME"); got != "/workspace\n/workspace\n" {
		t.Errorf("pwd and HOME = %q", got)
	}
	if _, err := s.WriteFile(t.Context(), "by-program", strings.NewReader("p"), croft.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	// What the program wrote the command may change, and the other way round.
	sh(t, s, "echo c >> by-program; echo x > by-command; ln -s /workspace/by-command link")
	got, err := s.ReadFile(t.Context(), "link", croft.ReadOptions{})
	if err != nil || string(got) != "x\n" {
		t.Errorf("reading through a link as commands see it: %q, %v", got, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err = c.Resume(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, s, "cat by-program by-command"); got != "pc\nx\n" {
		t.Errorf("after the resume: %q", got)
	}
	if err := c.Delete(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"sessions", "trash"} {
		entries, err := os.ReadDir(filepath.Join(dir, part))
		if err != nil || len(entries) != 0 {
			t.Errorf("%s after Delete: %v, %v", part, entries, err)
		}
	}
	if _, err := c.Get(t.Context(), s.ID()); !errors.Is(err, croft.SessionNotFound) {
		t.Errorf("Get after Delete: %v", err)
	}
}

func TestCallersRootKeepsItsPathAndOwner(t *testing.T) {
	root := t.TempDir()
	c := openClient(t, croft.Config{})
	s := started(t, c, croft.CreateOptions{Root: root, PrivateHome: true})
	if s.Root() != root {
		t.Errorf("Root() = %q, want %q", s.Root(), root)
	}
	sh(t, s, "echo b > b; mkdir d; test \"$HOME\" != \"$PWD\"")
	for _, name := range []string{"b", "d"} {
		if got, want := owner(t, filepath.Join(root, name)), os.Getuid(); got != want {
			t.Errorf("%s belongs to %d, want %d", name, got, want)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "b")); err != nil {
		t.Errorf("a caller's root lost its content by Delete: %v", err)
	}
}

func TestEnvironmentIsBuiltFromNothing(t *testing.T) {
	t.Setenv("CF_HOST_SECRET", "hs")
	t.Setenv("CF_PASSED", "p")
	c := openClient(t, croft.Config{})
	s := started(t, c, croft.CreateOptions{PassEnv: []string{"CF_PASSED"}, Env: map[string]string{"GIVEN": "g"}})
	defer s.Close(t.Context())
	env := sh(t, s, "env")
	if strings.Contains(env, "CF_HOST_SECRET") {
		t.Errorf("a host variable reached a command:\n%s", env)
	}
	for _, want := range []string{"CF_PASSED=p\n", "GIVEN=g\n", "PATH=", "HOME=", "USER=", "LANG=", "TMPDIR="} {
		if !strings.Contains(env, want) {
			t.Errorf("%q is missing in\n%s", want, env)
		}
	}
}

func TestStopLeavesTheSessionUsable(t *testing.T) {
	c := openClient(t, croft.Config{})
	s := started(t, c, croft.CreateOptions{})
	defer s.Close(context.WithoutCancel(t.Context()))
	sh(t, s, "echo 1 > a")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !s.Running() {
		t.Error("not running after Stop")
	}
	if got := sh(t, s, "cat a"); got != "1\n" {
		t.Errorf("a = %q", got)
	}
}

func TestTwoHoldersOfOneSession(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	a, b := openClient(t, croft.Config{Dir: dir}), openClient(t, croft.Config{Dir: dir})
	s := started(t, a, croft.CreateOptions{})
	if _, err := b.Resume(t.Context(), s.ID()); !errors.Is(err, croft.SessionBusy) {
		t.Errorf("Resume by another: %v, want session_busy", err)
	}
	if err := b.Delete(t.Context(), s.ID()); !errors.Is(err, croft.SessionBusy) {
		t.Errorf("Delete by another: %v, want session_busy", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Resume(t.Context(), s.ID()); err != nil {
		t.Errorf("Resume after Close: %v", err)
	}
}

func TestRootsThatAreRefused(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	state := filepath.Join(t.TempDir(), "deep", "state")
	c := openClient(t, croft.Config{Dir: state})
	for _, tt := range []struct {
		name, root string
		allow      bool
	}{
		{name: "the file system's root", root: "/"},
		{name: "the home directory", root: home},
		{name: "what holds the home directory", root: filepath.Dir(home)},
		{name: "what holds croft's state", root: filepath.Dir(state)},
		{name: "croft's state, even if allowed", root: state, allow: true},
		{name: "a session's directory, even if allowed", root: filepath.Join(state, "sessions"), allow: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.Create(t.Context(), croft.CreateOptions{Root: tt.root, AllowHome: tt.allow})
			if !errors.Is(err, croft.InvalidArgument) {
				t.Errorf("Create(%q) error = %v, want invalid_argument", tt.root, err)
			}
		})
	}
	if _, err := c.Create(t.Context(), croft.CreateOptions{Root: home, AllowHome: true}); err != nil {
		t.Errorf("a home directory that is allowed by name: %v", err)
	}
}

// TestStateRestoresElsewhere carries a state to another state directory, as to another machine.
func TestStateRestoresElsewhere(t *testing.T) {
	snaps := filepath.Join(t.TempDir(), "snaps")
	spec := &snapshot.Spec{Type: snapshot.Tar, BasePath: snaps}
	a, b := openClient(t, croft.Config{}), openClient(t, croft.Config{})
	st, err := a.With(t.Context(), croft.WithOptions{Create: croft.CreateOptions{
		Snapshot: spec, Env: map[string]string{"TOKEN": "s3cr3t-value"},
	}}, func(ctx context.Context, s *croft.Session) error {
		sh(t, s, "mkdir -p d/e; echo x > d/f; chmod 700 d; ln -s /usr/bin/env out; ln d/f d/g")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if infos, err := a.List(t.Context()); err != nil || len(infos) != 0 {
		t.Errorf("With left sessions: %v, %v", infos, err)
	}
	data, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("s3cr3t-value")) {
		t.Errorf("the state holds a secret: %s", data)
	}
	back, err := croft.ParseState(data)
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.ResumeState(t.Context(), back, croft.ResumeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := sh(t, s, "cat d/f; readlink out; stat -c %a d; stat -c %h d/f; ls -d d/e"); got != "x\n/usr/bin/env\n700\n2\nd/e\n" {
		t.Errorf("restored: %q", got)
	}
}

// TestFailedSaveKeepsTheWorkspace makes the save fail for real: a directory has its name.
func TestFailedSaveKeepsTheWorkspace(t *testing.T) {
	snaps := t.TempDir()
	c := openClient(t, croft.Config{})
	st, err := c.With(t.Context(), croft.WithOptions{Create: croft.CreateOptions{
		Snapshot: &snapshot.Spec{Type: snapshot.Tar, BasePath: snaps},
	}}, func(ctx context.Context, s *croft.Session) error {
		sh(t, s, "echo precious > work")
		return os.Mkdir(filepath.Join(snaps, s.ID()+".tar"), 0o755)
	})
	if !errors.Is(err, croft.WorkspaceStopError) || !errors.Is(err, croft.SnapshotPersistError) {
		t.Fatalf("With error = %v, want workspace_stop_error caused by snapshot_persist_error", err)
	}
	if st == nil {
		t.Fatal("no resume state")
	}
	e, _ := errors.AsType[*croft.Error](err)
	place, _ := e.Details["workspace"].(string)
	if got, err := os.ReadFile(filepath.Join(place, "work")); err != nil || string(got) != "precious\n" {
		t.Errorf("the kept workspace at %q: %q, %v", place, got, err)
	}
	if info, err := c.Get(t.Context(), st.SessionID.String()); err != nil || info.Kept != string(croft.WorkspaceStopError) {
		t.Errorf("Get of the kept session: %+v, %v", info, err)
	}
	if _, err := c.Resume(t.Context(), st.SessionID.String()); err != nil {
		t.Errorf("Resume of the kept session: %v", err)
	}
}

func TestCancelledWithStillSavesAndDeletes(t *testing.T) {
	snaps := filepath.Join(t.TempDir(), "snaps")
	dir := filepath.Join(t.TempDir(), "state")
	c := openClient(t, croft.Config{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	st, err := c.With(ctx, croft.WithOptions{Create: croft.CreateOptions{
		Snapshot: &snapshot.Spec{Type: snapshot.Tar, BasePath: snaps},
	}}, func(ctx context.Context, s *croft.Session) error {
		sh(t, s, "echo 1 > work")
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v", err)
	}
	if st == nil || st.Fingerprint == nil {
		t.Fatalf("the resume state does not know the save: %+v", st)
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "sessions")); err != nil || len(entries) != 0 {
		t.Errorf("sessions left: %v, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(snaps, st.SessionID.String()+".tar")); err != nil {
		t.Error(err)
	}
}

func TestDeleteEndsALiveSession(t *testing.T) {
	c := openClient(t, croft.Config{})
	s := started(t, c, croft.CreateOptions{})
	begun := make(chan struct{})
	var once sync.Once
	ended := make(chan error, 1)
	go func() {
		_, err := s.Exec(t.Context(), croft.Command{Shell: "echo up; sleep 1000",
			Stdout: writerFunc(func(p []byte) (int, error) { once.Do(func() { close(begun) }); return len(p), nil })})
		ended <- err
	}()
	<-begun
	if err := c.Delete(t.Context(), s.ID()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the command outlived its session without an error")
	}
	if _, err := os.Stat(s.HostRoot()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the workspace is still there: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestStateIsNeverShown grants what contains croft's state: the grant is in force, the
// state is not there.
func TestStateIsNeverShown(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "state")
	c := openClient(t, croft.Config{Dir: dir})
	if _, err := c.Create(t.Context(), croft.CreateOptions{Grants: []croft.Grant{{Path: filepath.Join(dir, "sessions")}}}); !errors.Is(err, croft.InvalidArgument) {
		t.Errorf("a grant in croft's state: %v, want invalid_argument", err)
	}
	for _, opts := range []croft.CreateOptions{
		{Grants: []croft.Grant{{Path: base}}},
		{Grants: []croft.Grant{{Path: base, ReadOnly: true}}},
		{Root: base, AllowHome: true},
	} {
		s := started(t, c, opts)
		// The control: the host's directory holds this session.
		if _, err := os.Stat(filepath.Join(dir, "sessions", s.ID())); err != nil {
			t.Fatal(err)
		}
		if got := sh(t, s, "ls -A "+dir+"; touch "+dir+"/planted 2>/dev/null; true"); got != "" {
			t.Errorf("commands see croft's state: %q", got)
		}
		if _, err := os.Stat(filepath.Join(dir, "planted")); err == nil {
			t.Error("a command wrote into croft's state")
		}
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDisposableSessionsAreSwept leaves two sessions behind as a killed program does; only
// the one that said so goes.
func TestDisposableSessionsAreSwept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first, err := croft.Open(croft.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	gone := started(t, first, croft.CreateOptions{Disposable: true})
	stays := started(t, first, croft.CreateOptions{})
	second := openClient(t, croft.Config{Dir: dir})
	if _, err := second.Get(t.Context(), gone.ID()); err != nil {
		t.Errorf("a disposable session that is held was swept: %v", err)
	}
	if err := first.Close(); err != nil { // lets both go without deleting either
		t.Fatal(err)
	}
	third, err := croft.Open(croft.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		_, err := third.Get(t.Context(), gone.ID())
		if errors.Is(err, croft.SessionNotFound) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the disposable session is still there: %v", err)
		}
		runtime.Gosched()
	}
	if _, err := third.Get(t.Context(), stays.ID()); err != nil {
		t.Errorf("a session that was to stay is gone: %v", err)
	}
}

// TestExecEndedByStop: the caller cancelled nothing, so the error is no cancellation.
func TestExecEndedByStop(t *testing.T) {
	c := openClient(t, croft.Config{})
	s := started(t, c, croft.CreateOptions{})
	begun, ended := make(chan struct{}), make(chan error, 1)
	var once sync.Once
	go func() {
		_, err := s.Exec(t.Context(), croft.Command{Shell: "echo up; sleep 1000",
			Stdout: writerFunc(func(p []byte) (int, error) { once.Do(func() { close(begun) }); return len(p), nil })})
		ended <- err
	}()
	<-begun
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, croft.NotAvailable) || errors.Is(err, context.Canceled) {
		t.Errorf("Exec error = %v, want not_available and no cancellation", err)
	}
}

// TestClientCloseMeetsOthers closes a client under calls of every kind; the race
// detector looks on.
func TestClientCloseMeetsOthers(t *testing.T) {
	for range 10 {
		c, err := croft.Open(croft.Config{Dir: filepath.Join(t.TempDir(), "state")})
		if err != nil {
			t.Fatal(err)
		}
		s := started(t, c, croft.CreateOptions{})
		var wg sync.WaitGroup
		for _, call := range []func(){
			func() { _, _ = c.Create(t.Context(), croft.CreateOptions{}) },
			func() { _ = c.Delete(t.Context(), s.ID()) },
			func() { _ = s.Start(t.Context()) },
			func() { _, _ = s.Exec(t.Context(), croft.Command{Argv: []string{"true"}}) },
			func() { _ = s.Close(t.Context()) },
			func() { _, _ = c.List(t.Context()) },
		} {
			wg.Go(call)
		}
		if err := c.Close(); err != nil {
			t.Errorf("Client.Close: %v", err)
		}
		wg.Wait()
	}
}

// TestCloseWithAnEndedContext: a deferred Close after a Ctrl-C must leave no process.
func TestCloseWithAnEndedContext(t *testing.T) {
	c := openClient(t, croft.Config{})
	s := started(t, c, croft.CreateOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v", err)
	}
	if s.Running() {
		t.Error("the session still runs")
	}
	if _, err := s.Receipt(); !errors.Is(err, croft.NotAvailable) {
		t.Errorf("the warden still runs: %v", err)
	}
}

// TestSpawnRunsBesideCalls: a process takes input, is read by cursor, ends with Stop, and its
// log is there in the next life.
func TestSpawnRunsBesideCalls(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	c := openClient(t, croft.Config{Dir: dir})
	s := started(t, c, croft.CreateOptions{})
	p, err := s.Spawn(t.Context(), croft.Command{Shell: "while read l; do echo got $l; done", OpenStdin: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := sh(t, s, "echo beside"); got != "beside\n" {
		t.Errorf("Exec beside it: %q", got)
	}
	if _, err := p.Write(t.Context(), []byte("one\n")); err != nil {
		t.Fatal(err)
	}
	if got := output(t, p, len("got one\n")); got != "got one\n" {
		t.Errorf("output = %q", got)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.By != "close" {
		t.Errorf("after Stop: %+v, %v", exit, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err = c.Resume(t.Context(), s.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.WithoutCancel(t.Context()))
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	infos, err := s.Processes(t.Context())
	if err != nil || len(infos) != 1 || infos[0].ID != p.ID() {
		t.Fatalf("Processes after a resume: %+v, %v", infos, err)
	}
	again, err := s.Process(p.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got := output(t, again, len("got one\n")); got != "got one\n" {
		t.Errorf("the log after a resume = %q", got)
	}
}

// output reads n bytes of a process's output from its start.
func output(t *testing.T, p *croft.Process, n int) string {
	t.Helper()
	log, err := p.Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := log.Reader(0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b []byte
	for len(b) < n {
		piece, err := r.Next(t.Context(), n)
		if err != nil {
			t.Fatalf("after %q: %v", b, err)
		}
		b = append(b, piece.Data...)
	}
	return string(b)
}

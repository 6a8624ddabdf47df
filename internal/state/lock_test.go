package state_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/state"
)

// TestMain makes the test binary a second croft when it is told to: it takes the
// session named, says so and waits to be killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CROFT_TEST_HOLD_DIR"); dir != "" {
		hold(dir, os.Getenv("CROFT_TEST_HOLD_ID"))
	}
	os.Exit(m.Run())
}

func hold(dir, id string) {
	d, err := state.Open(dir)
	if err == nil {
		_, err = d.Lock(state.ID(id))
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("held\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// otherCroft starts a process that holds the session.
func otherCroft(t *testing.T, d *state.Dir, id state.ID) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CROFT_TEST_HOLD_DIR="+d.Path(), "CROFT_TEST_HOLD_ID="+id.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the other croft said %q, %v", line, err)
	}
	return cmd
}

func TestSessionIsBornHeldAndWhole(t *testing.T) {
	d := openState(t)
	rec := newRecord()
	rec.SeenRoot = "/workspace"
	l, err := d.NewSession(rec)
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.Load()
	if err != nil {
		t.Fatal(err)
	}
	if got.Phase != state.Created || got.Created.IsZero() || got.Created != got.Updated || got.Version != 1 || got.SeenRoot != "/workspace" {
		t.Errorf("record = %+v", got)
	}
	if seen, err := d.Load(rec.ID); err != nil || !reflect.DeepEqual(seen, got) {
		t.Errorf("Load without the lock = %+v, %v", seen, err)
	}
	if _, err := d.Lock(rec.ID); !errors.Is(err, fault.SessionBusy) {
		t.Errorf("Lock of a new session = %v, want session_busy", err)
	}
	if _, err := d.NewSession(rec); !errors.Is(err, fault.StateCorrupt) {
		t.Errorf("NewSession with an id in use = %v, want state_corrupt", err)
	}
	want := []string{rec.ID.String(), rec.ID.String() + "/lock", rec.ID.String() + "/session.json"}
	if got := below(t, filepath.Join(d.Path(), "sessions")); !slices.Equal(got, want) {
		t.Errorf("on disk: %q, want %q", got, want)
	}
	for range 2 {
		if err := l.Release(); err != nil {
			t.Errorf("Release = %v", err)
		}
	}
	l, err = d.Lock(rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	got.Phase = state.Running
	if err := l.Save(got); err != nil {
		t.Fatal(err)
	}
	after, err := l.Load()
	if err != nil || after.Phase != state.Running || after.Created != got.Created || !after.Updated.After(got.Updated) {
		t.Errorf("after Save: %+v, %v", after, err)
	}
}

func TestBusyNamesTheHolder(t *testing.T) {
	d := openState(t)
	l := newSession(t, d)
	id := l.ID()
	holder := func(err error) any {
		t.Helper()
		e, ok := errors.AsType[*fault.Error](err)
		if !ok || e.Code != fault.SessionBusy || e.Retry != fault.RetryYes {
			t.Fatalf("error = %v, want session_busy", err)
		}
		return e.Details["pid"]
	}
	_, err := d.Lock(id)
	if pid := holder(err); pid != os.Getpid() {
		t.Errorf("holder = %v, want this process %d", pid, os.Getpid())
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	other := otherCroft(t, d, id)
	_, err = d.Lock(id)
	if pid := holder(err); pid != other.Process.Pid {
		t.Errorf("holder = %v, want %d", pid, other.Process.Pid)
	}
	// A holder that is killed holds nothing.
	if err := other.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	again, err := d.Lock(id)
	if err != nil {
		t.Fatalf("Lock after the holder was killed = %v", err)
	}
	again.Release()
}

func TestNotFound(t *testing.T) {
	d := openState(t)
	if _, err := d.Lock(state.NewID()); !errors.Is(err, fault.SessionNotFound) {
		t.Errorf("Lock = %v, want session_not_found", err)
	}
	if _, err := d.Load(state.NewID()); !errors.Is(err, fault.SessionNotFound) {
		t.Errorf("Load = %v, want session_not_found", err)
	}
	l := newSession(t, d)
	if _, err := l.Trash(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(l.ID()); !errors.Is(err, fault.SessionNotFound) {
		t.Errorf("Lock after Trash = %v, want session_not_found", err)
	}
	if _, err := l.Trash(); !errors.Is(err, fault.SessionNotFound) {
		t.Errorf("second Trash = %v, want session_not_found", err)
	}
	if got, err := d.List(); err != nil || len(got) != 0 {
		t.Errorf("List = %v, %v, want nothing", got, err)
	}
}

func TestListTellsWhatItCannotRead(t *testing.T) {
	d := openState(t)
	first, bad, second := newSession(t, d), newSession(t, d), newSession(t, d)
	sessions := filepath.Join(d.Path(), "sessions")
	if err := os.WriteFile(filepath.Join(sessions, bad.ID().String(), "session.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".new-0123456789abcdef", "notes"} {
		mkdir(t, filepath.Join(sessions, name), 0o700)
	}
	got, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	var ids []state.ID
	for _, l := range got {
		ids = append(ids, l.ID)
		if (l.Err != nil) != (l.ID == bad.ID()) || l.Err != nil && !errors.Is(l.Err, fault.StateCorrupt) {
			t.Errorf("%s: error %v", l.ID, l.Err)
		}
	}
	if want := []state.ID{first.ID(), second.ID(), bad.ID()}; !slices.Equal(ids, want) {
		t.Errorf("List = %v, want %v", ids, want)
	}
	// A damaged session can still be taken, to be deleted.
	if _, err := bad.Trash(); err != nil {
		t.Errorf("Trash of a damaged session = %v", err)
	}
}

// What a killed process left in a session's directory goes when it is taken next.
func TestLockClearsLeftovers(t *testing.T) {
	d := openState(t)
	l := newSession(t, d)
	name, stage, err := l.Stage()
	if err != nil {
		t.Fatal(err)
	}
	stage.Close()
	if err := os.Chmod(filepath.Join(l.Path(), name), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.Path(), ".croft-0123456789abcdef.tmp"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := d.Lock(l.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Release()
	if got := below(t, again.Path()); !slices.Equal(got, []string{"lock", "session.json"}) {
		t.Errorf("left: %q", got)
	}
	if got := below(t, filepath.Join(d.Path(), "trash")); len(got) != 1 {
		t.Errorf("trash: %q, want the stage", got)
	}
}

func TestAdoptSwapsTheWorkspace(t *testing.T) {
	d := openState(t)
	l := newSession(t, d)
	for i, content := range []string{"first", "second"} {
		name, dir, err := l.Stage()
		if err != nil {
			t.Fatal(err)
		}
		dir.Close()
		if err := os.WriteFile(filepath.Join(l.Path(), name, "f"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.Adopt(name); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(l.WorkspacePath(), "f")); string(got) != content {
			t.Errorf("workspace holds %q, %v, want %q", got, err, content)
		}
		if got := below(t, l.Path()); len(got) != 4 {
			t.Errorf("session holds %q", got)
		}
		if got := below(t, filepath.Join(d.Path(), "trash")); len(got) != 2*i {
			t.Errorf("trash holds %q", got)
		}
	}
	// A command took all rights from the workspace's own directory.
	if err := os.Chmod(l.WorkspacePath(), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.TrashWorkspace(); err != nil {
			t.Errorf("TrashWorkspace = %v", err)
		}
	}
	if got := below(t, l.Path()); !slices.Equal(got, []string{"lock", "session.json"}) {
		t.Errorf("session holds %q", got)
	}
	if err := l.Adopt("missing"); err == nil {
		t.Error("Adopt of nothing succeeded")
	}
}

func BenchmarkNewSessionAndSave(b *testing.B) {
	d, err := state.Open(filepath.Join(b.TempDir(), "croft"))
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	b.Run("NewSession", func(b *testing.B) {
		for b.Loop() {
			l, err := d.NewSession(newRecord())
			if err != nil {
				b.Fatal(err)
			}
			l.Release()
		}
	})
	b.Run("Save", func(b *testing.B) {
		rec := newRecord()
		l, err := d.NewSession(rec)
		if err != nil {
			b.Fatal(err)
		}
		defer l.Release()
		rec.Phase = state.Running
		for b.Loop() {
			if err := l.Save(rec); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package process_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/process"
)

// long outlives every test; nothing waits for it.
const long = "1000"

func TestTimeout(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shell string
		grace time.Duration
		code  int
		out   string
		ended []string
	}{
		{name: "output until then is kept", shell: "echo part; sleep " + long, code: -15, out: "part\n", ended: []string{"SIGTERM"}},
		{name: "a command that puts things in order", out: "a\nb\n", code: 5, ended: []string{"SIGTERM"},
			shell: "trap 'echo b; exit 5' TERM; echo a; while :; do sleep " + long + " & wait; done", grace: time.Minute},
		{name: "a child that puts things in order after its parent has ended", out: "b\n", code: -15, ended: []string{"SIGTERM"},
			shell: "(trap 'sleep 0.2; echo b; exit' TERM; while :; do sleep " + long + " & wait; done) & exec sleep " + long, grace: time.Minute},
		{name: "a command that does not listen", shell: "trap '' TERM; echo a; while :; do sleep " + long + "; done",
			grace: time.Millisecond, code: -9, out: "a\n", ended: []string{"SIGTERM", "SIGKILL"}},
		{name: "no grace", shell: "echo a; sleep " + long, grace: -1, code: -9, out: "a\n", ended: []string{"SIGKILL"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res, err := process.Run(t.Context(), plain{}, process.Command{
				Shell: tt.shell, Env: environ, Timeout: time.Second, KillGrace: tt.grace,
			})
			if !errors.Is(err, fault.ExecTimeout) || res == nil || !res.TimedOut {
				t.Fatalf("result %+v, error %v; want %v", res, err, fault.ExecTimeout)
			}
			if e, _ := errors.AsType[*fault.Error](err); e.Retry != fault.RetryNo {
				t.Errorf("retry = %v, want no (case EV-006)", e.Retry)
			}
			if res.ExitCode != tt.code || string(res.Stdout) != tt.out || strings.Join(res.Ended, " ") != strings.Join(tt.ended, " ") {
				t.Errorf("code %d, output %q, ended by %v; want %d, %q, %v", res.ExitCode, res.Stdout, res.Ended, tt.code, tt.out, tt.ended)
			}
		})
	}
}

// Whatever of the command is left in its group is killed with it (case SH-158).
func TestTimeoutEndsTheGroup(t *testing.T) {
	res, err := process.Run(t.Context(), plain{}, process.Command{
		Shell: "sh -c 'trap \"\" TERM; echo $$; while :; do sleep " + long + "; done' & sleep " + long,
		Env:   environ, Timeout: time.Second, KillGrace: time.Millisecond,
	})
	if !errors.Is(err, fault.ExecTimeout) {
		t.Fatalf("error = %v", err)
	}
	waitGone(t, pidIn(t, res.Stdout))
}

func TestCancel(t *testing.T) {
	t.Run("before the start", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := process.Run(ctx, plain{}, process.Command{Argv: []string{"true"}, Env: environ}); !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("while it runs", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		res, err := process.Run(ctx, plain{}, process.Command{
			Shell: "echo part; sleep " + long, Env: environ, Timeout: time.Hour, Stdout: onWrite(cancel),
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, fault.ExecTimeout) {
			t.Fatalf("error = %v", err)
		}
		if res == nil || res.TimedOut || string(res.Stdout) != "part\n" || res.Signal != "SIGTERM" {
			t.Errorf("result %+v", res)
		}
	})
	t.Run("a deadline of the caller is no timeout of the command", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		res, err := process.Run(ctx, plain{}, process.Command{Argv: []string{"sleep", long}, Env: environ, Timeout: time.Hour})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, fault.ExecTimeout) || res == nil || res.TimedOut {
			t.Errorf("result %+v, error %v", res, err)
		}
	})
}

// A context that ends while the command is being started finds a command to end,
// whose output is kept.
func TestCancelDuringTheStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	res, err := process.Run(ctx, slow{func() {
		_ = w.Close()
		_, _ = io.ReadAll(r) // until the command has closed its copy: it has written
		cancel()
	}}, process.Command{Shell: "echo part; exec 0</dev/null; sleep " + long, Env: environ, Stdin: w})
	if !errors.Is(err, context.Canceled) || res == nil || string(res.Stdout) != "part\n" || res.Signal != "SIGTERM" {
		t.Errorf("result %+v, error %v", res, err)
	}
}

// A spawn that does not come back is given up, and no result is made up for it.
func TestCancelOfAStuckStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	res, err := process.Run(ctx, stuck{cancel}, process.Command{Argv: []string{"true"}, Env: environ})
	if !errors.Is(err, context.Canceled) || res != nil {
		t.Errorf("result %+v, error %v", res, err)
	}
	res, err = process.Run(t.Context(), stuck{func() {}}, process.Command{Argv: []string{"true"}, Env: environ, Timeout: time.Millisecond})
	if !errors.Is(err, fault.ExecTimeout) || res != nil {
		t.Errorf("result %+v, error %v", res, err)
	}
}

// slow calls its function between the start of the command and the return of Spawn.
type slow struct{ started func() }

func (s slow) Spawn(ctx context.Context, spec process.Spec) (process.Child, error) {
	child, err := plain{}.Spawn(ctx, spec)
	s.started()
	return child, errors.Join(err, ctx.Err())
}

// stuck is a spawner that only its context ends.
type stuck struct{ asked func() }

func (s stuck) Spawn(ctx context.Context, _ process.Spec) (process.Child, error) {
	s.asked()
	<-ctx.Done()
	return nil, ctx.Err()
}

// onWrite calls itself at every write.
type onWrite func()

func (f onWrite) Write(p []byte) (int, error) { f(); return len(p), nil }

// A background child that holds the pipes neither holds up the command's end nor
// dies of it (case SH-164).
func TestBackgroundChildHoldsThePipes(t *testing.T) {
	res := mustRun(t, process.Command{Shell: "sleep " + long + " & echo $!"})
	pid := pidIn(t, res.Stdout)
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the background child is gone: %v", err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	waitGone(t, pid)
}

// One that writes without end cannot hold it up either, and gets SIGPIPE.
func TestBackgroundChildWritesOn(t *testing.T) {
	res := mustRun(t, process.Command{Shell: "echo $$; exec 2>/dev/null; yes & ", OutputLimit: 1 << 10, Drain: time.Millisecond})
	if !bytes.HasPrefix(res.Stdout, []byte(strconv.Itoa(pidIn(t, res.Stdout))+"\n")) {
		t.Errorf("output starts with %q", res.Stdout[:min(len(res.Stdout), 20)])
	}
}

// What the command wrote is kept even if a slow audience holds up the reader until
// after the grace, while a background child holds the pipe.
func TestSlowAudienceLosesNothing(t *testing.T) {
	for range 10 {
		ended := make(chan struct{})
		got, err := process.Run(t.Context(), announcing{ended}, process.Command{
			// The lines fit into the pipe, so that the command ends although nobody reads.
			Shell: "sleep " + long + " & echo $!; seq 1 5000", Env: environ, Stdout: gate{ended}, Drain: -1,
		})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(got.Stdout, []byte("\n4999\n5000\n")) {
			t.Errorf("the end of the output is lost; kept %d bytes", len(got.Stdout))
		}
		_ = syscall.Kill(pidIn(t, got.Stdout), syscall.SIGKILL)
	}
}

// announcing closes ended when its child's end is known.
type announcing struct{ ended chan struct{} }

func (a announcing) Spawn(ctx context.Context, spec process.Spec) (process.Child, error) {
	c, err := plain{}.Spawn(ctx, spec)
	return announcingChild{c, a.ended}, err
}

type announcingChild struct {
	process.Child
	ended chan struct{}
}

func (c announcingChild) Wait(ctx context.Context) (process.Status, error) {
	defer close(c.ended)
	return c.Child.Wait(ctx)
}

// gate lets a write pass once open is closed.
type gate struct{ open chan struct{} }

func (g gate) Write(p []byte) (int, error) { <-g.open; return len(p), nil }

// Nothing is left of a run: no goroutine and no descriptor.
func TestRunLeavesNothing(t *testing.T) {
	runs := func() {
		for _, c := range []process.Command{
			{Argv: []string{"true"}, Stdin: endless{}},
			{Argv: []string{"no-such-program-cf"}, Stdin: endless{}},
			{Argv: []string{"true"}, Dir: "/none", Stdout: io.Discard},
			{Shell: "sleep 0.3 & echo x", Drain: -1},
			{Shell: "sleep " + long, Timeout: 20 * time.Millisecond},
			{Shell: "trap '' TERM; while :; do sleep " + long + "; done", Timeout: 50 * time.Millisecond, KillGrace: time.Millisecond},
			{Shell: "seq 1 100000", Stdout: &failing{err: io.ErrClosedPipe}},
		} {
			c.Env = environ
			_, _ = process.Run(t.Context(), plain{}, c)
		}
	}
	runs() // starts what the runtime keeps: its poller, /dev/null
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for range 5 {
		runs()
	}
	deadline := time.Now().Add(20 * time.Second)
	for runtime.NumGoroutine() > goroutines && time.Now().Before(deadline) {
		runtime.Gosched() // a goroutine that was waited for may still be returning
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d open descriptors, %d before", n, files)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc/self/fd")
	}
	return len(entries)
}

// pidIn returns the process id on the first line of out.
func pidIn(t *testing.T, out []byte) int {
	t.Helper()
	line, _, _ := strings.Cut(string(out), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatalf("no process id in %q", out)
	}
	return pid
}

// waitGone waits until no process has the id.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatalf("pidfd_open: %v", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20_000); err != nil || n != 1 {
		t.Errorf("process %d still lives (poll: %d, %v)", pid, n, err)
	}
}

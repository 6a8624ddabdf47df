package confine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/process"
	"github.com/croftdev/croft/policy"
)

// bothTiers runs a test under namespaces and under none: what a command is given does
// not depend on the tier.
func bothTiers(t *testing.T, test func(t *testing.T, cell *confine.Cell)) {
	for _, tier := range []policy.Tier{policy.Namespaces, policy.None} {
		t.Run(string(tier), func(t *testing.T) {
			test(t, start(t, func(s *confine.Spec) { s.Policy.Tier = tier }))
		})
	}
}

func TestSpawnEnds(t *testing.T) {
	bothTiers(t, func(t *testing.T, cell *confine.Cell) {
		for _, tt := range []struct {
			line string
			want process.Status
		}{
			{"true", process.Status{}},
			{"exit 7", process.Status{Code: 7}},
			{"exit 255", process.Status{Code: 255}},
			{"kill -9 $$", process.Status{Signal: syscall.SIGKILL}},
			{"kill -TERM $$", process.Status{Signal: syscall.SIGTERM}},
			{"kill -SEGV $$", process.Status{Signal: syscall.SIGSEGV}},
		} {
			if got := sh(t, cell, tt.line).status; got != tt.want {
				t.Errorf("%q: %+v, want %+v", tt.line, got, tt.want)
			}
		}
	})
}

func TestSpawnErrors(t *testing.T) {
	bothTiers(t, func(t *testing.T, cell *confine.Cell) {
		if out := sh(t, cell, "echo '#!/no/such' > bad; chmod 755 bad; echo x > plain; mkdir d"); out.status.Code != 0 {
			t.Fatal(out)
		}
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		for _, tt := range []struct {
			name string
			spec process.Spec
			want error
		}{
			{"no such program", process.Spec{Argv: []string{"/no/such"}}, process.ErrNotFound},
			{"not on PATH", process.Spec{Argv: []string{"no-such-program"}, Env: []string{"PATH=/usr/bin"}}, process.ErrNotFound},
			{"missing interpreter", process.Spec{Argv: []string{"./bad"}}, process.ErrNotFound},
			{"not executable", process.Spec{Argv: []string{"./plain"}}, process.ErrNotExecutable},
			{"a directory", process.Spec{Argv: []string{"./d"}}, process.ErrNotExecutable},
			{"no such directory", process.Spec{Argv: []string{"true"}, Dir: "/no/such"}, process.ErrDir},
			{"no arguments at all", process.Spec{}, process.ErrNotFound},
		} {
			tt.spec.Files = [3]*os.File{null, null, null}
			child, err := cell.Spawn(context.Background(), tt.spec)
			if !errors.Is(err, tt.want) || child != nil {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		}
		if out := sh(t, cell, "echo still"); out.text != "still" {
			t.Errorf("after the errors: %+v", out)
		}
	})
}

// TestSpawnGives: arguments, environment, directory and stdin arrive byte for byte,
// and nothing else does.
func TestSpawnGives(t *testing.T) {
	bothTiers(t, func(t *testing.T, cell *confine.Cell) {
		env := []string{"A=1", "B=x y\n", "PATH=/usr/bin:/bin"}
		child, r, err := spawn(t, cell, env, "env", "-0")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Join(env, "\x00")+"\x00", string(b)); diff != "" {
			t.Errorf("environment (-want +got):\n%s", diff)
		}
		if _, err := child.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		if out := run(t, cell, "printf", "[%s]", "a b", "", "\xff'"); out.text != "[a b][][\xff']" {
			t.Errorf("arguments: %q", out.text)
		}
		// 3 is the directory that ls reads.
		if out := sh(t, cell, "pwd; umask; ulimit -c; cat; exec ls -m /proc/self/fd"); out.text != cell.Root()+"\n0022\n"+coreLimit(t, cell)+"\n0, 1, 2, 3" {
			t.Errorf("surroundings: %q", out.text)
		}
		// Dispositions and mask are the defaults, but what the kernel was told in the
		// parents of this test.
		out := sh(t, cell, "grep -E 'SigBlk|SigIgn' /proc/self/status | tr -d '\\n'")
		if out.text != "SigBlk:\t0000000000000000SigIgn:\t0000000000000000" {
			t.Errorf("signals: %q", out.text)
		}
		// A leader of a session and a group of its own.
		if out := sh(t, cell, "ps -o pid=,pgid=,sid= -p $$ | awk '{print ($1==$2 && $2==$3)}'"); out.text != "1" {
			t.Errorf("session: %q", out.text)
		}
	})
}

func coreLimit(t *testing.T, cell *confine.Cell) string {
	if cell.Receipt().Tier == policy.None {
		return sh(t, cell, "ulimit -c").text
	}
	return "0"
}

// TestSpawnLarge: a command larger than a packet arrives too.
func TestSpawnLarge(t *testing.T) {
	bothTiers(t, func(t *testing.T, cell *confine.Cell) {
		big := strings.Repeat("x", 100<<10)
		out := run(t, cell, "sh", "-c", `printf %s "$1$2$3" | wc -c`, "sh", big, big, big)
		if out.text != fmt.Sprint(3*len(big)) {
			t.Errorf("a large command: %+v", out)
		}
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		_, err = cell.Spawn(context.Background(), process.Spec{
			Argv: []string{"true", strings.Repeat("x", 17<<20)}, Files: [3]*os.File{null, null, null},
		})
		if !errors.Is(err, process.ErrNotExecutable) {
			t.Errorf("a command that no kernel takes: %v", err)
		}
	})
}

func TestSpawnSideBySide(t *testing.T) {
	bothTiers(t, func(t *testing.T, cell *confine.Cell) {
		const n = 100
		var wg sync.WaitGroup
		errs := make(chan error, n)
		for i := range n {
			wg.Go(func() {
				r, w, err := os.Pipe()
				if err != nil {
					errs <- err
					return
				}
				defer r.Close()
				child, err := cell.Spawn(context.Background(), process.Spec{
					Argv: []string{"/bin/sh", "-c", fmt.Sprintf("echo %d; exit %d", i, i)}, Files: [3]*os.File{w, w, w},
				})
				w.Close()
				if err != nil {
					errs <- err
					return
				}
				b, err := io.ReadAll(r)
				st, werr := child.Wait(context.Background())
				if err != nil || werr != nil || string(b) != fmt.Sprintln(i) || st.Code != i {
					errs <- fmt.Errorf("command %d: %q %+v %w %w", i, b, st, err, werr)
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			t.Error(err)
		}
	})
}

func TestSignalAndWait(t *testing.T) {
	bothTiers(t, func(t *testing.T, cell *confine.Cell) {
		child, r, err := spawn(t, cell, []string{"PATH=/usr/bin:/bin"}, "sh", "-c", `trap 'echo got; exit 3' USR1; echo up; while :; do sleep 0.01; done`)
		if err != nil {
			t.Fatal(err)
		}
		readLine(t, r, "up")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := child.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Wait with a context that has ended: %v", err)
		}
		if err := child.Signal(syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil || !bytes.Contains(b, []byte("got")) {
			t.Errorf("output %q, %v", b, err)
		}
		for range 2 {
			if st, err := child.Wait(context.Background()); err != nil || st.Code != 3 {
				t.Errorf("Wait: %+v, %v", st, err)
			}
		}
		if err := child.Signal(syscall.SIGKILL); err != nil {
			t.Errorf("signal to what has ended: %v", err)
		}
	})
}

// readLine reads exactly the line.
func readLine(t testing.TB, r io.Reader, line string) {
	t.Helper()
	b := make([]byte, len(line)+1)
	if _, err := io.ReadFull(r, b); err != nil || string(b) != line+"\n" {
		t.Fatalf("read %q, %v, want %q", b, err, line)
	}
}

// TestKill ends a tree with other process groups and with background processes, and
// nothing else.
func TestKill(t *testing.T) {
	bothTiers(t, func(t *testing.T, cell *confine.Cell) {
		other, otherOut, err := spawn(t, cell, []string{"PATH=/usr/bin:/bin"}, "sh", "-c", "echo up; exec sleep 1000")
		if err != nil {
			t.Fatal(err)
		}
		readLine(t, otherOut, "up")
		child, r, err := spawn(t, cell, []string{"PATH=/usr/bin:/bin"}, "sh", "-c",
			`setsid sleep 1000 & trap '' TERM; (trap '' TERM; sleep 1000 & wait) & bash -mc 'sleep 1000 & wait' 2>/dev/null & echo up; wait`)
		if err != nil {
			t.Fatal(err)
		}
		readLine(t, r, "up")
		if err := child.Kill(); err != nil {
			t.Fatal(err)
		}
		// The pipe ends when the last process of the tree has.
		if b, err := io.ReadAll(r); err != nil || len(b) > 0 {
			t.Errorf("output %q, %v", b, err)
		}
		if st, err := child.Wait(context.Background()); err != nil || st.Signal != syscall.SIGKILL {
			t.Errorf("Wait: %+v, %v", st, err)
		}
		if err := other.Signal(0); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := other.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("the other command ended: %v", err)
		}
		if err := other.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Wait(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestKillAfterEnd: what a command left behind is still reached.
func TestKillAfterEnd(t *testing.T) {
	bothTiers(t, func(t *testing.T, cell *confine.Cell) {
		child, r, err := spawn(t, cell, []string{"PATH=/usr/bin:/bin"}, "sh", "-c", `sleep 1000 & echo up`)
		if err != nil {
			t.Fatal(err)
		}
		readLine(t, r, "up")
		if st, err := child.Wait(context.Background()); err != nil || st != (process.Status{}) {
			t.Fatalf("Wait: %+v, %v", st, err)
		}
		if err := child.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(r); err != nil {
			t.Error(err)
		}
	})
}

// TestCancelledSpawn starts nothing.
func TestCancelledSpawn(t *testing.T) {
	cell := start(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := cell.Spawn(ctx, process.Spec{Argv: []string{"true"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Spawn: %v", err)
	}
}

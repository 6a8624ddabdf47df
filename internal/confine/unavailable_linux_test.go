package confine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/policy"
)

// refusals are hosts that cannot confine, made in namespaces of their own: what is done
// to the host, and the reason that Start gives.
var refusals = map[string]struct {
	reason  string
	prepare func() error
}{
	"no-user-namespaces": {"fork", func() error {
		return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	}},
	// As container engines mask parts of /proc: the mounts of the outer user namespace are
	// locked for the inner one.
	"masked-proc": {"proc", func() error {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount("tmpfs", "/proc/sys", "tmpfs", 0, "")
	}},
	// A control: in the same namespaces, with nothing done to them, a cell starts.
	"nothing": {"", func() error { return nil }},
}

// playRefusal prepares the host and tells the reason of the error of Start.
func playRefusal(name string) {
	if err := refusals[name].prepare(); err != nil {
		fmt.Println("prepare:", err)
		os.Exit(1)
	}
	l := confine.NewLauncher("")
	defer l.Close()
	cell, err := l.Start(context.Background(), confine.Spec{
		Workspace: confine.Bind{Path: os.Getenv("CROFT_CONFINE_TEST_DIR"), Target: "/workspace"}, Owned: true, UID: 2_000_000_020,
	})
	if err == nil {
		fmt.Println("")
		_ = cell.Close(context.Background())
		return
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Code != fault.ConfinementUnavailable || e.Details["fix"] == "" {
		fmt.Printf("another error: %v\n", err)
		return
	}
	fmt.Println(e.Reason)
	fmt.Fprintln(os.Stderr, e)
}

// TestUnavailable: a host that cannot confine gets an error that says what to change,
// and never a weaker cell.
func TestUnavailable(t *testing.T) {
	for name, want := range refusals {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), roleEnv+"=refusal:"+name, "CROFT_CONFINE_TEST_DIR="+t.TempDir())
			// Maps only itself: such a root counts as an ordinary user.
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
			}
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s%s", err, out, said.String())
			}
			if got := strings.TrimSpace(string(out)); got != want.reason {
				t.Errorf("reason %q, want %q: %s", got, want.reason, said.String())
			}
			t.Log(said.String())
		})
	}
}

// TestHelperThatIsNone: a program that is no helper of croft is an error, not a hang.
func TestHelperThatIsNone(t *testing.T) { bothWays(t, testHelperThatIsNone) }

func testHelperThatIsNone(t *testing.T) {
	for _, program := range []string{"/bin/true", "/no/such/program"} {
		l := confine.NewLauncher(program)
		_, err := l.Start(context.Background(), confine.Spec{Workspace: confine.Bind{Path: t.TempDir()}, UID: 2_000_000_021})
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != fault.ConfinementUnavailable || e.Reason != "helper" {
			t.Errorf("%s as helper: %v", program, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestMissingPath: what the policy wants to show and the host does not have is an error
// that names it.
func TestMissingPath(t *testing.T) {
	l := confine.NewLauncher("")
	defer l.Close()
	_, err := l.Start(context.Background(), confine.Spec{
		Workspace: confine.Bind{Path: t.TempDir()}, UID: 2_000_000_022,
		Policy: policy.Policy{ReadPaths: []string{"/no/such/path"}},
	})
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Details["target"] != "/no/such/path" || !errors.Is(err, unix.ENOENT) {
		t.Errorf("Start: %v", err)
	}
}

// TestReadPaths shows a further path, read-only.
func TestReadPaths(t *testing.T) {
	dir := t.TempDir()
	openParents(t, dir)
	if err := os.WriteFile(dir+"/f", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	cell := start(t, func(s *confine.Spec) { s.Policy.ReadPaths = []string{dir} })
	if out := sh(t, cell, "cat "+dir+"/f; (echo y > "+dir+"/f) 2>/dev/null || echo refused"); out.text != "xrefused" {
		t.Errorf("%+v", out)
	}
}

// TestManyCells starts and ends cells side by side; no descriptor and no process of
// theirs is left in this program.
func TestManyCells(t *testing.T) { bothWays(t, testManyCells) }

func testManyCells(t *testing.T) {
	l := confine.NewLauncher("")
	defer l.Close()
	round := func(n int) {
		var wg sync.WaitGroup
		for range n {
			dir := t.TempDir()
			wg.Go(func() {
				cell, err := l.Start(context.Background(), confine.Spec{Workspace: confine.Bind{Path: dir, Target: "/workspace"}, Owned: true, UID: 2_000_000_023})
				if err != nil {
					t.Error(err)
					return
				}
				if out := run(t, cell, "true"); out.status.Code != 0 {
					t.Errorf("true: %+v", out)
				}
				if err := cell.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	round(1) // the starter, and what the runtime opens once
	before := openFiles(t)
	round(20)
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

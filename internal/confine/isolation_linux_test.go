package confine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/process"
	"github.com/croftdev/croft/policy"
)

// arm copies the test binary into the directory, as the program that attacks.
func arm(t *testing.T, dir string) {
	t.Helper()
	in, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(filepath.Join(dir, "attack"), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// attack runs one attack in the cell and reports whether it succeeded.
func attack(t *testing.T, cell *confine.Cell, name string, args ...string) (bool, string) {
	t.Helper()
	child, r, err := spawn(t, cell, []string{roleEnv + "=attack"}, append([]string{"./attack", name}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	st, err := child.Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if st.Signal != 0 || st.Code > 1 {
		t.Fatalf("attack %s: %+v: %s", name, st, b)
	}
	return st.Code == 0, strings.TrimSpace(string(b))
}

// listen returns a listening socket of the host.
func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestAttacks tries each attack in a cell, where it is refused, and under the tier none,
// where it succeeds: so it would have, had nothing stopped it.
func TestAttacks(t *testing.T) {
	secrets := t.TempDir()
	secret := filepath.Join(secrets, "secret")
	if err := os.WriteFile(secret, []byte("s3cret"), 0o644); err != nil {
		t.Fatal(err)
	}
	tcp := listen(t, "tcp", "127.0.0.1:0").Addr().String()
	abstract := fmt.Sprintf("@croft-test-%d", os.Getpid())
	listen(t, "unix", abstract)
	socket := filepath.Join(secrets, "sock")
	listen(t, "unix", socket)
	marker := exec.Command("sleep", "1000")
	marker.Env = []string{"CROFT_TEST_SECRET=in-the-environment"}
	if err := marker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = marker.Process.Kill()
		_ = marker.Wait()
	}()
	hostPid := fmt.Sprint(marker.Process.Pid)

	// The attacks run in one cell of each kind: none of them may end it.
	cells := map[string]*confine.Cell{}
	for name, p := range map[string]policy.Policy{
		"confined": {}, "network": {Network: policy.NetworkHost}, "none": {Tier: policy.None},
	} {
		cells[name] = start(t, func(s *confine.Spec) {
			s.Policy = p
			arm(t, s.Workspace.Path)
		})
	}
	for _, tt := range []struct {
		name string
		args []string
		// onlyRoot: only for root the control can succeed.
		onlyRoot bool
		// network: the attack is refused too where the host's network is allowed; open
		// there otherwise, if netOpen.
		netOpen bool
		// noControl says why there is no control.
		noControl string
	}{
		{name: "read", args: []string{secret}},
		{name: "climb", args: []string{secret}},
		{name: "link-out", args: []string{secret}},
		{name: "read", args: []string{"/etc/shadow"}, onlyRoot: true},
		{name: "write", args: []string{filepath.Join(secrets, "new")}},
		{name: "write", args: []string{"/usr/croft-test"}, onlyRoot: true},
		{name: "write", args: []string{"/etc/passwd"}, onlyRoot: true},
		{name: "write", args: []string{"/proc/sys/kernel/core_pattern"}, onlyRoot: true},
		{name: "read", args: []string{"/sys/kernel/mm/transparent_hugepage/enabled"}},
		{name: "find-env", args: []string{"in-the-environment"}},
		{name: "see-process", args: []string{hostPid}},
		{name: "signal-process", args: []string{hostPid}},
		{name: "connect", args: []string{"tcp", tcp}, netOpen: true},
		{name: "connect", args: []string{"unix", abstract}},
		{name: "connect", args: []string{"unix", socket}},
		{name: "user-namespace"},
		{name: "mount-namespace", onlyRoot: true},
		{name: "remount", noControl: "it would change the host"},
		{name: "keyring"},
		{name: "io_uring"},
		{name: "setuid-file"},
		{name: "setuid-create"},
		{name: "setuid-mknod"},
		{name: "openat2"},
		{name: "device", onlyRoot: true},
		{name: "hostname", noControl: "it would change the host"},
		{name: "open-by-handle", onlyRoot: true},
		{name: "attach", args: []string{"1"}, noControl: "PID 1 of the host is not to be stopped"},
		{name: "take-descriptor", args: []string{"1"}, noControl: "the host's PID 1 has no descriptor to know"},
		{name: "open-of-process", args: []string{"1", "environ"}, onlyRoot: true},
		{name: "open-of-process", args: []string{"1", "exe"}, onlyRoot: true},
		{name: "open-of-process", args: []string{"1", "root/etc/passwd"}, onlyRoot: true},
		{name: "open-of-process", args: []string{"1", "mem"}, onlyRoot: true},
		{name: "open-of-process", args: []string{"1", "cwd"}, onlyRoot: true},
	} {
		t.Run(strings.Join(append([]string{tt.name}, tt.args...), " "), func(t *testing.T) {
			for _, name := range []string{"confined", "network"} {
				open, said := attack(t, cells[name], tt.name, tt.args...)
				if want := name == "network" && tt.netOpen; open != want {
					t.Errorf("%s: succeeded = %v, want %v: %s", name, open, want, said)
				}
			}
			if tt.noControl != "" || tt.onlyRoot && os.Geteuid() != 0 {
				return
			}
			args := slices.Clone(tt.args)
			if tt.name == "open-of-process" {
				// The warden is not PID 1 there.
				args[0] = fmt.Sprint(cells["none"].Pid())
			}
			if open, said := attack(t, cells["none"], tt.name, args...); !open {
				t.Errorf("the control is refused: %s", said)
			}
		})
	}
}

// TestSignalsToWarden: no signal from inside ends, stops or disturbs PID 1.
func TestSignalsToWarden(t *testing.T) {
	cell := start(t, func(s *confine.Spec) { arm(t, s.Workspace.Path) })
	for range 3 {
		_, said := attack(t, cell, "signals", "1")
		t.Logf("signals that were not refused: %s", said)
		if out := sh(t, cell, "echo alive"); out.text != "alive" {
			t.Fatalf("after the signals: %+v", out)
		}
	}
	// Everything that the caller may signal, but itself and PID 1.
	sh(t, cell, "kill -9 -1")
	if out := sh(t, cell, "echo alive"); out.text != "alive" {
		t.Fatalf("after kill -9 -1: %+v", out)
	}
}

// TestHelperProgram: a command cannot execute the warden's own program by the name
// that every process has for its program (CVE-2019-5736).
func TestHelperProgram(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	spec := process.Spec{
		Argv: []string{"/proc/self/exe", "read", "/proc/self/status"}, Env: []string{roleEnv + "=attack"},
		Files: [3]*os.File{null, null, null},
	}
	if _, err := start(t, nil).Spawn(context.Background(), spec); !errors.Is(err, process.ErrNotExecutable) {
		t.Errorf("confined: %v", err)
	}
	control := start(t, func(s *confine.Spec) { s.Policy.Tier = policy.None })
	child, err := control.Spawn(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := child.Wait(context.Background()); err != nil || st != (process.Status{}) {
		t.Errorf("control: %+v, %v", st, err)
	}
}

// TestSetuidProgram: a setuid program that lies in a caller's root gives nothing.
func TestSetuidProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can make a program that is setuid root")
	}
	dir := t.TempDir()
	arm(t, dir)
	if err := os.Chmod(filepath.Join(dir, "attack"), os.ModeSetuid|0o755); err != nil {
		t.Fatal(err)
	}
	openParents(t, dir)
	control := exec.Command(filepath.Join(dir, "attack"), "effective-root")
	control.Env = []string{roleEnv + "=attack"}
	control.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := control.CombinedOutput(); err != nil {
		t.Fatalf("the control is refused: %v: %s", err, out)
	}
	cell := start(t, func(s *confine.Spec) {
		s.Workspace = confine.Bind{Path: dir}
		s.Owned = false
	})
	if open, said := attack(t, cell, "effective-root"); open {
		t.Errorf("a setuid program made a command root: %s", said)
	}
}

// openParents lets others enter the test's temporary directories.
func openParents(t *testing.T, dir string) {
	t.Helper()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoppedForks: a command that stops others between fork and exec holds up no
// Spawn that is cancelled, and no Close.
func TestStoppedForks(t *testing.T) {
	cell := start(t, func(s *confine.Spec) { arm(t, s.Workspace.Path) })
	_, r, err := spawn(t, cell, []string{roleEnv + "=attack"}, "./attack", "stop-forks")
	if err != nil {
		t.Fatal(err)
	}
	readLine(t, r, "up")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var hung int
	for range 100 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		child, err := cell.Spawn(ctx, process.Spec{Argv: []string{"/bin/true"}, Files: [3]*os.File{null, null, null}})
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			hung++
		case err != nil:
			t.Fatal(err)
		default:
			if _, err := child.Wait(ctx); err != nil {
				_ = child.Kill()
			}
		}
		cancel()
	}
	t.Logf("%d of 100 starts were held up and ended", hung)
}

package confine_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/process"
	"github.com/croftdev/croft/policy"
)

// roleEnv makes the test binary play a croft that can be killed: its value is host:TIER.
const roleEnv = "CROFT_CONFINE_TEST_ROLE"

// playHost starts a cell with processes in it, tells the pids of starter and warden,
// and waits to be killed.
func playHost(tier policy.Tier) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if os.Getenv("CROFT_CONFINE_TEST_STARTER") != "" {
		confine.SetSmallProgram(0)
	}
	dir := os.Getenv("CROFT_CONFINE_TEST_DIR")
	uid, _ := strconv.Atoi(os.Getenv("CROFT_CONFINE_TEST_UID"))
	cell, err := confine.NewLauncher("").Start(context.Background(), confine.Spec{
		Policy:    policy.Policy{Tier: tier},
		Workspace: confine.Bind{Path: dir, Target: "/workspace"}, Owned: true, UID: uid,
	})
	check(err)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	check(err)
	r, w, err := os.Pipe()
	check(err)
	_, err = cell.Spawn(context.Background(), process.Spec{
		Argv: []string{"sh", "-c", hostileTree + "echo up; wait"},
		Env:  []string{"PATH=/usr/bin:/bin", "MARK=" + os.Getenv("CROFT_CONFINE_TEST_MARK")}, Files: [3]*os.File{null, w, null},
	})
	check(err)
	_, err = bufio.NewReader(r).ReadString('\n')
	check(err)
	fmt.Printf("%d\n", cell.Pid())
	_ = unix.Pause()
}

// hostileTree leaves its session, its group and its parents, and ignores signals.
const hostileTree = `trap '' TERM HUP INT
for i in 1 2 3; do
  (setsid sh -c "trap '' TERM HUP; (setsid sleep 1000 &) ; sleep 1000" &)
done
sleep 1000 &
`

// marked returns the processes of this host whose environment holds the mark.
func marked(t *testing.T, mark string) []int {
	t.Helper()
	var pids []int
	for _, p := range hostPids(t) {
		if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p)); err == nil && strings.Contains(string(env), mark) {
			pids = append(pids, p)
		}
	}
	return pids
}

func hostPids(t *testing.T) []int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, n := range names {
		if p, err := strconv.Atoi(filepath.Base(n)); err == nil {
			pids = append(pids, p)
		}
	}
	return pids
}

// awaitEnd waits until the processes have ended.
func awaitEnd(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		for err == unix.EINTR {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
		}
		unix.Close(fd)
		if err != nil || n == 0 {
			t.Errorf("process %d is still there (%v)", pid, err)
		}
	}
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')'):]))
	ppid, err := strconv.Atoi(f[2])
	if err != nil {
		t.Fatal(err)
	}
	return ppid
}

// TestKilled: whichever process of croft is killed, nothing of the cell is left.
func TestKilled(t *testing.T) {
	for _, tt := range []struct {
		name    string
		tier    policy.Tier
		starter bool
		victims []string
	}{
		{"forked by croft", policy.Namespaces, false, []string{"croft", "warden"}},
		{"forked by the starter", policy.Namespaces, true, []string{"croft", "warden", "starter"}},
		// Not the starter: without a pid namespace the orphans of both helpers are nobody's.
		{"tier none", policy.None, true, []string{"croft", "warden"}},
	} {
		for _, victim := range tt.victims {
			t.Run(tt.name+"/"+victim, func(t *testing.T) { testKilled(t, tt.tier, tt.starter, victim) })
		}
	}
}

func testKilled(t *testing.T, tier policy.Tier, throughStarter bool, victim string) {
	dir, mark := t.TempDir(), "croft-test-"+strconv.Itoa(os.Getpid())+"-"+filepath.Base(t.TempDir())+string(tier)+victim+strconv.FormatBool(throughStarter)
	uid := 0
	if confine.IsRoot() {
		uid = 2_000_000_007
		if err := os.Chown(dir, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), roleEnv+"=host:"+string(tier), "CROFT_CONFINE_TEST_DIR="+dir,
		"CROFT_CONFINE_TEST_MARK="+mark, fmt.Sprintf("CROFT_CONFINE_TEST_UID=%d", uid))
	if throughStarter {
		host.Env = append(host.Env, "CROFT_CONFINE_TEST_STARTER=1")
	}
	host.Stderr = os.Stderr
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = host.Process.Kill()
		_ = host.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	warden, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	starter := parentOf(t, warden)
	inside := marked(t, mark)
	// The mark is in the environment of this host process too, which is not inside.
	if len(inside) < 3 {
		t.Fatalf("only %d processes to end", len(inside))
	}
	pid := map[string]int{"croft": host.Process.Pid, "warden": warden, "starter": starter}[victim]
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var gone []int
	for _, p := range inside {
		if p != host.Process.Pid {
			gone = append(gone, p)
		}
	}
	awaitEnd(t, append(gone, warden)...)
	if victim != "warden" && throughStarter {
		awaitEnd(t, starter)
	}
	// What was forked meanwhile ends too.
	for _, p := range marked(t, mark) {
		if p != host.Process.Pid {
			awaitEnd(t, p)
		}
	}
}

// TestClose: a closed cell leaves no process, and can be closed again.
func TestClose(t *testing.T) {
	bothTiers(t, func(t *testing.T, cell *confine.Cell) {
		mark := "croft-close-" + strconv.Itoa(cell.Pid())
		child, r, err := spawn(t, cell, []string{"PATH=/usr/bin:/bin", "MARK=" + mark}, "sh", "-c", hostileTree+"echo up; wait")
		if err != nil {
			t.Fatal(err)
		}
		readLine(t, r, "up")
		if n := len(marked(t, mark)); n < 3 {
			t.Fatalf("only %d processes to end", n)
		}
		for range 2 {
			if err := cell.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		if left := marked(t, mark); len(left) > 0 {
			t.Errorf("left after Close: %v", left)
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", cell.Pid())); err == nil {
			t.Error("the warden is left after Close")
		}
		select {
		case <-cell.Done():
		default:
			t.Error("Done is not closed after Close")
		}
		if _, err := child.Wait(context.Background()); err != nil && !errors.Is(err, confine.ErrLost) {
			t.Errorf("Wait after Close: %v", err)
		}
		if err := child.Kill(); err != nil {
			t.Errorf("Kill after Close: %v", err)
		}
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		_, err = cell.Spawn(context.Background(), process.Spec{Argv: []string{"true"}, Files: [3]*os.File{null, null, null}})
		if !errors.Is(err, confine.ErrLost) {
			t.Errorf("Spawn after Close: %v", err)
		}
	})
}

// bothWays runs a test with the wardens forked by this program and by the starter.
func bothWays(t *testing.T, test func(t *testing.T)) {
	for name, small := range map[string]int64{"starter": 0, "near": 1 << 40} {
		t.Run(name, func(t *testing.T) {
			confine.SetSmallProgram(small)
			t.Cleanup(func() { confine.SetSmallProgram(1 << 40) })
			test(t)
		})
	}
}

// TestStartCancelled leaves nothing and makes no cell.
func TestStartCancelled(t *testing.T) { bothWays(t, testStartCancelled) }

func testStartCancelled(t *testing.T) {
	l := confine.NewLauncher("")
	defer l.Close()
	dir := t.TempDir()
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		cell, err := l.Start(ctx, confine.Spec{Workspace: confine.Bind{Path: dir, Target: "/workspace"}, Owned: true, UID: 2_000_000_009})
		switch {
		case err == nil: // it was faster
			if err := cell.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
		case !errors.Is(err, context.Canceled):
			t.Fatalf("Start: %v", err)
		}
	}
}

// TestLauncherClose ends every cell.
func TestLauncherClose(t *testing.T) { bothWays(t, testLauncherClose) }

func testLauncherClose(t *testing.T) {
	l := confine.NewLauncher("")
	var cells []*confine.Cell
	for range 3 {
		cell, err := l.Start(context.Background(), confine.Spec{Workspace: confine.Bind{Path: t.TempDir(), Target: "/workspace"}, Owned: true, UID: 2_000_000_009})
		if err != nil {
			t.Fatal(err)
		}
		cells = append(cells, cell)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		<-c.Done()
	}
	if _, err := l.Start(context.Background(), confine.Spec{Workspace: confine.Bind{Path: t.TempDir()}}); err == nil {
		t.Error("a closed launcher starts cells")
	}
}

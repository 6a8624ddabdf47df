package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/policy"
)

// runWarden is the whole life of a warden: PID 1 of a cell. It makes the root file
// system, confines one thread, reports, and then serves commands until croft's end of
// the socket closes; with it ends everything inside.
//
// It forks commands itself, from the confined thread: landlock, seccomp, capabilities and
// no_new_privs belong to threads, and a fork inherits those of the thread that
// forks. The other threads keep the capabilities inside the namespace. A second process
// for the forking would cost another start of the Go runtime and another few megabytes for
// each session, and would be one more process that commands could signal: PID 1
// is the one that the kernel protects.
func runWarden() {
	// A collection stops every thread, and the forking one cannot stop while it waits for an
	// exec: a command that hangs there would hang all of the warden. So the forking
	// thread itself collects, between commands (see collectGarbage).
	debug.SetGCPercent(-1)
	_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
	s, spawn, err := awaitSetup()
	if err != nil {
		// There is nobody to tell: the forker has ended, or was too old to know better.
		return
	}
	w, r, err := startWarden(s, spawn)
	if err != nil {
		f, ok := errors.AsType[*failure](err)
		if !ok {
			f = &failure{Step: stepSetup, Text: err.Error(), Errno: errnoOf(err)}
		}
		body, _ := json.Marshal(f)
		_ = send(fdSocket, packet{kind: msgFailed, body: body}.append(nil))
		return
	}
	body, err := json.Marshal(r)
	if err == nil {
		err = w.sendReady(body)
	}
	if err == nil {
		w.serve()
	}
	w.end()
}

// exitWithCroft ends the warden when croft's end of the socket is closed, also while
// every other thread is busy. In a pid namespace the kernel then kills all that is
// left inside; the tier none has to do it itself, which serve does.
func exitWithCroft() {
	runtime.LockOSThread()
	if os.Getpid() != 1 {
		return
	}
	p := []unix.PollFd{{Fd: fdSocket}} // no events: POLLHUP and POLLERR are always told
	for {
		if n, err := unix.Poll(p, -1); err == nil && n > 0 {
			os.Exit(0)
		}
	}
}

// awaitSetup waits until the forker tells what this warden is for. From then on
// descriptor 3 leads to croft; spawn is the other socket.
func awaitSetup() (s *setup, spawn int, err error) {
	n, fds, err := receive(fdSocket, make([]byte, maxPacket), maxDescriptors)
	if err != nil {
		return nil, -1, err
	}
	if len(fds) < 3 || n < packetHead {
		return nil, -1, errWire
	}
	if err := unix.Dup3(fds[0], fdSocket, unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	text, err := readMemoryFile(fds[1], maxCommand)
	closeAll(fds[:2])
	if err != nil {
		return nil, -1, err
	}
	set, err := decodeSetup(text)
	if err != nil {
		return nil, -1, err
	}
	passed := fds[3:]
	for i := range set.Items {
		for _, n := range []*int{&set.Items[i].Dir, &set.Items[i].Mount} {
			if *n < 0 || *n > len(passed) {
				return nil, -1, errWire
			}
			if *n > 0 {
				*n = passed[*n-1]
			}
		}
	}
	return &set, fds[2], nil
}

// becomeUser takes the session's ids, which the forker has mapped, and no groups. Until
// then the warden of a session of root's is root, without rights outside of its user
// namespace.
func becomeUser(u account) error {
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setresgid(u.InsideGID, u.InsideGID, u.InsideGID); err != nil {
		return err
	}
	if err := syscall.Setresuid(u.InsideUID, u.InsideUID, u.InsideUID); err != nil {
		return err
	}
	// Forgotten with the change of ids.
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// startWarden does everything that comes before the first command.
func startWarden(s *setup, spawn int) (*warden, *ready, error) {
	if s.Privileged {
		// Before the signals: it uses one to reach all threads.
		if err := becomeUser(s.User); err != nil {
			return nil, nil, failed(stepPrivileges, "", err)
		}
	}
	go exitWithCroft()
	defaultSignals()
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) // PID 1 is one anyway
	if s.Tier != policy.None {
		if err := isolate(s); err != nil {
			return nil, nil, err
		}
	} else if err := homeForNone(s); err != nil {
		return nil, nil, failed(stepSetup, "", err)
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, failed(stepAttach, "/dev/null", err)
	}
	w := newWarden(s, spawn, null)
	confined := make(chan confinement)
	go w.forkCommands(confined)
	// Meanwhile the thread confines itself.
	receipt, rerr := readReceipt(s)
	c := <-confined
	if s.HostRoot != 0 {
		unix.Close(s.HostRoot)
	}
	if c.err != nil {
		return nil, nil, c.err
	}
	if rerr == nil {
		rerr = c.complete(&receipt)
	}
	if rerr != nil {
		return nil, nil, rerr
	}
	// From here on no command can read the warden's memory, descriptors or environment,
	// or attach to it: a process that is not dumpable needs CAP_SYS_PTRACE in its user
	// namespace for that (ptrace(2)), which no command has.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, nil, failed(stepPrivileges, "", err)
	}
	r := &ready{Receipt: receipt}
	if s.Tier == policy.None && s.PrivateHome {
		r.Home = s.Home
	}
	return w, r, nil
}

// isolate makes the namespaces of this process what commands shall see.
func isolate(s *setup) error {
	hostRoot, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed(stepRoot, "/", err)
	}
	s.HostRoot = hostRoot
	notEnforced, err := buildRoot(s)
	if err != nil {
		return err
	}
	for _, it := range s.Items {
		if it.Dir != 0 {
			unix.Close(it.Dir)
		}
	}
	s.NotEnforced = append(s.NotEnforced, notEnforced...)
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return failed(stepRoot, "", err)
	}
	if s.Network == policy.NetworkNone {
		if err := raiseLoopback(); err != nil {
			return failed(stepNetwork, "lo", err)
		}
	}
	// A core of a command would end up with the host's handler (core(5)).
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return failed(stepPrivileges, "", err)
	}
	return nil
}

// raiseLoopback brings lo up: programs talk to themselves on 127.0.0.1.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifr); err != nil {
		return err
	}
	ifr.SetUint16(ifr.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// homeForNone makes a private HOME on the host, which end removes.
func homeForNone(s *setup) error {
	if !s.PrivateHome {
		return nil
	}
	dir, err := os.MkdirTemp("", "croft-home-")
	s.Home = dir
	return err
}

// confinement is what confineThread did, and what the thread saw of it.
type confinement struct {
	landlock policy.LandlockReceipt
	seccomp  policy.SeccompReceipt
	status   map[string]string // of /proc/thread-self/status
	err      error
}

// confineThread confines the calling thread for good; see runWarden.
func confineThread(s *setup) confinement {
	var c confinement
	// The thread gets a working directory and umask of its own.
	if c.err = unix.Unshare(unix.CLONE_FS); c.err != nil {
		c.err = failed(stepPrivileges, "", c.err)
		return c
	}
	unix.Umask(0o022)
	if s.Tier == policy.None {
		c.status, c.err = threadStatus()
		return c
	}
	if err := dropPrivileges(); err != nil {
		c.err = &failure{Step: stepPrivileges, Text: err.Error()}
		return c
	}
	outside := slices.DeleteFunc([]string{fmt.Sprintf("/proc/self/fd/%d", s.HostRoot), selfProgram}, not(opens))
	var err error
	if c.landlock, err = restrictFiles(s.Items); err != nil {
		c.err = &failure{Step: stepLandlock, Text: err.Error()}
		return c
	}
	// The rules cannot be read back, so they are tried on what only landlock hides: the host's
	// root, and the warden's own program. Each may lie beneath a rule (a program in /usr or in
	// the workspace; a grant that is another mount of the host's root), so one denial is enough.
	if len(outside) > 0 && !slices.ContainsFunc(outside, not(opens)) {
		c.err = &failure{Step: stepLandlock, Text: "the domain is entered and denies nothing"}
		return c
	}
	prog := assemble(denials(s.Privileged))
	if err := restrictCalls(prog); err != nil {
		c.err = &failure{Step: stepSeccomp, Text: err.Error()}
		return c
	}
	c.seccomp = policy.SeccompReceipt{Policy: seccompPolicy, Digest: digest(prog)}
	if err := unix.Unshare(unix.CLONE_NEWUTS); err != unix.EPERM {
		c.err = &failure{Step: stepSeccomp, Text: fmt.Sprintf("the filter is installed and denies nothing (unshare: %v)", err)}
		return c
	}
	if c.status, err = threadStatus(); err != nil {
		c.err = &failure{Step: stepReceipt, Text: err.Error()}
	}
	return c
}

func not(f func(string) bool) func(string) bool {
	return func(s string) bool { return !f(s) }
}

func opens(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

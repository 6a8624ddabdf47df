package confine

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The names by which a helper knows itself: its argv[0].
const (
	starterName = "croft-starter"
	wardenName  = "croft-warden"
)

// Descriptors that a helper starts with, besides /dev/null as 0 and 1 and a memory file
// for its last words as 2.
const (
	// fdSocket leads to croft: requests to the starter; everything but spawns of a warden.
	// A warden that was just forked has the forker there, which sends it the other end.
	fdSocket = 3
)

// selfProgram is the program that is running, also when its file was replaced.
const selfProgram = "/proc/self/exe"

// initCalled tells that this program calls Init, so that it can be its own helper.
var initCalled atomic.Bool

// init makes a helper a helper. Here and not in Init, which only promises that it will
// happen: the packages that are initialised after this one (command line, formats) would
// cost each start of a helper a millisecond or two, for nothing.
func init() {
	if len(os.Args) != 1 {
		return
	}
	var role func()
	switch os.Args[0] {
	case starterName:
		role = runStarter
	case wardenName:
		role = runWarden
	default:
		return
	}
	// Somebody may have called the program by that name: a helper holds a socket that
	// keeps packets whole, and its first packet or its setup has the right version.
	if kind, err := unix.GetsockoptInt(fdSocket, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return
	}
	closeInherited(fdSocket)
	unix.CloseOnExec(fdSocket)
	// Else the process list would show "exe", the name under which it was executed.
	name, err := unix.BytePtrFromString(os.Args[0])
	if err == nil {
		_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0, 0, 0)
	}
	// The thread must outlive all that it starts: a parent-death signal follows the
	// thread that forked, not the process (prctl(2), PR_SET_PDEATHSIG).
	runtime.LockOSThread()
	debug.SetGCPercent(25)
	// A helper has few threads that ever run at once, and on a large machine each further
	// one that Go provides for costs memory in every session. Not fewer than two: the
	// thread that waits for an exec keeps others from running on its processor's behalf.
	runtime.GOMAXPROCS(min(max(runtime.NumCPU(), 2), 4))
	unix.Umask(0o022)
	role()
	os.Exit(0)
}

// closeInherited closes every descriptor above last that came through exec: one that
// croft's own parent left open would reach every command (CVE-2024-21626 was such a
// descriptor). What this process has opened itself is close-on-exec and stays; the
// wardens get only what the starter means to give.
func closeInherited(last int) {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		// Without /proc there is no warden either.
		return
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		if err != nil || fd <= last {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

// setDisposition sets what happens on a signal, without the Go runtime knowing:
// handler 0 is the default, 1 is to ignore it (sigaction(2)).
func setDisposition(sig int, handler uintptr) error {
	// struct kernel_sigaction: handler, flags, restorer, mask. All zero but the handler.
	action := [4]uintptr{handler}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// defaultSignals gives every signal its default disposition, but those that the Go
// runtime needs (SIGURG interrupts goroutines) and SIGPIPE (a write to croft fails
// with EPIPE instead).
//
// The kernel drops a signal that PID 1 has no handler for, also SIGKILL, if it comes
// from inside the pid namespace (pid_namespaces(7)). Go installs handlers, so
// without this any command could end the session with a TERM to 1. It does not stop a
// process of the host, and must not.
func defaultSignals() {
	for sig := 1; sig <= 64; sig++ {
		switch unix.Signal(sig) {
		case unix.SIGURG, unix.SIGPIPE, unix.SIGKILL, unix.SIGSTOP:
			continue
		}
		// EINVAL for the numbers that the C library keeps; the kernel has no such case.
		_ = setDisposition(sig, 0)
	}
}

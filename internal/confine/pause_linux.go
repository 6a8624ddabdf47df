package confine

import "golang.org/x/sys/unix"

// forkPaused forks a process into a user namespace of its own, where it does nothing
// until it is killed, or the calling thread ends. It has no descriptors.
//
// It is a copy of this process with one thread and no working Go runtime, so the child
// only makes raw system calls; executing something instead would cost a start of the
// runtime. The signals that the runtime sends go to threads of the parent.
//
//go:norace
func forkPaused(parent uintptr) (int, error) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	if pid != 0 {
		return int(pid), nil
	}
	unix.RawSyscall(unix.SYS_CLOSE_RANGE, 0, 1<<32-1, 0)
	unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
	// The parent may have ended before the line above.
	if ppid, _, _ := unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0); ppid != parent {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	for {
		unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

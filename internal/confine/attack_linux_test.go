package confine_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attacks are what a command tries, by name. The test binary runs one of them inside a
// cell; it returns nil if the attack succeeded.
var attacks = map[string]func(args []string) error{
	"read": func(args []string) error {
		_, err := os.ReadFile(args[0])
		return err
	},
	"write": func(args []string) error {
		f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		return f.Close()
	},
	// The same by climbing out of the working directory.
	"climb": func(args []string) error {
		_, err := os.ReadFile(strings.Repeat("../", 40) + args[0])
		return err
	},
	"link-out": func(args []string) error {
		if err := os.Symlink(args[0], "out"); err != nil {
			return err
		}
		_, err := os.ReadFile("out")
		return err
	},
	// Looks for a process with a mark in its environment.
	"find-env": func(args []string) error {
		names, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, n := range names {
			if b, err := os.ReadFile(n); err == nil && strings.Contains(string(b), args[0]) {
				return nil
			}
		}
		return errors.New("no process has it")
	},
	"see-process": func(args []string) error {
		_, err := os.Stat("/proc/" + args[0])
		return err
	},
	"signal-process": func(args []string) error {
		pid, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		return unix.Kill(pid, 0)
	},
	"connect": func(args []string) error {
		c, err := net.Dial(args[0], args[1])
		if err != nil {
			return err
		}
		return c.Close()
	},
	"user-namespace": func([]string) error {
		// Not by unshare, which refuses a process of several threads anyway.
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}})
		if err != nil {
			return err
		}
		_, err = unix.Wait4(pid, nil, 0, nil)
		return err
	},
	"mount-namespace": func([]string) error { return unix.Unshare(unix.CLONE_NEWNS) },
	"remount": func([]string) error {
		return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	},
	"keyring": func([]string) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		return err
	},
	"io_uring": func([]string) error {
		var params [120]byte
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
		return orNil(errno)
	},
	"setuid-file": func([]string) error {
		if err := os.WriteFile("suid", nil, 0o755); err != nil {
			return err
		}
		return unix.Chmod("suid", 0o4755)
	},
	"setuid-create": func([]string) error {
		fd, err := unix.Open("suid2", unix.O_CREAT|unix.O_WRONLY, 0o4755)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	},
	"setuid-mknod": func([]string) error { return unix.Mknod("suid3", unix.S_IFREG|0o4755, 0) },
	"openat2": func([]string) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, "suid4", &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: 0o4755})
		if err != nil {
			return err
		}
		return unix.Close(fd)
	},
	"effective-root": func([]string) error {
		if os.Geteuid() != 0 {
			return fmt.Errorf("the effective uid is %d", os.Geteuid())
		}
		return nil
	},
	"device": func([]string) error {
		if err := unix.Mknod("kmsg", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 11))); err != nil {
			return err
		}
		fd, err := unix.Open("kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	},
	"hostname": func([]string) error { return unix.Sethostname([]byte("owned")) },
	"open-by-handle": func([]string) error {
		h, mount, err := unix.NameToHandleAt(unix.AT_FDCWD, "/", 0)
		if err != nil {
			return err
		}
		_ = mount
		dir, err := unix.Open(".", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		fd, err := unix.OpenByHandleAt(dir, h, unix.O_RDONLY)
		if err != nil && !errors.Is(err, unix.ESTALE) {
			return err
		}
		return unix.Close(fd)
	},
	"attach": func(args []string) error {
		pid, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		if err := unix.PtraceAttach(pid); err != nil {
			return err
		}
		return unix.PtraceDetach(pid)
	},
	"take-descriptor": func(args []string) error {
		pid, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		fd, _, errno := unix.Syscall(unix.SYS_PIDFD_GETFD, uintptr(pidfd), 3, 0)
		if errno != 0 {
			return errno
		}
		return unix.Close(int(fd))
	},
	"open-of-process": func(args []string) error {
		fd, err := unix.Open("/proc/"+args[0]+"/"+args[1], unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	},
	// Stops the processes that will come next, while they may not have executed yet.
	"stop-forks": func([]string) error {
		fmt.Println("up")
		for next := os.Getpid(); ; {
			for p := next; p < next+32; p++ {
				// Not this process, by none of its threads.
				if unix.Tgkill(os.Getpid(), p, 0) != nil && unix.Kill(p, unix.SIGSTOP) == nil {
					next = p
				}
			}
		}
	},
	// Every signal to a process and to every thread number that it could have.
	"signals": func(args []string) error {
		pid, err := strconv.Atoi(args[0])
		if err != nil {
			return err
		}
		var sent int
		for sig := 1; sig <= 64; sig++ {
			if sig == 9 || sig == 19 {
				continue // last
			}
			for tid := pid; tid < pid+16; tid++ {
				if tid == os.Getpid() || tid == os.Getppid() {
					continue
				}
				if unix.Tgkill(pid, tid, syscall.Signal(sig)) == nil {
					sent++
				}
			}
			if unix.Kill(pid, syscall.Signal(sig)) == nil {
				sent++
			}
		}
		for _, sig := range []syscall.Signal{unix.SIGSTOP, unix.SIGKILL} {
			_ = unix.Kill(pid, sig)
		}
		fmt.Println("sent", sent)
		return nil
	},
}

func orNil(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// playAttack runs one attack: exit code 0 if it succeeded, 1 if it was refused.
func playAttack() {
	attack, ok := attacks[os.Args[1]]
	if !ok {
		fmt.Println("no such attack")
		os.Exit(2)
	}
	if err := attack(os.Args[2:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

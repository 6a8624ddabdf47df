package root

import (
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Each system call that looks up a name is wrapped once, with O_CLOEXEC and the
// repetition after a signal (signal(7), EINTR).

// ident tells directories and files apart, whatever they are called.
type ident struct{ dev, ino uint64 }

func identOf(st *unix.Stat_t) ident { return ident{st.Dev, st.Ino} }

// eagainTries bounds how often a lookup is repeated that met a rename somewhere
// in the system (openat2(2), EAGAIN) before the slow way is taken.
const eagainTries = 16

// openat2Works tells whether the kernel has openat2 and lets us use it. It is
// found out by trying: seccomp filters of older container engines answer ENOSYS or
// EPERM on new kernels. The answer cannot change back during the life of a
// process that nobody restricts later, so it is kept.
var openat2Works = sync.OnceValue(func() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS})
	if err == nil {
		unix.Close(fd)
	}
	return err != unix.ENOSYS && err != unix.EPERM
})

// openBeneath opens name below dir in one system call. The kernel refuses to leave
// dir on the way (EXDEV), also by an absolute link that would come back, and to
// follow the magic links of /proc. Renames elsewhere make it answer EAGAIN; that
// is returned only after several tries, which are counted.
func openBeneath(dir int, name string, flags int, retried *atomic.Int64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, name, &how)
		if err == nil || (err != unix.EAGAIN && err != unix.EINTR) || (err == unix.EAGAIN && try >= eagainTries) {
			return fd, err
		}
		if err == unix.EAGAIN {
			retried.Add(1)
		}
	}
}

func openat(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func closeFD(fd int) {
	if fd >= 0 {
		unix.Close(fd) // on Linux the descriptor is gone whatever close says
	}
}

func fstat(fd int, st *unix.Stat_t) error {
	for {
		if err := unix.Fstat(fd, st); err != unix.EINTR {
			return err
		}
	}
}

func lstatat(dir int, name string, st *unix.Stat_t) error {
	for {
		if err := unix.Fstatat(dir, name, st, unix.AT_SYMLINK_NOFOLLOW); err != unix.EINTR {
			return err
		}
	}
}

// readlinkat returns a link's whole target. With an empty name dir is the link.
func readlinkat(dir int, name string) (string, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// fdPath names an open descriptor for the system calls that take only a path. The
// link there leads to the open file itself and cannot be swapped.
func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// reopen opens what an O_PATH descriptor stands for.
func reopen(fd, flags int) (int, error) {
	return openat(unix.AT_FDCWD, fdPath(fd), flags&^unix.O_NOFOLLOW, 0)
}

// chmodFD sets the mode of what fd stands for, be it opened with O_PATH.
func chmodFD(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH) // fchmodat2, Linux 6.6
	if err == unix.ENOSYS || err == unix.EINVAL || err == unix.EOPNOTSUPP || err == unix.ENOENT {
		return unix.Chmod(fdPath(fd), mode)
	}
	return err
}

func write(fd int, p []byte) error {
	for len(p) > 0 {
		n, err := unix.Write(fd, p)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// pread fills p from offset on as far as the file goes.
func pread(fd int, p []byte, offset int64) (int, error) {
	got := 0
	for got < len(p) {
		n, err := unix.Pread(fd, p[got:], offset+int64(got))
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return got, err
		}
		got += n
	}
	return got, nil
}

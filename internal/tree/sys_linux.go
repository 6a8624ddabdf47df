package tree

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Open flags that no call here goes without. O_NOFOLLOW stops the attack in
// which an entry becomes a link between its listing and its opening; O_NONBLOCK
// keeps a fifo put in a file's place from holding a worker.
const (
	openDirFlags  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	openFileFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
)

const statMask = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID

// retry calls f again while a signal interrupts it.
func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// openat opens name below the directory dirfd.
func openat(dirfd int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dirfd, name, flags, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// statAt examines name below dirfd, never what a link points to; an empty name
// means dirfd itself.
func statAt(dirfd int, name string, st *unix.Statx_t) error {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	return retry(func() error { return unix.Statx(dirfd, name, flags, statMask, st) })
}

// ident is what tells one directory from every other one while it is open or
// its tree is mounted.
type ident struct {
	dev, ino, mnt uint64
}

func identOf(st *unix.Statx_t) ident {
	return ident{dev: device(st.Dev_major, st.Dev_minor), ino: st.Ino, mnt: st.Mnt_id}
}

func device(major, minor uint32) uint64 { return unix.Mkdev(major, minor) }

// infoOf translates what the kernel said; mnt is the mount of the top directory.
func infoOf(st *unix.Statx_t, mnt uint64) Info {
	return Info{
		Kind: kindOf(uint32(st.Mode)), Mode: uint32(st.Mode) & 0o7777,
		UID: st.Uid, GID: st.Gid, Size: int64(st.Size), Blocks: int64(st.Blocks),
		MTime: time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec)),
		CTime: time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec)),
		Dev:   device(st.Dev_major, st.Dev_minor), Ino: st.Ino, Nlink: st.Nlink,
		Mount: st.Mnt_id != mnt,
	}
}

func kindOf(mode uint32) Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return File
	case unix.S_IFDIR:
		return Dir
	case unix.S_IFLNK:
		return Symlink
	case unix.S_IFIFO:
		return Fifo
	case unix.S_IFSOCK:
		return Socket
	default:
		return Device
	}
}

// dirent is one record of a directory; typ is DT_UNKNOWN where the file system
// does not say.
type dirent struct {
	name string
	typ  uint8
}

// readDir calls f for the entries of the directory fd from its current offset,
// without "." and "..", until f returns an error or there are no more.
func readDir(fd int, buf []byte, f func(dirent) error) error {
	for {
		var n int
		err := retry(func() (err error) { n, err = unix.Getdents(fd, buf); return err })
		if err != nil || n <= 0 {
			return err
		}
		for b := buf[:n]; len(b) > 0; {
			var d dirent
			d, b = nextDirent(b)
			if d.name == "." || d.name == ".." {
				continue
			}
			if err := f(d); err != nil {
				return err
			}
		}
	}
}

// nextDirent cuts one linux_dirent64 (see getdents64(2)) from b.
func nextDirent(b []byte) (dirent, []byte) {
	const nameAt = int(unsafe.Offsetof(unix.Dirent{}.Name))
	reclen := int(b[16]) | int(b[17])<<8
	if bigEndian {
		reclen = int(b[17]) | int(b[16])<<8
	}
	rec := b[:reclen]
	name := rec[nameAt:]
	for i, c := range name {
		if c == 0 {
			name = name[:i]
			break
		}
	}
	return dirent{name: string(name), typ: rec[18]}, b[reclen:]
}

var bigEndian = func() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 0
}()

// unlockDir gives the owner all rights on the directory name below dirfd, and
// reports whether that succeeded. It holds the very inode by O_PATH, so that a
// link put there meanwhile is not followed to an outside directory.
func unlockDir(dirfd int, name string) bool {
	fd, err := openat(dirfd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unlockFD(fd)
}

// unlockFD is unlockDir for an open directory.
func unlockFD(fd int) bool {
	var st unix.Statx_t
	if statAt(fd, "", &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	mode := uint32(st.Mode)&0o7777 | 0o700
	if mode == uint32(st.Mode)&0o7777 {
		return false // nothing to gain: it was not the mode
	}
	// fchmodat2 with an empty path is new (Linux 6.6); before it, the descriptor's
	// own entry in /proc names the same inode.
	if err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH); err == nil {
		return true
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode) == nil
}

func isDenied(err error) bool { return errors.Is(err, fs.ErrPermission) }

// hold gives the caller's directory a descriptor of our own that needs no right
// to read it.
func hold(dir *os.File) (int, error) {
	return reopenAs(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
}

// reopen gives the caller's directory a new descriptor, so that its offset is
// untouched and it may have been opened with O_PATH.
func reopen(dir *os.File) (int, error) { return reopenAs(dir, openDirFlags) }

func reopenAs(dir *os.File, flags int) (int, error) {
	raw, err := dir.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	cerr := raw.Control(func(p uintptr) { fd, err = openat(int(p), ".", flags, 0) })
	if cerr != nil {
		err = cerr
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: dir.Name(), Err: err}
	}
	return fd, nil
}

package confine

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// cloneMount returns a detached mount of what dirfd and path name, with everything
// that is mounted below it. An empty path means dirfd itself.
//
// The attributes are set on the whole clone before anyone can reach it. nosuid: a
// setuid program of the host gives its rights to no command (no_new_privs says the
// same). nodev: a device node in a workspace opens nothing.
func cloneMount(dirfd int, path string, readOnly, devices bool) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE)
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	fd, err := unix.OpenTree(dirfd, path, flags)
	if err != nil {
		return -1, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if !devices {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// idmapMount maps owners on the detached mount fd as the user namespace usernsfd
// maps its ids (see mount_setattr(2), "ID-mapped mounts").
func idmapMount(fd, usernsfd int) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(usernsfd),
	})
}

// newFS returns a detached mount of a fresh file system.
func newFS(fstype string, attr int, options ...[2]string) (int, error) {
	fs, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, o := range append([][2]string{{"source", fstype}}, options...) {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
}

// attach moves the detached mount fd onto target, an open entry of this mount
// namespace.
func attach(fd, target int) error {
	return unix.MoveMount(fd, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// openIn opens name beneath the directory root as if root were "/", for mounting on
// it. Links in name are followed inside root only.
func openIn(root int, name string, flags uint64) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | flags,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(root, name, &how)
		// EAGAIN: something was renamed meanwhile, see openat2(2).
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// isDir reports whether the open file fd is a directory.
func isDir(fd int) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, err
	}
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, nil
}

// sameFile reports whether two descriptors are of one inode.
func sameFile(a, b int) (bool, error) {
	var x, y unix.Stat_t
	if err := unix.Fstat(a, &x); err != nil {
		return false, err
	}
	if err := unix.Fstat(b, &y); err != nil {
		return false, err
	}
	return x.Dev == y.Dev && x.Ino == y.Ino, nil
}

// errnoOf returns the errno in err's chain, for messages between processes.
func errnoOf(err error) syscall.Errno {
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		return e
	}
	if err != nil {
		return syscall.EIO
	}
	return 0
}

// readSmall reads a file of at most limit bytes.
func readSmall(path string, limit int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit))
	return string(b), err
}

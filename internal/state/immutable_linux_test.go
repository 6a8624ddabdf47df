package state_test

import (
	"os"

	"golang.org/x/sys/unix"
)

const immutable = 0x10 // FS_IMMUTABLE_FL of linux/fs.h

// setImmutable sets or clears the immutable flag (ioctl_iflags(2)).
func setImmutable(path string, on bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	flags &^= immutable
	if on {
		flags |= immutable
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
}

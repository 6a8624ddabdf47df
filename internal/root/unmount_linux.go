package root

import (
	"context"

	"golang.org/x/sys/unix"
)

const opUnmount = "unmount"

// Unmount releases what is mounted at the named entry of the workspace; where
// nothing is, it does nothing. A mount that is in use is an error, and stays.
//
// The entry is named by its directory's descriptor, through the descriptor's link in
// /proc, and the last component is never followed (umount2(2), UMOUNT_NOFOLLOW): a
// link planted there cannot make a host's mount the one that is released. A
// directory above it that is swapped in time can, if it holds a mount of that name
// inside the workspace's roots.
func (t *Tree) Unmount(ctx context.Context, name string) error {
	pl, err := t.begin(ctx, opUnmount, name)
	if err != nil {
		return err
	}
	defer t.end()
	var at *spot
	err = t.again(ctx, func() error {
		s, err := t.entry(pl, true)
		if err != nil {
			return err
		}
		at = s
		defer s.close()
		if !s.found {
			return unix.ENOENT
		}
		if s.leaf == "" {
			return errIsRoot
		}
		s.closeEntry() // or else the lookup's own descriptor keeps the mount busy
		err = unix.Unmount(fdPath(s.dir)+"/"+s.leaf, unix.UMOUNT_NOFOLLOW)
		if err == unix.EINVAL { // not a mount point
			return nil
		}
		return err
	})
	return t.failAt(opUnmount, pl, at, false, err)
}

package durable

import "golang.org/x/sys/unix"

// renameNew renames within the directory fd and never onto something.
func renameNew(fd int, name, newName string) error {
	return retryErr(func() error { return unix.RenameatxNp(fd, name, fd, newName, unix.RENAME_EXCL) })
}

// exchange swaps two names in the directory fd.
func exchange(fd int, name, other string) error {
	return retryErr(func() error { return unix.RenameatxNp(fd, name, fd, other, unix.RENAME_SWAP) })
}

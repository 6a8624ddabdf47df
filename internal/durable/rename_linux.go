package durable

import "golang.org/x/sys/unix"

// renameNew renames within the directory fd and never onto something.
func renameNew(fd int, name, newName string) error {
	return retryErr(func() error { return unix.Renameat2(fd, name, fd, newName, unix.RENAME_NOREPLACE) })
}

// exchange swaps two names in the directory fd.
func exchange(fd int, name, other string) error {
	return retryErr(func() error { return unix.Renameat2(fd, name, fd, other, unix.RENAME_EXCHANGE) })
}

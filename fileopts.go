package croft

import (
	"io/fs"

	"github.com/croftdev/croft/internal/root"
)

// ReadOptions says how a file is read. The zero value reads all of it.
type ReadOptions struct {
	// User is the account, by name or uid, with whose rights the kernel does it. Empty:
	// the program's own. Only root may name another.
	User string
}

// WriteOptions says how a file is written.
type WriteOptions struct {
	// User is as in [ReadOptions].
	User string
	// Mode is the exact mode of the file, also of one that existed. Nil: 0666 less the
	// umask for a new file, and no change of one that exists.
	Mode *fs.FileMode
	// NoParents makes a missing parent directory an error; else it is made.
	NoParents bool
	// Exclusive makes it an error if the name exists, be it as a link.
	Exclusive bool
}

// WriteResult says what a write did: whether the file was created, replaced in one
// step or changed in place, and how many bytes were written.
type WriteResult = root.WriteResult

// MkdirOptions says how a directory is made.
type MkdirOptions struct {
	// User is as in [ReadOptions].
	User string
	// Parents makes missing parents too.
	Parents bool
	// Mode is the exact mode of a directory that is new. Nil: 0777 less the umask.
	Mode *fs.FileMode
}

// RemoveOptions says how an entry is removed.
type RemoveOptions struct {
	// User is as in [ReadOptions].
	User string
	// Recursive removes a directory with all that is in it, and makes a missing name
	// no error.
	Recursive bool
}

// CopyOptions says how an entry is copied.
type CopyOptions struct {
	// User is as in [ReadOptions].
	User string
	// Recursive copies a directory with all that is in it; the new name must not exist.
	Recursive bool
	// NoReplace makes an existing file at the new name an error.
	NoReplace bool
}

// RenameOptions says how an entry is renamed.
type RenameOptions struct {
	// User is as in [ReadOptions].
	User string
	// NoReplace makes an existing new name an error.
	NoReplace bool
}

// FileInfo is what the kernel says about an entry.
type FileInfo = root.Info

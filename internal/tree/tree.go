// Package tree does to a whole directory tree what a caller would otherwise
// have to do entry by entry: walk it, copy it, remove it.
//
// Every operation starts at an open directory and works by descriptors alone:
// a directory is opened relative to the descriptor of its parent and never
// through a link, and an entry is examined, copied or unlinked relative to the
// descriptor of the directory in which it was listed. No path is resolved, so
// a process that renames and swaps entries at the same time cannot lead an
// operation out of the tree, a name may be any bytes, and the length of a path
// does not matter. A directory that is moved out of the tree while it is being
// worked on is still worked on: whoever may move it could have changed it too.
//
//	stats, err := tree.Remove(ctx, parent, "workspace", tree.RemoveOptions{})
//
// Directories are shared between a few workers. At most [MaxDescriptors]
// descriptors are open at any depth; those closed in between are found again
// and recognised by device and inode. Memory grows with the number of
// subdirectories of the directories in work, not with the size of the tree.
//
// A cancelled context stops the workers at the next entry, or within a large
// file at the next piece. Each call returns only when none of its workers runs
// any more; from then on nothing touches the tree.
package tree

import (
	"errors"
	"io/fs"
	"strconv"
	"time"
)

// MaxDescriptors bounds the directory descriptors that one operation keeps
// open; each worker may hold two files of its own beside them.
const MaxDescriptors = 96

// DefaultWorkers is the number of workers where Options.Workers is zero.
const DefaultWorkers = 4

// Errors that an operation wraps.
var (
	// ErrChanged says that an entry was replaced or modified while it was read.
	ErrChanged = errors.New("entry changed during the operation")
	// ErrMoved says that a directory was moved away while its contents were in work.
	ErrMoved = errors.New("directory moved during the operation")
	// ErrSymlink says that a copy met a symbolic link and was told to refuse links.
	ErrSymlink = errors.New("symbolic link refused")
	// ErrKept says that a removal met an entry that the caller wants kept.
	ErrKept = errors.New("kept as asked")
)

// Options are common to all operations. The zero value works.
type Options struct {
	// Workers is the number of directories in work at the same time;
	// zero means [DefaultWorkers].
	Workers int
	// Progress, if not nil, is told from time to time how far the operation is,
	// and once more at its end. Calls do not overlap.
	Progress func(Progress)
	// Thread, if not nil, runs each worker: it must call run exactly once, on
	// the calling goroutine, and return when run has returned. With it a worker
	// acts with another user's rights on a locked thread.
	Thread func(run func())
	// Skip, if not nil, tells for each entry below the top whether it is left
	// alone, with everything below it. Rel is relative to the top directory.
	// Several workers may call it at the same time.
	Skip func(rel string) bool
	// CrossMounts also enters directories on which something else is mounted.
	// By default such a directory is seen but not entered.
	CrossMounts bool
}

// Progress says how far an operation is.
type Progress struct {
	// Entries counts the entries done, of whatever kind.
	Entries int64
	// Bytes counts the bytes of file content copied.
	Bytes int64
	// Total is the number of bytes that there are to copy, zero while nobody knows.
	Total int64
}

// Kind is what an entry is.
type Kind uint8

// The kinds of entries.
const (
	Unknown Kind = iota
	File
	Dir
	Symlink
	Fifo
	Socket
	Device
)

// String returns the kind in lower case.
func (k Kind) String() string {
	names := [...]string{"unknown", "file", "dir", "symlink", "fifo", "socket", "device"}
	if int(k) < len(names) {
		return names[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Info is what the file system said about an entry, without following a link.
type Info struct {
	Kind Kind
	// Mode holds the permission bits with setuid, setgid and sticky (07777).
	Mode     uint32
	UID, GID uint32
	Size     int64
	// Blocks counts the 512-byte blocks in use.
	Blocks       int64
	MTime, CTime time.Time
	Dev, Ino     uint64
	Nlink        uint32
	// Mount says that something is mounted on the entry: it belongs to another
	// mount than the top directory.
	Mount bool
}

// Left names an entry that an operation left out, and what it is.
type Left struct {
	Rel  string
	Kind Kind
	// Mount says that it was left out because something is mounted there.
	Mount bool
}

// Stats counts what an operation did.
type Stats struct {
	// Files counts regular files, including further names of one file; for a
	// removal it counts everything that is no directory.
	Files int64
	// Dirs counts directories without the top one (for Remove: with it).
	Dirs int64
	// Symlinks counts links copied.
	Symlinks int64
	// Bytes is the sum of the sizes of the files copied.
	Bytes int64
	// Left names what was left out: sockets, fifos, devices and mount points,
	// at most [MaxNamed] of them, in no particular order; LeftOut counts them all.
	Left    []Left
	LeftOut int64
}

// MaxNamed bounds the entries that a result or an error lists by name.
const MaxNamed = 1000

// RemoveError says which entries could not be removed. Everything else is gone,
// except the directories that hold these entries. It unwraps to the errors of
// the named entries, so that errors.Is(err, fs.ErrPermission) works.
type RemoveError struct {
	// Failed holds at most [MaxNamed] entries; Path is relative to the directory
	// that the caller gave: the parent for Remove, the directory for RemoveContents.
	Failed []*fs.PathError
	// Count is the number of all entries that failed.
	Count int64
}

// Error names the first entry and the number of the others.
func (e *RemoveError) Error() string {
	if len(e.Failed) == 0 {
		return "entries could not be removed"
	}
	s := "remove: " + e.Failed[0].Error()
	if e.Count > 1 {
		s += " (and " + strconv.FormatInt(e.Count-1, 10) + " more)"
	}
	return s
}

// Unwrap returns the errors of the named entries.
func (e *RemoveError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		errs[i] = f
	}
	return errs
}

// CopyError says which entry stopped a copy, and on which side.
type CopyError struct {
	// Rel names the entry, relative to the top directory; "." is the top itself.
	Rel string
	// Source says that reading failed; otherwise it was the writing.
	Source bool
	Err    error
}

// Error names the side, the entry and the cause.
func (e *CopyError) Error() string {
	side := "write "
	if e.Source {
		side = "read "
	}
	return side + strconv.Quote(e.Rel) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *CopyError) Unwrap() error { return e.Err }

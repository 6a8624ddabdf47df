package tree

import (
	"context"
	"os"
)

// Entry is one entry of a tree, seen by [Walk] or [Ordered]. It is valid only
// during the call that it is given to.
type Entry struct {
	Info
	// Name is the last component of the entry's name.
	Name string
	// Depth is 1 for the entries of the top directory.
	Depth int
	// Err is set when a directory could not be read, wholly or in part. The
	// directory was reported before without an error.
	Err error

	dir *node
}

// Rel returns the entry's name relative to the top directory.
func (e *Entry) Rel() string { return e.dir.join(e.Name) }

// Open opens the entry for reading. It takes only a regular file, follows no
// link and does not block; if the name now stands for another file than the one
// reported, the error wraps [ErrChanged]. The caller closes the file.
func (e *Entry) Open() (*os.File, error) { return openEntry(e) }

// Readlink returns the target of a symbolic link.
func (e *Entry) Readlink() (string, error) { return readlinkEntry(e) }

// Walk calls fn for each entry below dir, a directory before its entries.
// Several workers call fn at the same time and in no particular order.
//
// If fn returns [fs.SkipDir] for a directory, the directory is not entered; any
// other error stops the walk and is returned. A directory that cannot be read is
// reported a second time with Err set. An entry that vanishes meanwhile is left
// out. Links are not followed; mount points are reported with Mount set and not
// entered. Dir may be a descriptor opened with O_PATH; its offset is not used.
func Walk(ctx context.Context, dir *os.File, opts Options, fn func(*Entry) error) error {
	return walk(ctx, dir, opts, fn)
}

// Ordered is Walk by one worker in a fixed order: the entries of each directory
// by the bytes of their names, each directory followed by all that is below it.
func Ordered(ctx context.Context, dir *os.File, opts Options, fn func(*Entry) error) error {
	return ordered(ctx, dir, opts, fn)
}

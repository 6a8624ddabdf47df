package tree

import (
	"context"
	"os"
)

// RemoveOptions say how to remove. The zero value works.
type RemoveOptions struct {
	Options
	// Unlock gives the owner all rights on a directory whose mode keeps its
	// entries from being removed, and tries again. It is meant for trees that
	// belong to croft; the kernel allows it only to the directory's owner.
	Unlock bool
	// Keep, if not nil, tells for each directory and regular file, by device and
	// inode, whether it stays with everything below it, and the directories above
	// it. It is asked about what is open, so that an entry is kept under whatever
	// name it is found. It makes the removal an error that wraps [ErrKept].
	// Several workers may call it at the same time.
	Keep func(dev, ino uint64) bool
}

// Remove removes name in parent, with everything below it if it is a directory.
//
// A link is removed and not followed. What cannot be removed (immutable, in a
// directory of someone else, with something mounted on it) is named by a
// [*RemoveError], and all the rest is removed. If there is nothing by that name,
// the error wraps [fs.ErrNotExist]. Entries that are added meanwhile are removed
// too, for a bounded number of passes. Large files are cut in steps, so that a
// cancellation need not wait for one; it may leave such a file shortened. Name must be a single component.
func Remove(ctx context.Context, parent *os.File, name string, opts RemoveOptions) (Stats, error) {
	return remove(ctx, parent, name, opts)
}

// RemoveContents removes everything below dir and keeps dir itself. Entries that
// opts.Skip leaves alone keep the directories above them.
// Errors are those of [Remove].
func RemoveContents(ctx context.Context, dir *os.File, opts RemoveOptions) (Stats, error) {
	return removeContents(ctx, dir, opts)
}

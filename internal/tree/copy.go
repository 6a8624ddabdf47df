package tree

import (
	"context"
	"os"
)

// Owner is whom the copied entries shall belong to.
type Owner struct{ UID, GID int }

// CopyOptions say how to copy. The zero value works.
type CopyOptions struct {
	Options
	// Owner, if not nil, gets every copied entry. That needs the right to do so.
	Owner *Owner
	// RefuseSymlinks ends the copy with [ErrSymlink] at the first link.
	RefuseSymlinks bool
	// Replace lets the destination hold entries already: directories are merged,
	// other entries are unlinked first, so that no link there is written through.
	// Without it an existing entry is an error that wraps [fs.ErrExist].
	Replace bool
	// Stable makes it an error ([ErrChanged]) if a source file was modified or
	// replaced while it was copied. Without it an entry that is replaced is tried
	// again, a few times, and a modified file is taken as it was read.
	Stable bool
	// Done, if not nil, is called for each regular file, and for each further name
	// of one, after its copy is complete. It makes the copy read each file and compute its digest.
	// Several workers may call it at the same time.
	Done func(Copied)
}

// Copied is a file that a copy has written.
type Copied struct {
	Rel    string
	Size   int64
	SHA256 [32]byte
}

// Copy copies everything below src into dst. Both are open directories.
//
// Links are copied as links, hard links within the tree stay hard links, modes
// (without setuid and setgid), times of modification, empty directories, holes
// and extended attributes of the user namespace are kept. Sockets, fifos, devices
// and mount points are left out and named in Stats.Left. The top directory's own
// mode and times are not copied. Where the file system can share extents
// (FICLONE) no data moves; else the kernel copies in pieces of 4 MiB.
//
// The first failure ends the copy with a [*CopyError]; what was written by then
// stays.
func Copy(ctx context.Context, src, dst *os.File, opts CopyOptions) (Stats, error) {
	return copyTree(ctx, src, dst, opts)
}

// Package archive writes a workspace as one portable tar and reads such a tar
// back, also one that a stranger made.
//
// [Pack] writes what a directory holds: PAX headers, names below "./", links as
// links, hard links as hard links, modes, times in nanoseconds, empty directories
// and attributes of the user namespace. Owners are not written, setuid and setgid
// are dropped; sockets, fifos, devices and what is mounted inside are left out
// and named in the report. Equal trees give equal bytes.
//
// [Unpack] reads a tar, plain or compressed with gzip, into a fresh directory.
// It believes nothing: a name that is absolute, climbs or goes through a link of
// the archive, a device, a second member of one name are refused with the
// member's name and a reason. All work is done below the descriptor of that
// directory, one component at a time and never through a link. Whether the
// result is taken (swapped in, or joined to an existing tree with
// [Unpacked.MergeInto]) is up to the caller; on an error it is thrown away.
//
// A tar that Pack wrote says so in a PAX record of its first member. In such a
// tar links of any target, hard links within the tar and the exact permission
// bits are restored, because they are what the workspace held; from others a link
// must point inside, hard links are refused, and permissions are toned down
// ([RestoredMode]). The record is no authority: whoever forges it can make a link
// that points outside, as any command in the workspace can, and nothing in croft
// follows it.
package archive

import (
	"io"
	"os"

	"context"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/tree"
)

// The PAX record by which a tar of [Pack] is known; it stands in the root member.
const (
	markKey   = "CROFT.workspace"
	markValue = "1"
)

// PackOptions say what is packed. The zero value packs everything.
type PackOptions struct {
	// Skip names, relative to the directory, entries that are left out with all
	// that is below them; see [ShouldSkip].
	Skip []string
	// Progress, Workers and Thread are as in tree.Options; Workers read files
	// ahead of the one writer.
	Progress func(tree.Progress)
	Workers  int
	Thread   func(run func())
}

// Report says what a call has written or read.
type Report struct {
	Files, Dirs, Symlinks, Links int64
	// Bytes is the sum of the sizes of the files.
	Bytes int64
	// Left names what was left out, at most tree.MaxNamed; LeftOut counts all.
	Left    []tree.Left
	LeftOut int64
	// Changed names files that were modified while they were read (they are in
	// the tar as they were read, cut or filled up with zeros to the size in their
	// header) or that vanished before they could be read; at most tree.MaxNamed.
	Changed []string
}

// Pack writes the tree below dir to w as a tar, in the order of the names.
//
// Several files are read ahead of the writer; memory is bounded whatever the size
// of the tree. Cancelling ctx ends it at the next piece of a file; when Pack
// returns, nothing reads the tree or writes to w any more. Errors are a
// [*fault.Error] with the code workspace_archive_read_error, which names the
// entry if one was at fault.
func Pack(ctx context.Context, dir *os.File, w io.Writer, opts PackOptions) (Report, error) {
	return pack(ctx, dir, w, opts)
}

// Limits bound what [Unpack] accepts. Zero means no limit.
type Limits struct {
	// InputBytes bounds the bytes of the archive as given, compressed or not.
	InputBytes int64
	// ExtractedBytes bounds the sum of the sizes of all files.
	ExtractedBytes int64
	// Members bounds the number of members; the root directory does not count.
	Members int64
	// Depth bounds the number of components of a name.
	Depth int
}

// Check returns an invalid_argument error if a limit is negative.
func (l Limits) Check() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"max_input_bytes", l.InputBytes}, {"max_extracted_bytes", l.ExtractedBytes},
		{"max_members", l.Members}, {"max_depth", int64(l.Depth)},
	} {
		if f.value < 0 {
			return &fault.Error{
				Code: fault.InvalidArgument, Reason: "limit", Retry: fault.RetryNo,
				Message: "archive_limits." + f.name + " must be at least 1",
				Details: map[string]any{"field": f.name, "value": f.value},
			}
		}
	}
	return nil
}

// UnpackOptions say how an archive is read. The zero value works.
type UnpackOptions struct {
	Limits Limits
	// Owner, if not nil, gets every entry.
	Owner *tree.Owner
	// Progress is told from time to time how far the call is.
	Progress func(tree.Progress)
	// Thread, if not nil, runs the work, as in tree.Options.
	Thread func(run func())
}

// Unpack reads the tar r into dir, which must be empty and private.
//
// Cancelling ctx ends it at the next piece of a file, provided that r.Read does
// not block; when Unpack returns, nothing reads r or writes below dir any more.
// Memory grows with the number of directories in the archive only.
//
// Every error is a [*fault.Error] with the code workspace_archive_write_error.
// Its Reason says why and Details["member"] which member, as it is spelled in the
// archive; a limit adds "limit" and "actual". After an error the contents of dir
// are incomplete and for the caller to remove.
func Unpack(ctx context.Context, r io.Reader, dir *os.File, opts UnpackOptions) (*Unpacked, error) {
	return unpack(ctx, r, dir, opts)
}

// Unpacked is the result of [Unpack].
type Unpacked struct {
	Report
	// Marked says that the archive was written by Pack, or says so.
	Marked bool

	top *dirNode
}

// MergeInto moves the unpacked tree from staging into dst: directories that exist
// are kept and joined, files and links replace files and links.
//
// Everything is checked before anything is moved. Refused are a file or link
// where dst has a directory, and a member whose parent is a link or file in dst;
// only a directory that the archive lists itself replaces a file or link. Both
// directories must lie on one mount. A crash while entries are moved leaves some
// of them moved: a caller that needs more must keep a journal or swap the whole.
// Directories that exist in both trees may be nested at most 256 deep.
func (u *Unpacked) MergeInto(ctx context.Context, staging, dst *os.File) error {
	return u.merge(ctx, staging, dst)
}

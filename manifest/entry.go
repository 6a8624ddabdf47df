package manifest

import "io/fs"

// Entry is one thing that a workspace starts with: a [*File], [*Dir],
// [*LocalFile], [*LocalDir], [*GitRepo] or [*Mount]. There are no others:
// [Manifest.Checked] refuses what another package adds.
type Entry interface {
	// Common returns what every kind of entry has.
	Common() *Meta
	// Type returns the entry's kind as a manifest writes it: "file", "s3_mount".
	Type() string
	// IsDir reports whether the entry is a directory in the workspace.
	IsDir() bool
}

// Meta is what every entry has.
type Meta struct {
	// Description is shown to an agent beside the name; empty means none.
	Description string
	// Ephemeral entries are never saved and are built again on each start.
	// Storage mounts are always ephemeral, whatever this says: [Manifest.EphemeralPaths].
	Ephemeral bool
	// Group is the group that owns the entry, or nil.
	Group *Group
	// Permissions is the entry's mode; nil means [DefaultPermissions]. Parse sets it always.
	Permissions *Permissions
}

// Common returns m itself: it gives the entries that embed a Meta their method.
func (m *Meta) Common() *Meta { return m }

// Perm returns the permission bits that the entry is created with.
func (m *Meta) Perm() fs.FileMode {
	if m.Permissions == nil {
		return DefaultPermissions.Perm()
	}
	return m.Permissions.Perm()
}

// File is a file whose content stands in the manifest.
type File struct {
	Meta
	// Content is what the file holds, be it written as text or as base64.
	Content []byte
}

// Dir is a directory, with what lies below it.
type Dir struct {
	Meta
	// Children are the entries below it, in written order.
	Children Entries
}

// LocalFile is a copy of one file of the host.
type LocalFile struct {
	Meta
	// Src is the file's host path as it was written: relative to the base
	// directory that the caller gives when a workspace is filled, or absolute.
	Src string
}

// LocalDir is a copy of a directory tree of the host.
type LocalDir struct {
	Meta
	// Src is the directory's host path, as [LocalFile.Src]; empty means an empty directory.
	Src string
	// Symlinks says what becomes of symbolic links in the source.
	Symlinks Symlinks
}

// Symlinks says what becomes of symbolic links in a copied source.
type Symlinks string

// What becomes of symbolic links. None follows a link: a link in a stranger's
// repository may lead to a file that only the one who fills the workspace can read.
const (
	// RefuseSymlinks fails at the first link. It is the default; "" means it too.
	RefuseSymlinks Symlinks = "refuse"
	// KeepSymlinks copies each link as a link.
	KeepSymlinks Symlinks = "keep"
)

// GitRepo is a checkout of a git repository.
type GitRepo struct {
	Meta
	// Host is the server's name, "github.com" by default.
	Host string
	// Repo is the repository's name on the server: "owner/name".
	Repo string
	// Ref is a branch, a tag or a commit id.
	Ref string
	// Commit reports that Ref looks like a commit id (7 to 40 hexadecimal digits)
	// and is to be fetched as one first. Parse sets it.
	Commit bool
	// Subpath is the directory in the repository that is taken, as it was written.
	Subpath string
	// Dir is Subpath clean and relative to the repository, or empty for the
	// whole of it. Parse sets it.
	Dir string
}

// Type returns "file".
func (*File) Type() string { return "file" }

// Type returns "dir".
func (*Dir) Type() string { return "dir" }

// Type returns "local_file".
func (*LocalFile) Type() string { return "local_file" }

// Type returns "local_dir".
func (*LocalDir) Type() string { return "local_dir" }

// Type returns "git_repo".
func (*GitRepo) Type() string { return "git_repo" }

// IsDir returns false.
func (*File) IsDir() bool { return false }

// IsDir returns true.
func (*Dir) IsDir() bool { return true }

// IsDir returns false.
func (*LocalFile) IsDir() bool { return false }

// IsDir returns true.
func (*LocalDir) IsDir() bool { return true }

// IsDir returns true.
func (*GitRepo) IsDir() bool { return true }

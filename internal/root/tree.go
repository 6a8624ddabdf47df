package root

import (
	"context"
	"io"
	"io/fs"
	"os"
)

// Every operation of a Tree begins with the same two steps: the name is taken
// apart by its text alone ([Names]), which refuses what cannot lie in a root, and
// then looked up by descriptors. Errors are of type [*fault.Error]: a name that
// leads outside is fault.InvalidManifestPath with the reason "absolute" or
// "escape_root"; a change below a read-only grant is
// fault.WorkspaceArchiveWriteError with the reason "read_only_extra_path_grant";
// a missing entry is fault.WorkspaceReadNotFound; any other failure is
// fault.WorkspaceArchiveReadError or fault.WorkspaceArchiveWriteError and says why.
//
// A swap that is met during an operation is answered by trying again, a bounded
// number of times, and then by an error.
//
// With a User the kernel decides as it would for a process of that user; see
// [User.Do]. A nil User means the process itself.

// Open opens the workspace and its grants. The caller closes the Tree.
func Open(opts Options) (*Tree, error) { return openTree(opts) }

// Close closes the descriptors. Operations that run meanwhile end first; those
// that come later fail with fault.NotAvailable. A second Close does nothing.
func (t *Tree) Close() error { return t.close() }

// Dir returns the open workspace directory. It belongs to the Tree: do not close it.
func (t *Tree) Dir() *os.File { return t.dir() }

// Path returns the host path of the workspace without links.
func (t *Tree) Path() string { return t.path() }

// GrantRoots returns the grants as they were found, in the order of [Options.Grants].
func (t *Tree) GrantRoots() []GrantRoot { return t.grantRoots() }

// Names returns the lexical rules that the operations begin with.
func (t *Tree) Names() *Names { return t.lexical() }

// ReadFile returns the content of a regular file, or the part that opts asks for.
func (t *Tree) ReadFile(ctx context.Context, name string, opts ReadOptions) ([]byte, error) {
	return t.readFile(ctx, name, opts)
}

// Open opens a regular file for reading. The caller closes it. A planted fifo or
// device is refused and not waited for.
func (t *Tree) Open(ctx context.Context, name string, user *User) (*os.File, error) {
	return t.openFile(ctx, name, user)
}

// OpenDir opens a directory for reading. The caller closes it.
func (t *Tree) OpenDir(ctx context.Context, name string, user *User) (*os.File, error) {
	return t.openDir(ctx, name, user)
}

// WriteFile writes all that r yields to a file, which is created if missing.
//
// A new file appears complete, or not at all. An existing one keeps its mode,
// owner, access lists and hard links, and its old content until the new one has
// been read to its end and has room on the disk; the result says whether it was
// replaced in one step or changed in place, where a reader may see part of the
// change. A change of content drops setuid and setgid. Nothing is synced: after a
// power failure the old or the new content may be there.
//
// R is read on the calling goroutine, never with another user's rights. WriteFile
// does not close it. When ctx is cancelled the write ends between two reads of r.
func (t *Tree) WriteFile(ctx context.Context, name string, r io.Reader, opts WriteOptions) (WriteResult, error) {
	return t.writeFile(ctx, name, r, opts)
}

// AppendFile adds what r yields to the end of a file, which is created if missing.
// The bytes of r are read to the end before the first is written.
func (t *Tree) AppendFile(ctx context.Context, name string, r io.Reader, opts WriteOptions) (WriteResult, error) {
	return t.appendFile(ctx, name, r, opts)
}

// List returns the entries of a directory, sorted by name, each described without
// following it if it is a link. An entry that vanishes meanwhile is left out.
func (t *Tree) List(ctx context.Context, name string, user *User) ([]Info, error) {
	return t.list(ctx, name, user)
}

// Stat describes what name leads to, following links inside the roots.
func (t *Tree) Stat(ctx context.Context, name string, user *User) (Info, error) {
	return t.stat(ctx, name, true, user)
}

// Lstat describes the named entry itself.
func (t *Tree) Lstat(ctx context.Context, name string, user *User) (Info, error) {
	return t.stat(ctx, name, false, user)
}

// Mkdir makes a directory. One that exists already is fine and stays as it is;
// so is a link to one. At a link to nothing, the link's target is made.
func (t *Tree) Mkdir(ctx context.Context, name string, opts MkdirOptions) error {
	return t.mkdir(ctx, name, opts)
}

// Remove removes the named entry, never what a link leads to. Without Recursive a
// directory must be empty. A root is emptied and stays. A grant's root below the
// named directory stays too, with its contents and the directories above it, and
// makes the removal an error.
func (t *Tree) Remove(ctx context.Context, name string, opts RemoveOptions) error {
	return t.remove(ctx, name, opts)
}

// Rename gives the entry from the name to. An existing file at the new name is
// replaced. A root, and a directory that holds one, cannot be renamed.
func (t *Tree) Rename(ctx context.Context, from, to string, opts RenameOptions) error {
	return t.rename(ctx, from, to, opts)
}

// Copy copies a file, following links, with its permission bits; or with
// Recursive a directory, whose links are copied as links. The copy appears
// complete, or not at all. The directory of the new name must exist.
func (t *Tree) Copy(ctx context.Context, from, to string, opts CopyOptions) error {
	return t.copy(ctx, from, to, opts)
}

// Symlink makes name a link with the given target. The target may be any text; it
// is looked at only when an operation follows the link.
func (t *Tree) Symlink(ctx context.Context, target, name string, user *User) error {
	return t.symlink(ctx, target, name, user)
}

// Readlink returns the target of a link as it is stored.
func (t *Tree) Readlink(ctx context.Context, name string, user *User) (string, error) {
	return t.readlink(ctx, name, user)
}

// Chmod sets the mode of what name leads to, following links inside the roots.
func (t *Tree) Chmod(ctx context.Context, name string, mode fs.FileMode, user *User) error {
	return t.chmod(ctx, name, mode, user)
}

// ResolveOptions say what a resolved name is wanted for.
type ResolveOptions struct {
	// ForWrite refuses a name that leads below a read-only grant.
	ForWrite bool
	User     *User
}

// Resolve returns the host path of what name leads to, without links in it. It is
// looked up by the code that opens a file. What is missing at the end of the name
// is kept as it is. The path is for people and for processes that are told where
// something lies; an operation never uses it.
func (t *Tree) Resolve(ctx context.Context, name string, opts ResolveOptions) (string, error) {
	return t.resolve(ctx, name, opts)
}

// RemovalTarget returns the host path of the entry that [Tree.Remove] would act
// on: links before the last component are followed, the last is not.
func (t *Tree) RemovalTarget(ctx context.Context, name string, user *User) (string, error) {
	return t.removalTarget(ctx, name, user)
}

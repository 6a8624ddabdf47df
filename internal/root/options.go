package root

import (
	"io/fs"
	"os"
	"time"

	"github.com/croftdev/croft/internal/tree"
)

// Options say what a [Tree] consists of.
type Options struct {
	// Path is the workspace directory as it was configured: absolute; it may be a
	// link and hold "..". It must exist.
	Path string
	// Spellings are further absolute paths that mean the workspace, such as the
	// one under which commands see it. They need not exist on the host. Names and
	// absolute links that begin with one lead into the workspace.
	Spellings []string
	// Grants are host paths outside the workspace that may be reached. One that
	// does not exist, or that leads to the file system's root, is kept and grants
	// nothing; see [Tree.GrantRoots].
	Grants []Grant
	// Owner gets what a call without a User creates: the entry belongs to it from
	// its first moment, while the right to create it is the process's own. It is
	// for croft as root with a workspace of another uid.
	Owner *Owner
	// Stage, if not nil, is a directory of the caller's own. Where it lies on the
	// mount of the file that a write replaces, the new file has its temporary name
	// there, so that a process that is killed in between leaves nothing in the
	// workspace. The caller clears it; Open keeps a descriptor of its own.
	Stage *os.File
}

// Owner is whom a created entry shall belong to.
type Owner struct{ UID, GID int }

// ReadOptions say what to read. The zero value reads all of the file.
type ReadOptions struct {
	// Offset is where reading starts; beyond the end nothing is read.
	Offset int64
	// Limit bounds the bytes read; zero means no bound.
	Limit int64
	// User is on whose behalf the file is read; nil means the process itself.
	User *User
}

// WriteOptions say how to write. The zero value writes with missing parents made.
type WriteOptions struct {
	// Mode is the exact mode of the written file, also of one that existed. Nil
	// means 0666 less the umask for a new file, and no change of an existing one.
	Mode *fs.FileMode
	// NoParents makes a missing parent directory an error.
	NoParents bool
	// Exclusive makes it an error if the name exists, be it as a link.
	Exclusive bool
	// User is on whose behalf the file is written; nil means the process itself.
	User *User
}

// How is the way in which a write came about.
type How uint8

// The ways of [WriteResult.How].
const (
	// Created: there was no such file; it appeared complete.
	Created How = iota + 1
	// Replaced: another file took the name in one step; readers of the old one keep it.
	Replaced
	// InPlace: the file's own content was changed, because replacing it would
	// have lost something (a hard link, its owner, attributes) or was not allowed.
	// A reader may see part of the change.
	InPlace
	// Appended: the bytes were added at the end of the file.
	Appended
)

// String returns the way in lower case.
func (h How) String() string {
	names := [...]string{"none", "created", "replaced", "in_place", "appended"}
	if int(h) < len(names) {
		return names[h]
	}
	return names[0]
}

// WriteResult says what a write did.
type WriteResult struct {
	How   How
	Bytes int64
}

// MkdirOptions say how to make a directory.
type MkdirOptions struct {
	// Parents makes missing parents too.
	Parents bool
	// Mode is the exact mode of a directory that is new; nil means 0777 less the umask.
	Mode *fs.FileMode
	User *User
}

// RemoveOptions say how to remove.
type RemoveOptions struct {
	// Recursive removes a directory with all that is in it, and makes a missing
	// name no error.
	Recursive bool
	// Workers and Progress are those of [tree.Options], for a recursive removal.
	Workers  int
	Progress func(tree.Progress)
	User     *User
}

// RenameOptions say how to rename.
type RenameOptions struct {
	// NoReplace makes an existing new name an error.
	NoReplace bool
	User      *User
}

// CopyOptions say how to copy.
type CopyOptions struct {
	// Recursive copies a directory with all that is in it; the new name must not exist.
	Recursive bool
	// NoReplace makes an existing file at the new name an error.
	NoReplace bool
	// Workers and Progress are those of [tree.Options], for a recursive copy.
	Workers  int
	Progress func(tree.Progress)
	User     *User
}

// Kind is what an entry is.
type Kind uint8

// The kinds of entries. Other stands for fifos, sockets and devices.
const (
	File Kind = iota + 1
	Directory
	Symlink
	Other
)

// String returns the kind in lower case: "file", "directory", "symlink", "other".
func (k Kind) String() string {
	names := [...]string{"unknown", "file", "directory", "symlink", "other"}
	if int(k) < len(names) {
		return names[k]
	}
	return names[0]
}

// Info is what the kernel says about an entry.
type Info struct {
	// Name is the entry's own name, without directories; "." for a root.
	Name    string
	Kind    Kind
	Mode    fs.FileMode // with the type bits, as package os has them
	Size    int64
	ModTime time.Time
	UID     uint32
	GID     uint32
	Links   uint64
	Dev     uint64
	Ino     uint64
}

// Permissions returns the permission bits as text, such as "drwxr-x---". As in the
// listings that agents know, the first letter is d for a directory and - for all
// else, and setuid, setgid and sticky are not shown.
func (i Info) Permissions() string {
	const letters = "rwxrwxrwx"
	text := []byte("----------")
	if i.Kind == Directory {
		text[0] = 'd'
	}
	for n := range letters {
		if i.Mode&(1<<(8-n)) != 0 {
			text[n+1] = letters[n]
		}
	}
	return string(text)
}

// GrantRoot is a grant as [Open] found it.
type GrantRoot struct {
	Grant
	// Canonical is the host path without links, empty if the grant is void.
	Canonical string
	// Missing says that nothing exists at the path.
	Missing bool
	// Void says that the path leads to the file system's root, which no grant may be.
	Void bool
	// File says that the grant is not a directory.
	File bool
	// Dir is what was opened, for looking up only (O_PATH); nil if the grant is missing or
	// void. It belongs to the Tree.
	Dir *os.File
}

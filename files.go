package croft

import (
	"context"
	"io"
	"io/fs"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/root"
)

// The file operations take a name that is relative to the workspace, or absolute
// below the workspace's path or a grant. They look it up once, by descriptors:
// links are followed inside the workspace and its grants only, and a name that
// leaves them is invalid_manifest_path with the reason "absolute" or "escape_root".
// Operations on an entry itself (Lstat, Readlink, Remove, Rename, Symlink) never
// follow a link in the last place. They need a started session, run side by side,
// and each leaves a start and a finish event.
//
// What is missing is workspace_read_not_found; a change below a read-only grant is
// workspace_archive_write_error with the reason "read_only_extra_path_grant"; other
// failures are workspace_archive_read_error or workspace_archive_write_error.

// ReadFile returns the content of a regular file. A fifo or device is refused and
// not waited for.
func (s *Session) ReadFile(ctx context.Context, name string, opts ReadOptions) ([]byte, error) {
	return s.ReadRange(ctx, name, 0, 0, opts)
}

// ReadRange returns up to limit bytes of a regular file from offset on; a limit of 0
// means to the end. Beyond the end nothing is read.
func (s *Session) ReadRange(ctx context.Context, name string, offset, limit int64, opts ReadOptions) ([]byte, error) {
	var data []byte
	err := s.onFiles(ctx, event.OpRead, name, opts.User, nil, func(ctx context.Context, t *root.Tree, u *root.User) error {
		var err error
		data, err = t.ReadFile(ctx, name, root.ReadOptions{Offset: offset, Limit: limit, User: u})
		return err
	})
	return data, err
}

// WriteFile writes all that r yields to a file, whose missing parents are made. A
// new file appears complete or not at all, and an existing one keeps its old content
// until the new one has been read whole and has room on the disk, and its mode,
// owner and links. Nothing is synced to the disk. r is not closed.
func (s *Session) WriteFile(ctx context.Context, name string, r io.Reader, opts WriteOptions) (WriteResult, error) {
	return s.write(ctx, event.OpWrite, name, r, opts, (*root.Tree).WriteFile)
}

// AppendFile adds what r yields to the end of a file, which is created if missing.
func (s *Session) AppendFile(ctx context.Context, name string, r io.Reader, opts WriteOptions) (WriteResult, error) {
	return s.write(ctx, event.OpAppend, name, r, opts, (*root.Tree).AppendFile)
}

type writeFunc func(*root.Tree, context.Context, string, io.Reader, root.WriteOptions) (root.WriteResult, error)

func (s *Session) write(ctx context.Context, op event.Op, name string, r io.Reader, opts WriteOptions, write writeFunc) (WriteResult, error) {
	var res WriteResult
	var more []event.Field
	if l, ok := r.(interface{ Len() int }); ok { // bytes.Reader, strings.Reader, bytes.Buffer
		more = []event.Field{event.Int("bytes", int64(l.Len()))}
	}
	err := s.onFilesResult(ctx, op, name, opts.User, more, func(ctx context.Context, t *root.Tree, u *root.User) (event.Result, error) {
		var err error
		res, err = write(t, ctx, name, r, root.WriteOptions{
			Mode: opts.Mode, NoParents: opts.NoParents, Exclusive: opts.Exclusive, User: u,
		})
		return event.Result{Data: []event.Field{event.Int("bytes", res.Bytes)}}, err
	})
	return res, err
}

// List returns the entries of a directory, sorted by name, links as links.
func (s *Session) List(ctx context.Context, name string, opts ReadOptions) ([]FileInfo, error) {
	var out []FileInfo
	err := s.onFiles(ctx, event.OpList, name, opts.User, nil, func(ctx context.Context, t *root.Tree, u *root.User) error {
		var err error
		out, err = t.List(ctx, name, u)
		return err
	})
	return out, err
}

// Stat describes what name leads to.
func (s *Session) Stat(ctx context.Context, name string, opts ReadOptions) (FileInfo, error) {
	var info FileInfo
	err := s.onFiles(ctx, event.OpStat, name, opts.User, nil, func(ctx context.Context, t *root.Tree, u *root.User) error {
		var err error
		info, err = t.Stat(ctx, name, u)
		return err
	})
	return info, err
}

// Lstat describes the named entry itself.
func (s *Session) Lstat(ctx context.Context, name string, opts ReadOptions) (FileInfo, error) {
	var info FileInfo
	err := s.onFiles(ctx, event.OpLstat, name, opts.User, nil, func(ctx context.Context, t *root.Tree, u *root.User) error {
		var err error
		info, err = t.Lstat(ctx, name, u)
		return err
	})
	return info, err
}

// Mkdir makes a directory. One that exists is fine and stays as it is.
func (s *Session) Mkdir(ctx context.Context, name string, opts MkdirOptions) error {
	return s.onFiles(ctx, event.OpMkdir, name, opts.User, nil, func(ctx context.Context, t *root.Tree, u *root.User) error {
		return t.Mkdir(ctx, name, root.MkdirOptions{Parents: opts.Parents, Mode: opts.Mode, User: u})
	})
}

// Remove removes the named entry, never what a link leads to. Removing the
// workspace's root or a grant's empties it and keeps the directory.
func (s *Session) Remove(ctx context.Context, name string, opts RemoveOptions) error {
	more := []event.Field{event.Bool("recursive", opts.Recursive)}
	return s.onFiles(ctx, event.OpRemove, name, opts.User, more, func(ctx context.Context, t *root.Tree, u *root.User) error {
		return t.Remove(ctx, name, root.RemoveOptions{Recursive: opts.Recursive, Progress: s.treeProgress("remove"), User: u})
	})
}

// Rename gives the entry from the name to; an existing file there is replaced.
func (s *Session) Rename(ctx context.Context, from, to string, opts RenameOptions) error {
	more := []event.Field{event.String("to", to)}
	return s.onFiles(ctx, event.OpRename, from, opts.User, more, func(ctx context.Context, t *root.Tree, u *root.User) error {
		return t.Rename(ctx, from, to, root.RenameOptions{NoReplace: opts.NoReplace, User: u})
	})
}

// Copy copies a file, following links, or with Recursive a directory, whose links
// are copied as links. The copy appears complete or not at all.
func (s *Session) Copy(ctx context.Context, from, to string, opts CopyOptions) error {
	more := []event.Field{event.String("to", to)}
	return s.onFiles(ctx, event.OpCopy, from, opts.User, more, func(ctx context.Context, t *root.Tree, u *root.User) error {
		return t.Copy(ctx, from, to, root.CopyOptions{
			Recursive: opts.Recursive, NoReplace: opts.NoReplace, Progress: s.treeProgress("copy"), User: u,
		})
	})
}

// Symlink makes name a link with the given target, which may be any text.
func (s *Session) Symlink(ctx context.Context, target, name string, opts ReadOptions) error {
	more := []event.Field{event.String("target", target)}
	return s.onFiles(ctx, event.OpSymlink, name, opts.User, more, func(ctx context.Context, t *root.Tree, u *root.User) error {
		return t.Symlink(ctx, target, name, u)
	})
}

// Readlink returns the target of a link as it is stored.
func (s *Session) Readlink(ctx context.Context, name string, opts ReadOptions) (string, error) {
	var target string
	err := s.onFiles(ctx, event.OpReadlink, name, opts.User, nil, func(ctx context.Context, t *root.Tree, u *root.User) error {
		var err error
		target, err = t.Readlink(ctx, name, u)
		return err
	})
	return target, err
}

// Chmod sets the mode of what name leads to.
func (s *Session) Chmod(ctx context.Context, name string, mode fs.FileMode, opts ReadOptions) error {
	more := []event.Field{event.Int("mode", int64(mode.Perm()))}
	return s.onFiles(ctx, event.OpChmod, name, opts.User, more, func(ctx context.Context, t *root.Tree, u *root.User) error {
		return t.Chmod(ctx, name, mode, u)
	})
}

// onFiles runs one file operation between its events, with the rights of user.
func (s *Session) onFiles(ctx context.Context, op event.Op, name, user string, more []event.Field,
	do func(context.Context, *root.Tree, *root.User) error) error {
	return s.onFilesResult(ctx, op, name, user, more, func(ctx context.Context, t *root.Tree, u *root.User) (event.Result, error) {
		return event.Result{}, do(ctx, t, u)
	})
}

func (s *Session) onFilesResult(ctx context.Context, op event.Op, name, user string, more []event.Field,
	do func(context.Context, *root.Tree, *root.User) (event.Result, error)) error {
	span, err := s.recorder().Start(ctx, op, append([]event.Field{
		event.String("path", name), event.OptString("user", user),
	}, more...)...)
	if err != nil {
		return err
	}
	res, err := s.withTree(ctx, string(op), user, do)
	return span.Finish(ctx, res, err)
}

// withTree calls do with the session's tree and the account called user.
func (s *Session) withTree(ctx context.Context, op, user string,
	do func(context.Context, *root.Tree, *root.User) (event.Result, error)) (event.Result, error) {
	s.mu.Lock()
	t := s.tree
	s.mu.Unlock()
	if t == nil {
		return event.Result{}, notStarted(op)
	}
	var u *root.User
	if user != "" {
		var err error
		if u, err = root.LookupUser(user); err != nil {
			return event.Result{}, err
		}
	}
	return do(ctx, t, u)
}

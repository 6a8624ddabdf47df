package tree

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func walk(ctx context.Context, dir *os.File, opts Options, fn func(*Entry) error) error {
	w := &walker{fn: fn}
	e, err := newEngine(ctx, opts, w, dir)
	if err != nil {
		return err
	}
	w.e = e
	return e.run()
}

// walker is the visitor of Walk.
type walker struct {
	e  *engine
	fn func(*Entry) error
}

func (v *walker) entry(_ *worker, n *node, d dirent) (bool, error) {
	ent, err := see(n, d.name, v.e.top.id[0].mnt)
	if ent == nil {
		return false, err
	}
	v.e.counting.add(1, 0)
	return descend(ent, v.fn(ent), v.e.opts.CrossMounts)
}

// see examines an entry; a nil entry without an error has vanished.
func see(n *node, name string, mnt uint64) (*Entry, error) {
	var st unix.Statx_t
	switch err := statAt(n.fd[0], name, &st); err {
	case nil:
	case unix.ENOENT:
		return nil, nil
	default:
		// A directory that may be listed but not searched shows its names only.
		return &Entry{Name: name, Depth: n.depth + 1, Err: pathErr("stat", n.join(name), err), dir: n}, nil
	}
	return &Entry{Info: infoOf(&st, mnt), Name: name, Depth: n.depth + 1, dir: n}, nil
}

// descend judges what a walk function returned for an entry.
func descend(ent *Entry, err error, crossMounts bool) (bool, error) {
	if ent.Kind != Dir || ent.Err != nil {
		if err == fs.SkipDir {
			err = nil
		}
		return false, err
	}
	if err == fs.SkipDir {
		return false, nil
	}
	return err == nil && (!ent.Mount || crossMounts), err
}

func (v *walker) enter(_ *worker, parent *node, name string) (*node, error) {
	n, err := enterDir(parent, name)
	if err == nil || gone(err) {
		return n, nil
	}
	return nil, v.report(parent, name, err)
}

// report tells the walk function that a directory could not be read.
func (v *walker) report(parent *node, name string, err error) error {
	ent := &Entry{Name: name, Depth: parent.depth + 1, dir: parent, Err: pathErr("open", parent.join(name), err)}
	ent.Kind = Dir
	if err := v.fn(ent); err != nil && err != fs.SkipDir {
		return err
	}
	return nil
}

func (v *walker) unlisted(n *node, err error) error {
	if n.parent == nil {
		return pathErr("readdir", ".", err)
	}
	return v.report(n.parent, n.name, err)
}

func (v *walker) leave(*node, bool) (bool, error) { return false, nil }

// enterDir opens the directory name below parent, never through a link, and
// makes it a node with one descriptor.
func enterDir(parent *node, name string) (*node, error) {
	fd, err := openat(parent.fd[0], name, openDirFlags, 0)
	if err != nil {
		return nil, err
	}
	n := &node{fd: [2]int{fd, -1}}
	if err := statAt(fd, "", &n.meta); err != nil {
		unix.Close(fd)
		return nil, err
	}
	n.id[0] = identOf(&n.meta)
	return n, nil
}

// gone reports whether err means that a name no longer stands for a directory.
func gone(err error) bool {
	return err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP
}

func pathErr(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: path, Err: err}
}

func openEntry(e *Entry) (*os.File, error) {
	fd, err := openFile(e.dir.fd[0], e.Name, e.Dev, e.Ino)
	if err != nil {
		return nil, pathErr("open", e.Rel(), err)
	}
	return os.NewFile(uintptr(fd), e.Rel()), nil
}

// openFile opens the regular file name below dirfd if it still is the one with
// the given device and inode.
func openFile(dirfd int, name string, dev, ino uint64) (int, error) {
	fd, err := openat(dirfd, name, openFileFlags, 0)
	switch {
	case err == unix.ENOENT, err == unix.ELOOP, err == unix.ENXIO:
		return -1, errors.Join(ErrChanged, err)
	case err != nil:
		return -1, err
	}
	var st unix.Statx_t
	if err = statAt(fd, "", &st); err == nil {
		if id := identOf(&st); kindOf(uint32(st.Mode)) != File || id.dev != dev || id.ino != ino {
			err = ErrChanged
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func readlinkEntry(e *Entry) (string, error) {
	s, err := readlinkAt(e.dir.fd[0], e.Name)
	if err != nil {
		return "", pathErr("readlink", e.Rel(), err)
	}
	return s, nil
}

func readlinkAt(dirfd int, name string) (string, error) {
	for size := 256; ; size *= 2 {
		buf := make([]byte, size)
		n := 0
		err := retry(func() (err error) { n, err = unix.Readlinkat(dirfd, name, buf); return err })
		if err == unix.EINVAL || err == unix.ENOENT {
			err = errors.Join(ErrChanged, err)
		}
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

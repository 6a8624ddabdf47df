package root

import (
	"context"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

func (t *Tree) symlink(ctx context.Context, target, name string, user *User) error {
	pl, err := t.begin(ctx, opSymlink, name)
	if err != nil {
		return err
	}
	defer t.end()
	var at *spot
	err = t.act(user, func() error {
		return t.again(ctx, func() error {
			s, err := t.entry(pl, true)
			if err != nil {
				return err
			}
			at = s
			defer s.close()
			if err := t.writable(opSymlink, pl, s.root, t.hostPath(pl, s)); err != nil {
				return err
			}
			switch {
			case s.found:
				return unix.EEXIST
			case len(s.parents) > 0:
				return unix.ENOENT
			}
			return gone(unix.Symlinkat(target, s.dir, s.leaf))
		})
	})
	return t.failAt(opSymlink, pl, at, false, err)
}

func (t *Tree) chmod(ctx context.Context, name string, mode fs.FileMode, user *User) error {
	pl, err := t.begin(ctx, opChmod, name)
	if err != nil {
		return err
	}
	defer t.end()
	err = user.Do(func() error {
		fd, root, err := t.openFollow(ctx, pl, unix.O_PATH)
		if err == unix.ENOENT {
			return errMissing
		}
		if err != nil {
			return err
		}
		defer closeFD(fd)
		var st unix.Stat_t
		if err := fstat(fd, &st); err != nil {
			return err
		}
		// What is open now may be a granted file that came in place of another.
		if r := t.rootAt(identOf(&st)); r >= 0 {
			root = r
		}
		if err := t.writable(opChmod, pl, root, t.hostPath(pl, nil)); err != nil {
			return err
		}
		return chmodFD(fd, modeBits(mode))
	})
	return t.fail(opChmod, pl, false, err)
}

func (t *Tree) rename(ctx context.Context, from, to string, opts RenameOptions) error {
	pl, err := t.begin(ctx, opRename, from)
	if err != nil {
		return err
	}
	defer t.end()
	target, err := t.place(to)
	if err != nil {
		return withOp(opRename, err)
	}
	failed := pl // the name that the error is about
	err = opts.User.Do(func() error {
		return t.again(ctx, func() error {
			failed = pl
			a, err := t.entry(pl, true)
			if err != nil {
				return err
			}
			defer a.close()
			if err := t.movable(pl, a); err != nil {
				return err
			}
			failed = target
			b, err := t.entry(target, true)
			if err != nil {
				return err
			}
			defer b.close()
			if err := t.writable(opRename, target, b.root, t.hostPath(target, b)); err != nil {
				return err
			}
			switch {
			case b.leaf == "":
				return errIsRoot
			case len(b.parents) > 0:
				return unix.ENOENT
			}
			return renameEntry(a, b, opts.NoReplace)
		})
	})
	return t.fail(opRename, failed, false, err)
}

// movable returns an error if the entry at s may not be renamed.
func (t *Tree) movable(pl place, s *spot) error {
	if err := t.writable(opRename, pl, s.root, t.hostPath(pl, s)); err != nil {
		return err
	}
	switch {
	case !s.found:
		return errMissing
	case s.leaf == "":
		return errIsRoot
	case s.isDir() && t.holds(identOf(&s.st)):
		return errHoldsGrant
	}
	return nil
}

func renameEntry(a, b *spot, noReplace bool) error {
	flags := uint(0)
	if noReplace {
		flags = unix.RENAME_NOREPLACE
	}
	err := unix.Renameat2(a.dir, a.leaf, b.dir, b.leaf, flags)
	if flags == 0 && err == unix.ENOSYS {
		err = unix.Renameat(a.dir, a.leaf, b.dir, b.leaf)
	}
	if err == unix.EINVAL && flags == 0 {
		return errIntoItself
	}
	return gone(err)
}

// holds reports whether the directory id holds the root of a grant, or of the
// workspace, at any depth. It goes up from each root that lies in another one.
//
// A directory that holds a grant must keep its place, or else a grant could be led
// elsewhere by its name. Someone could still move the grant's parents about between
// this look and the change that depends on it; what is done to a tree is therefore
// decided by the identity of each directory and not by this.
func (t *Tree) holds(id ident) bool {
	for _, i := range t.inner {
		r := &t.roots[i]
		if !r.File && within(r.fd, id) && r.id != id {
			return true
		}
		if r.File {
			dir, err := openat(unix.AT_FDCWD, path.Dir(r.Canonical), unix.O_PATH|unix.O_DIRECTORY, 0)
			if err != nil {
				continue
			}
			found := within(dir, id)
			closeFD(dir)
			if found {
				return true
			}
		}
	}
	return false
}

// ancestors calls fn with each directory above fd, until fn returns false or the
// file system's root is reached.
func ancestors(fd int, fn func(ident) bool) {
	dir, last := -1, ident{}
	defer func() { closeFD(dir) }()
	for from := fd; ; from = dir {
		up, err := openat(from, "..", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return
		}
		closeFD(dir)
		dir = up
		var st unix.Stat_t
		if fstat(dir, &st) != nil || identOf(&st) == last || !fn(identOf(&st)) {
			return
		}
		last = identOf(&st)
	}
}

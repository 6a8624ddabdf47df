package root

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/tree"
)

// copying is one copy.
type copying struct {
	t        *Tree
	from, to place
	opts     CopyOptions
}

func (t *Tree) copy(ctx context.Context, from, to string, opts CopyOptions) error {
	pl, err := t.begin(ctx, opCopy, from)
	if err != nil {
		return err
	}
	defer t.end()
	target, err := t.place(to)
	if err != nil {
		return withOp(opCopy, err)
	}
	c := &copying{t: t, from: pl, to: target, opts: opts}
	src, st, err := c.source(ctx)
	if err != nil {
		return t.fail(opCopy, pl, true, err)
	}
	defer src.Close()
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		mode := fs.FileMode(st.Mode & 0o777)
		w := &putter{t: t, op: opCopy, pl: target, opts: WriteOptions{NoParents: true, Exclusive: opts.NoReplace, User: opts.User}, newMode: &mode}
		err := w.run(ctx, src)
		return t.failAt(opCopy, target, w.at, false, err)
	}
	if !opts.Recursive {
		return t.fail(opCopy, pl, true, unix.EISDIR)
	}
	return c.directory(ctx, src, st)
}

// source opens what is to be copied.
func (c *copying) source(ctx context.Context) (*os.File, *unix.Stat_t, error) {
	var st unix.Stat_t
	var f *os.File
	err := c.opts.User.Do(func() error {
		fd, _, err := c.t.openFollow(ctx, c.from, readFlags)
		if err == unix.ENXIO {
			err = errNotRegular
		}
		if err != nil {
			return err
		}
		f = os.NewFile(uintptr(fd), c.t.shown(c.from))
		if err := fstat(fd, &st); err != nil {
			return err
		}
		if err := regular(&st); err != unix.EISDIR {
			return err
		}
		return nil
	})
	if err != nil && f != nil {
		_ = f.Close() // nothing was written
	}
	return f, &st, err
}

// directory copies a directory: under a name that nobody expects, which becomes
// the wanted one when the copy is complete.
func (c *copying) directory(ctx context.Context, src *os.File, st *unix.Stat_t) error {
	name := tempName()
	var at *spot
	err := c.t.act(c.opts.User, func() error {
		return c.t.again(ctx, func() error {
			s, err := c.target()
			at = s
			if s != nil {
				defer s.close()
			}
			if err != nil {
				return err
			}
			return c.into(ctx, src, st, s, name)
		})
	})
	if ce, ok := errors.AsType[*tree.CopyError](err); ok && ce.Source {
		below := c.from
		below.rest = path.Join(below.rest, ce.Rel)
		return c.t.fail(opCopy, below, true, err)
	}
	return c.t.failAt(opCopy, c.to, at, false, err)
}

// target finds where the copy of a directory shall be; nothing may be there.
func (c *copying) target() (*spot, error) {
	s, err := c.t.entry(c.to, true)
	if err != nil {
		return nil, err
	}
	if err := c.t.writable(opCopy, c.to, s.root, c.t.hostPath(c.to, s)); err != nil {
		return s, err
	}
	switch {
	case s.found:
		return s, unix.EEXIST
	case len(s.parents) > 0:
		return s, unix.ENOENT
	}
	return s, nil
}

func (c *copying) into(ctx context.Context, src *os.File, st *unix.Stat_t, s *spot, name string) error {
	if within(s.dir, identOf(st)) {
		return errIntoItself
	}
	if err := unix.Mkdirat(s.dir, name, 0o700); err != nil {
		return gone(err)
	}
	parent, err := s.file()
	if err != nil {
		return err
	}
	defer parent.Close()
	err = c.fill(ctx, src, st, s, name)
	if err != nil {
		// What was begun goes, also when the caller does not want to wait any more.
		_, rerr := tree.Remove(context.WithoutCancel(ctx), parent, name, tree.RemoveOptions{
			Options: tree.Options{Thread: c.thread()}})
		if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}

func (c *copying) fill(ctx context.Context, src *os.File, st *unix.Stat_t, s *spot, name string) error {
	fd, err := c.t.openMade(s.dir, name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	stage := os.NewFile(uintptr(fd), name)
	defer stage.Close()
	_, err = tree.Copy(ctx, src, stage, tree.CopyOptions{Options: tree.Options{
		Workers: c.opts.Workers, Progress: c.opts.Progress, Thread: c.thread(),
		// If someone moves the target into the source meanwhile, the copy must not
		// copy itself without end.
		Skip: func(rel string) bool { return path.Base(rel) == name },
	}})
	if err != nil {
		return err
	}
	if err := unix.Fchmod(fd, st.Mode&0o1777); err != nil {
		return err
	}
	err = unix.Renameat2(s.dir, name, s.dir, s.leaf, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS { // the file system cannot: nearly the same
		err = unix.Renameat(s.dir, name, s.dir, s.leaf)
	}
	return gone(err)
}

// thread gives the workers the rights that c.t.act gives.
func (c *copying) thread() func(func()) {
	id, other := c.t.actor(c.opts.User)
	if !other {
		return nil
	}
	return onThread(id)
}

// within reports whether the directory fd is the directory id or lies below it.
func within(fd int, id ident) bool {
	var st unix.Stat_t
	if fstat(fd, &st) == nil && identOf(&st) == id {
		return true
	}
	found := false
	ancestors(fd, func(a ident) bool { found = a == id; return !found })
	return found
}

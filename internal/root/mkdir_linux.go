package root

import (
	"context"
	"io/fs"

	"golang.org/x/sys/unix"
)

func (t *Tree) mkdir(ctx context.Context, name string, opts MkdirOptions) error {
	pl, err := t.begin(ctx, opMkdir, name)
	if err != nil {
		return err
	}
	defer t.end()
	var at *spot
	err = t.act(opts.User, func() error {
		return t.again(ctx, func() error {
			s, err := t.entry(pl, false)
			if err != nil {
				return err
			}
			at = s
			defer s.close()
			if err := t.writable(opMkdir, pl, s.root, t.hostPath(pl, s)); err != nil {
				return err
			}
			switch {
			case s.isDir():
				return nil
			case s.found:
				return unix.EEXIST
			case len(s.parents) > 0 && !opts.Parents:
				return unix.ENOENT
			}
			if err := t.makeParents(s); err != nil {
				return err
			}
			return t.makeDir(s, opts.Mode)
		})
	})
	return t.failAt(opMkdir, pl, at, false, err)
}

// makeParents makes the missing directories between the spot's directory and its
// entry, and goes into the last of them. What another process makes meanwhile is
// taken if it is a directory; if it is a link, or a root that was moved there, the
// lookup has to start over.
func (t *Tree) makeParents(s *spot) error {
	for _, p := range s.parents {
		if err := unix.Mkdirat(s.dir, p, 0o777); err != nil && err != unix.EEXIST {
			return gone(err)
		}
		fd, _, err := t.openDirAt(s.dir, p, unix.O_PATH)
		if err != nil {
			return err
		}
		s.dir, s.held = fd, append(s.held, fd)
	}
	s.parents = nil
	return nil
}

// openDirAt opens a directory that was there or was made just now.
func (t *Tree) openDirAt(dir int, name string, flags int) (int, *unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := openat(dir, name, flags|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP || err == unix.ENOENT {
		return -1, nil, errAgain
	}
	if err == nil {
		err = fstat(fd, &st)
	}
	if err == nil && t.rootAt(identOf(&st)) >= 0 {
		err = errAgain
	}
	if err != nil {
		closeFD(fd)
		return -1, nil, err
	}
	return fd, &st, nil
}

// gone turns the kernel's answer that a directory in use has been removed, or an
// entry that was there is not any more, into errAgain.
func gone(err error) error {
	if err == unix.ENOENT {
		return errAgain
	}
	return err
}

// makeDir makes the spot's entry a directory. An exact mode is set on what was
// made, if it still is there.
func (t *Tree) makeDir(s *spot, mode *fs.FileMode) error {
	err := unix.Mkdirat(s.dir, s.leaf, 0o777)
	if err == unix.EEXIST {
		return errAgain
	}
	if err != nil || mode == nil {
		return gone(err)
	}
	fd, err := t.openMade(s.dir, s.leaf, unix.O_PATH)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return chmodFD(fd, modeBits(*mode))
}

// openMade opens a directory that has just been made by this thread. Someone may
// have put another one in its place: one of another owner, or with directories in
// it, is not it, and gets neither a mode nor contents.
func (t *Tree) openMade(dir int, name string, flags int) (int, error) {
	fd, st, err := t.openDirAt(dir, name, flags)
	if err == errAgain || err == nil && (int(st.Uid) != fsuid() || st.Nlink > 2) {
		closeFD(fd)
		return -1, errSwapped
	}
	return fd, err
}

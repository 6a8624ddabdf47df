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
			if err := s.makeParents(); err != nil {
				return err
			}
			return s.makeDir(opts.Mode)
		})
	})
	return t.failAt(opMkdir, pl, at, false, err)
}

// makeParents makes the missing directories between the spot's directory and its
// entry, and goes into the last of them. What another process makes meanwhile is
// taken if it is a directory; if it is a link, the lookup has to start over.
func (s *spot) makeParents() error {
	for _, p := range s.parents {
		if err := unix.Mkdirat(s.dir, p, 0o777); err != nil && err != unix.EEXIST {
			return gone(err)
		}
		fd, err := openat(s.dir, p, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err == unix.ENOTDIR || err == unix.ELOOP {
			err = errAgain
		}
		if err != nil {
			return gone(err)
		}
		s.dir, s.held = fd, append(s.held, fd)
	}
	s.parents = nil
	return nil
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
// made, if it still is there and ours: not on what someone put in its place.
func (s *spot) makeDir(mode *fs.FileMode) error {
	err := unix.Mkdirat(s.dir, s.leaf, 0o777)
	if err == unix.EEXIST {
		return errAgain
	}
	if err != nil || mode == nil {
		return gone(err)
	}
	fd, err := openat(s.dir, s.leaf, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP || err == unix.ENOENT {
		return errSwapped
	}
	if err != nil {
		return err
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != fsuid() || st.Nlink > 2 {
		return errSwapped
	}
	return chmodFD(fd, modeBits(*mode))
}

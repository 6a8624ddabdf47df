package root

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/tree"
)

func (t *Tree) remove(ctx context.Context, name string, opts RemoveOptions) error {
	pl, err := t.begin(ctx, opRemove, name)
	if err != nil {
		return err
	}
	defer t.end()
	var at *spot
	err = opts.User.Do(func() error {
		return t.again(ctx, func() error {
			s, err := t.entry(pl, true)
			if err != nil {
				return err
			}
			at = s
			defer s.close()
			if err := t.writable(opRemove, pl, s.root, t.hostPath(pl, s)); err != nil {
				return err
			}
			switch {
			case !s.found && opts.Recursive:
				return nil
			case !s.found:
				return errMissing
			case s.leaf == "":
				return t.emptyRoot(ctx, s, opts)
			}
			return t.removeEntry(ctx, s, opts)
		})
	})
	return t.removeError(pl, at, err)
}

// removeEntry removes the entry at s, whatever it has become since it was looked
// at: the kernel follows no link here.
func (t *Tree) removeEntry(ctx context.Context, s *spot, opts RemoveOptions) error {
	err := unix.Unlinkat(s.dir, s.leaf, 0)
	if err != unix.EISDIR {
		return gone(err)
	}
	if !opts.Recursive {
		err := unix.Unlinkat(s.dir, s.leaf, unix.AT_REMOVEDIR)
		if err == unix.ENOTDIR {
			err = errAgain
		}
		return gone(err)
	}
	dir, err := s.file()
	if err != nil {
		return err
	}
	defer dir.Close()
	_, err = tree.Remove(ctx, dir, s.leaf, t.treeRemoval(opts))
	if errors.Is(err, fs.ErrNotExist) && !isRemoveError(err) {
		return errAgain // gone in between, which the next look settles
	}
	return err
}

// emptyRoot removes what is in a root. The root itself stays: the session's other
// parts hold it, and a grant would be a mount point.
func (t *Tree) emptyRoot(ctx context.Context, s *spot, opts RemoveOptions) error {
	if !s.isDir() {
		return errIsRoot
	}
	dir, err := s.file()
	if err != nil {
		return err
	}
	defer dir.Close()
	if !opts.Recursive {
		fd, err := openat(s.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		defer closeFD(fd)
		names, err := readNames(ctx, fd)
		if err == nil && len(names) > 0 {
			err = unix.ENOTEMPTY
		}
		return err
	}
	_, err = tree.RemoveContents(ctx, dir, t.treeRemoval(opts))
	return err
}

// file returns the spot's directory as a file of its own. The caller closes it.
func (s *spot) file() (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(s.dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "."), nil
}

// treeRemoval returns the options of a removal below a root. The roots below it
// are kept, by what they are and not by their names.
func (t *Tree) treeRemoval(opts RemoveOptions) tree.RemoveOptions {
	o := tree.RemoveOptions{Options: tree.Options{Workers: opts.Workers, Progress: opts.Progress, Thread: opts.User.thread()}}
	if len(t.roots) > 1 {
		o.Keep = func(dev, ino uint64) bool { return t.rootAt(ident{dev, ino}) >= 0 }
	}
	return o
}

// thread gives the workers of a removal the rights of its user.
func (u *User) thread() func(func()) {
	if u.self() {
		return nil
	}
	return onThread(u.identity())
}

func isRemoveError(err error) bool {
	_, ok := errors.AsType[*tree.RemoveError](err)
	return ok
}

// removeError makes the error of a removal; of a recursive one it names what stayed.
func (t *Tree) removeError(pl place, s *spot, err error) error {
	if errors.Is(err, tree.ErrKept) {
		err = errors.Join(errHoldsGrant, err)
	}
	result := t.failAt(opRemove, pl, s, false, err)
	partial, ok := errors.AsType[*tree.RemoveError](err)
	if e, made := errors.AsType[*fault.Error](result); ok && made {
		names := make([]string, len(partial.Failed))
		for i, f := range partial.Failed {
			names[i] = f.Path
		}
		e.Details["left"], e.Details["left_count"] = names, partial.Count
	}
	return result
}

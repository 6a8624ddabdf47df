package root

import (
	"context"
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// The fast way: below a root that holds no other one, a name is opened by a single
// openat2 with RESOLVE_BENEATH. What the kernel refuses there, because the name
// leaves the root and might come back or land in another, is looked up the slow way.

// errAgain says that a swap was met: what was looked up is not there any more.
var errAgain = errors.New("changed meanwhile")

// maxTries bounds how often an operation starts over because of a swap.
const maxTries = 64

// again calls fn until it returns anything but errAgain.
func (t *Tree) again(ctx context.Context, fn func() error) error {
	for range maxTries {
		err := fn()
		if !errors.Is(err, errAgain) {
			return err
		}
		t.retried.Add(1)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return errSwapped
}

// begin starts an operation: it takes the name apart and holds the tree open. If
// the error is nil, the caller calls end.
func (t *Tree) begin(ctx context.Context, op, name string) (place, error) {
	t.open.RLock()
	if t.closed {
		t.open.RUnlock()
		return place{}, closedError(op)
	}
	pl, err := t.place(name)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		t.open.RUnlock()
		return pl, t.fail(op, pl, reading(op), err)
	}
	return pl, nil
}

func (t *Tree) end() { t.open.RUnlock() }

// place takes a name apart. An entry that really has a backslash in its name is
// preferred to the reading as a separator; both lie in the roots, so that nothing
// is lost if the entry comes or goes meanwhile.
func (t *Tree) place(name string) (place, error) {
	pl, err := t.names.find(name)
	if err != nil || strings.IndexByte(name, '\\') < 0 {
		return pl, err
	}
	literal := place{rest: path.Clean(squeeze(name)), text: squeeze(name)}
	if strings.HasPrefix(name, "/") || strings.HasPrefix(literal.rest+"/", "../") {
		return pl, nil
	}
	if s, err := t.locate(literal, true); err == nil {
		defer s.close()
		if s.found {
			return literal, nil
		}
	}
	return pl, nil
}

// fast reports whether names below pl's root may be opened without comparing what
// is on the way with other roots.
func (t *Tree) fast(pl place) bool {
	if pl.root < 0 || t.slowOnly || !openat2Works() {
		return false
	}
	r := &t.roots[pl.root]
	return r.usable() && !r.nested && !r.File
}

// openFollow opens what the name leads to and returns the root that it lies in.
func (t *Tree) openFollow(ctx context.Context, pl place, flags int) (fd, root int, err error) {
	if t.fast(pl) {
		fd, err = openBeneath(t.roots[pl.root].fd, pl.rest, flags, &t.retried)
		if err == nil || !slowly(pl, err) {
			return fd, pl.root, err
		}
	}
	err = t.again(ctx, func() error {
		s, err := t.locate(pl, false)
		if err != nil {
			return err
		}
		defer s.close()
		root = s.root
		fd, err = s.open(flags)
		return err
	})
	return fd, root, err
}

// slowly reports whether a lookup that failed with err on the fast way is to be
// done again on the slow one.
func slowly(pl place, err error) bool {
	switch err {
	case unix.EXDEV, unix.EAGAIN, unix.ENAMETOOLONG:
		return true
	case unix.ENOENT, unix.ENOTDIR:
		// In an absolute name ".." may come after something missing; it is then
		// taken by its text.
		return pl.abs && strings.Contains(pl.rest, "..")
	}
	return false
}

// open opens the entry of a spot. An entry that has become a link since it was
// looked up, or is gone, is errAgain.
func (s *spot) open(flags int) (int, error) {
	switch {
	case !s.found:
		return -1, unix.ENOENT
	case s.leaf != "":
		fd, err := openat(s.dir, s.leaf, flags|unix.O_NOFOLLOW, 0)
		if err == unix.ELOOP || err == unix.ENOENT {
			err = errAgain
		}
		if err != nil {
			return -1, err
		}
		if flags&unix.O_PATH != 0 { // does open a link with O_NOFOLLOW
			var st unix.Stat_t
			if err := fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFLNK {
				closeFD(fd)
				return -1, errors.Join(err, errAgain)
			}
		}
		return fd, nil
	case s.isDir():
		return openat(s.dir, ".", flags, 0)
	case flags&unix.O_PATH != 0:
		return unix.FcntlInt(uintptr(s.dir), unix.F_DUPFD_CLOEXEC, 0)
	default: // a granted file
		return reopen(s.dir, flags)
	}
}

// entry finds the entry that a change of the name acts on: the directory that
// holds it, held open, and what is there now. With nofollow the last component is
// not followed if it is a link. The caller closes the spot.
func (t *Tree) entry(pl place, nofollow bool) (*spot, error) {
	if t.fast(pl) && pl.rest != "." && path.Base(pl.rest) != ".." {
		if s := t.entryFast(pl, nofollow); s != nil {
			return s, nil
		}
	}
	return t.locate(pl, nofollow)
}

// entryFast is entry on the fast way. Where that does not lead to a clear answer it
// returns nil, and the slow way tells why.
func (t *Tree) entryFast(pl place, nofollow bool) *spot {
	s := &spot{root: pl.root, dir: t.roots[pl.root].fd, fd: -1}
	dir, leaf := path.Split(pl.rest)
	s.leaf = leaf
	if dir != "" {
		fd, err := openBeneath(s.dir, strings.TrimSuffix(dir, "/"), unix.O_PATH|unix.O_DIRECTORY, &t.retried)
		if err != nil {
			return nil
		}
		s.dir, s.held = fd, []int{fd}
	}
	err := lstatat(s.dir, leaf, &s.st)
	switch {
	case err == unix.ENOENT:
		return s
	case err == nil && (nofollow || s.st.Mode&unix.S_IFMT != unix.S_IFLNK):
		s.found = true
		if id := identOf(&s.st); len(t.roots) > 1 && t.rootAt(id) >= 0 {
			break // a granted file, or a mount of a root
		}
		return s
	}
	s.close()
	return nil
}

// hostPath returns the host path of the spot's entry. After the fast way that is
// the name as it was given, not yet free of links.
func (t *Tree) hostPath(pl place, s *spot) string {
	switch {
	case s != nil && s.host != "":
		return s.host
	case pl.root < 0:
		return pl.rest
	case t.roots[pl.root].Canonical == "":
		return path.Join(t.roots[pl.root].Path, pl.rest)
	default:
		return path.Join(t.roots[pl.root].Canonical, pl.rest)
	}
}

// writable refuses a root that is a read-only grant.
func (t *Tree) writable(op string, pl place, root int, host string) error {
	if r := &t.roots[root]; r.ReadOnly {
		return readOnlyError(op, r.Path, t.shown(pl), t.display(host))
	}
	return nil
}

// shown returns the name as errors show it.
func (t *Tree) shown(pl place) string {
	if pl.root == 0 {
		return pl.rest
	}
	return pl.text
}

// act runs the part of an operation that creates or changes entries: as user, else
// as the workspace's owner with the process's own rights, else in place.
func (t *Tree) act(user *User, fn func() error) error {
	if user == nil {
		if id, other := t.actor(nil); other {
			return doAs(id, fn)
		}
	}
	return user.Do(fn)
}

// actor returns the identity that creates entries, and whether it is another one
// than the process's own.
func (t *Tree) actor(user *User) (identity, bool) {
	switch {
	case user != nil:
		return user.identity(), !user.self()
	case t.owner != nil && os.Geteuid() == 0 && t.owner.UID != 0:
		return identity{uid: t.owner.UID, gid: t.owner.GID, keepCaps: true}, true
	}
	return identity{}, false
}

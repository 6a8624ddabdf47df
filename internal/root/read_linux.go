package root

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// readFlags open for reading. O_NONBLOCK keeps a planted fifo or a device from
// holding the open up, O_NOCTTY a terminal from becoming the process's own; what is
// opened is looked at before it is read. (A device that reacts to being opened
// cannot be planted without root's help, so that it is not looked at before.)
const readFlags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

// openRegular opens a regular file for reading and describes it.
func (t *Tree) openRegular(ctx context.Context, pl place, user *User, st *unix.Stat_t) (fd int, err error) {
	open := func() error {
		fd, _, err = t.openFollow(ctx, pl, readFlags)
		if err == unix.ENXIO { // a socket
			err = errNotRegular
		}
		return err
	}
	if user == nil {
		err = open()
	} else {
		err = user.Do(open)
	}
	if err != nil {
		return -1, err
	}
	if err = fstat(fd, st); err == nil {
		err = regular(st)
	}
	if err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}

// regular returns an error if st is not of a regular file.
func regular(st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return unix.EISDIR
	default:
		return errNotRegular
	}
}

func (t *Tree) readFile(ctx context.Context, name string, opts ReadOptions) ([]byte, error) {
	pl, err := t.begin(ctx, opRead, name)
	if err != nil {
		return nil, err
	}
	defer t.end()
	if opts.Offset < 0 || opts.Limit < 0 {
		return nil, t.fail(opRead, pl, true, unix.EINVAL)
	}
	var st unix.Stat_t
	fd, err := t.openRegular(ctx, pl, opts.User, &st)
	if err != nil {
		return nil, t.fail(opRead, pl, true, err)
	}
	data, err := readAll(ctx, fd, st.Size, opts)
	closeFD(fd)
	if err != nil {
		return nil, t.fail(opRead, pl, true, err)
	}
	return data, nil
}

// readPiece bounds how much is read between two looks at the context, and how much
// memory a file gets before it has shown that it holds as much.
const readPiece = 4 << 20

// readAll reads what opts ask for from a file that had the given size when it was
// opened. A file that says it has a size is read up to there, without another read
// for the end of file; one that says it is empty (those of /proc do) up to its end.
func readAll(ctx context.Context, fd int, size int64, opts ReadOptions) ([]byte, error) {
	want := max(size-opts.Offset, 0)
	unsized := size == 0
	if unsized {
		want = 512
	}
	if opts.Limit > 0 && (want > opts.Limit || unsized) {
		want = opts.Limit
	}
	if want == 0 {
		return []byte{}, nil
	}
	buf := make([]byte, min(want, readPiece))
	for got := int64(0); ; {
		n, err := unix.Pread(fd, buf[got:], opts.Offset+got)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		got += int64(n)
		if n == 0 || got == want && !(unsized && opts.Limit == 0) {
			return buf[:got], nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if got == int64(len(buf)) {
			more := want - got
			if unsized && opts.Limit == 0 {
				more = got
			}
			buf = slices.Grow(buf, int(min(readPiece, more)))
			buf = buf[:int64(len(buf))+min(readPiece, more)]
		}
	}
}

func (t *Tree) openFile(ctx context.Context, name string, user *User) (*os.File, error) {
	pl, err := t.begin(ctx, opRead, name)
	if err != nil {
		return nil, err
	}
	defer t.end()
	var st unix.Stat_t
	fd, err := t.openRegular(ctx, pl, user, &st)
	if err != nil {
		return nil, t.fail(opRead, pl, true, err)
	}
	return os.NewFile(uintptr(fd), t.shown(pl)), nil
}

func (t *Tree) openDir(ctx context.Context, name string, user *User) (*os.File, error) {
	pl, err := t.begin(ctx, opList, name)
	if err != nil {
		return nil, err
	}
	defer t.end()
	var f *os.File
	err = user.Do(func() error {
		fd, _, err := t.openFollow(ctx, pl, unix.O_RDONLY|unix.O_DIRECTORY)
		if err == nil {
			f = os.NewFile(uintptr(fd), t.shown(pl))
		}
		return err
	})
	return f, t.fail(opList, pl, true, err)
}

func (t *Tree) stat(ctx context.Context, name string, follow bool, user *User) (Info, error) {
	op := opLstat
	if follow {
		op = opStat
	}
	pl, err := t.begin(ctx, op, name)
	if err != nil {
		return Info{}, err
	}
	defer t.end()
	var st unix.Stat_t
	err = user.Do(func() error {
		if !follow {
			s, err := t.entryOf(ctx, pl)
			if err == nil {
				st = s.st
				s.close()
			}
			return err
		}
		fd, _, err := t.openFollow(ctx, pl, unix.O_PATH)
		if err != nil {
			return err
		}
		defer closeFD(fd)
		return fstat(fd, &st)
	})
	if err != nil {
		return Info{}, t.fail(op, pl, true, err)
	}
	return info(path.Base(pl.rest), &st), nil
}

// entryOf finds an existing entry without following it. The caller closes the spot.
func (t *Tree) entryOf(ctx context.Context, pl place) (s *spot, err error) {
	err = t.again(ctx, func() error {
		s, err = t.entry(pl, true)
		if err == nil && !s.found {
			s.close()
			err = unix.ENOENT
		}
		return err
	})
	return s, err
}

func (t *Tree) readlink(ctx context.Context, name string, user *User) (string, error) {
	pl, err := t.begin(ctx, opReadlink, name)
	if err != nil {
		return "", err
	}
	defer t.end()
	target := ""
	err = user.Do(func() error {
		s, err := t.entryOf(ctx, pl)
		if err != nil {
			return err
		}
		defer s.close()
		if s.st.Mode&unix.S_IFMT != unix.S_IFLNK {
			return errNotLink
		}
		target, err = readlinkat(s.dir, s.leaf)
		if err == unix.EINVAL { // not a link any more
			err = errNotLink
		}
		return err
	})
	return target, t.fail(opReadlink, pl, true, err)
}

func (t *Tree) resolve(ctx context.Context, name string, opts ResolveOptions) (string, error) {
	pl, err := t.begin(ctx, opResolve, name)
	if err != nil {
		return "", err
	}
	defer t.end()
	return t.where(ctx, pl, opts.User, false, opts.ForWrite)
}

func (t *Tree) removalTarget(ctx context.Context, name string, user *User) (string, error) {
	pl, err := t.begin(ctx, opResolve, name)
	if err != nil {
		return "", err
	}
	defer t.end()
	return t.where(ctx, pl, user, true, true)
}

// where returns the host path that a name leads to.
func (t *Tree) where(ctx context.Context, pl place, user *User, nofollow, forWrite bool) (string, error) {
	var s *spot
	err := user.Do(func() error {
		return t.again(ctx, func() (err error) {
			s, err = t.locate(pl, nofollow)
			return err
		})
	})
	if errors.Is(err, unix.ENOENT) && pl.root > 0 && t.roots[pl.root].Missing {
		host := t.hostPath(pl, nil)
		if forWrite {
			return host, t.writable(opResolve, pl, pl.root, host)
		}
		return host, nil
	}
	if err != nil {
		return "", t.fail(opResolve, pl, true, err)
	}
	defer s.close()
	if forWrite {
		if err := t.writable(opResolve, pl, s.root, s.host); err != nil {
			return "", err
		}
	}
	return s.host, nil
}

// info turns the kernel's answer into an Info.
func info(name string, st *unix.Stat_t) Info {
	i := Info{Name: name, Size: st.Size, ModTime: time.Unix(st.Mtim.Unix()), UID: st.Uid, GID: st.Gid,
		Dev: st.Dev, Ino: st.Ino, Mode: fs.FileMode(st.Mode & 0o777),
		Links: uint64(st.Nlink), //nolint:unconvert // 32 bits on some machines
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		i.Kind = File
	case unix.S_IFDIR:
		i.Kind, i.Mode = Directory, i.Mode|fs.ModeDir
	case unix.S_IFLNK:
		i.Kind, i.Mode = Symlink, i.Mode|fs.ModeSymlink
	case unix.S_IFIFO:
		i.Kind, i.Mode = Other, i.Mode|fs.ModeNamedPipe
	case unix.S_IFSOCK:
		i.Kind, i.Mode = Other, i.Mode|fs.ModeSocket
	case unix.S_IFCHR:
		i.Kind, i.Mode = Other, i.Mode|fs.ModeDevice|fs.ModeCharDevice
	default:
		i.Kind, i.Mode = Other, i.Mode|fs.ModeDevice
	}
	for _, b := range specialBits {
		if st.Mode&b.kernel != 0 {
			i.Mode |= b.mode
		}
	}
	return i
}

var specialBits = []struct {
	kernel uint32
	mode   fs.FileMode
}{{unix.S_ISUID, fs.ModeSetuid}, {unix.S_ISGID, fs.ModeSetgid}, {unix.S_ISVTX, fs.ModeSticky}}

// modeBits turns a mode into the kernel's twelve bits.
func modeBits(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for _, b := range specialBits {
		if m&b.mode != 0 {
			bits |= b.kernel
		}
	}
	return bits
}

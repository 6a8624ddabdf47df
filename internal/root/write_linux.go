package root

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// A write has three parts, of which only the first and the last look anything up,
// with the rights of the one it is done for: find and check the target, read the
// payload to its end, publish it. What a name means is decided when it is published.

// putter is one write.
type putter struct {
	t    *Tree
	op   string
	pl   place
	opts WriteOptions
	// newMode is the exact mode of a file that is new; nil leaves it to opts and umask.
	newMode *fs.FileMode
	p       *payload
	at      *spot // where the name led last, closed; for errors
	how     How
}

func (t *Tree) writeFile(ctx context.Context, name string, r io.Reader, opts WriteOptions) (WriteResult, error) {
	return t.put(ctx, opWrite, name, r, opts)
}

func (t *Tree) appendFile(ctx context.Context, name string, r io.Reader, opts WriteOptions) (WriteResult, error) {
	return t.put(ctx, opAppend, name, r, opts)
}

func (t *Tree) put(ctx context.Context, op, name string, r io.Reader, opts WriteOptions) (WriteResult, error) {
	pl, err := t.begin(ctx, op, name)
	if err != nil {
		return WriteResult{}, err
	}
	defer t.end()
	w := &putter{t: t, op: op, pl: pl, opts: opts, newMode: opts.Mode}
	err = w.run(ctx, r)
	if err != nil {
		return WriteResult{}, t.failAt(op, pl, w.at, false, err)
	}
	return WriteResult{How: w.how, Bytes: w.p.size}, nil
}

func (w *putter) run(ctx context.Context, r io.Reader) (err error) {
	// A target that can be refused is refused before the payload is read.
	var temp *tempFile
	early := func(needTemp bool) error {
		return w.t.act(w.opts.User, func() error {
			return w.t.again(ctx, func() error {
				return w.with(needTemp, func(s *spot) (err error) {
					if needTemp {
						temp, err = newTemp(s.dir)
					}
					return err
				})
			})
		})
	}
	if err := early(false); err != nil {
		return err
	}
	w.p, err = readPayload(ctx, r, func() (*tempFile, error) {
		err := early(true)
		return temp, err
	})
	if err != nil {
		return err
	}
	defer w.p.close()
	return w.t.act(w.opts.User, func() error {
		return w.t.again(ctx, func() error {
			return w.with(true, func(s *spot) error { return w.publish(ctx, s) })
		})
	})
}

// with finds the target, checks it and calls fn with it. With parents the missing
// directories above it are made first.
func (w *putter) with(parents bool, fn func(*spot) error) error {
	s, err := w.t.entry(w.pl, w.opts.Exclusive)
	if err != nil {
		return err
	}
	w.at = s
	defer s.close()
	if err := w.t.writable(w.op, w.pl, s.root, w.t.hostPath(w.pl, s)); err != nil {
		return err
	}
	switch {
	case s.found && w.opts.Exclusive:
		return unix.EEXIST
	case s.found:
		if err := regular(&s.st); err != nil {
			return err
		}
	case len(s.parents) > 0 && w.opts.NoParents:
		return unix.ENOENT
	case len(s.parents) > 0 && parents:
		if err := w.t.makeParents(s); err != nil {
			return err
		}
	}
	return fn(s)
}

// publish gives the target the payload.
func (w *putter) publish(ctx context.Context, s *spot) error {
	if !s.found {
		return w.create(ctx, s)
	}
	old, err := w.openOld(s)
	if err != nil {
		return err
	}
	defer closeFD(old.fd)
	if w.op == opAppend {
		return w.append(ctx, old)
	}
	if s.leaf != "" && w.t.rootAt(identOf(&old.st)) < 0 && old.st.Nlink == 1 {
		err := w.replace(ctx, s, old)
		if err != errNotReplaced {
			return err
		}
	}
	if old.busy {
		return unix.ETXTBSY
	}
	return w.inPlace(ctx, old)
}

// oldFile is an existing target, opened for writing.
type oldFile struct {
	fd   int
	st   unix.Stat_t
	busy bool // it is a running program: it can be replaced, not changed
}

// openOld opens the existing target for writing. That is also the question whether
// the user may write it: a rename would ask only about the directory.
func (w *putter) openOld(s *spot) (*oldFile, error) {
	flags := unix.O_WRONLY | unix.O_NONBLOCK | unix.O_NOCTTY
	if w.op == opAppend {
		flags |= unix.O_APPEND
	}
	old := &oldFile{}
	fd, err := s.open(flags)
	if err == unix.ETXTBSY && w.op != opAppend {
		old.busy = true
		fd, err = s.open(unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY)
	}
	switch err {
	case nil:
	case unix.ENXIO:
		return nil, errNotRegular
	default:
		return nil, err
	}
	old.fd = fd
	if err := fstat(fd, &old.st); err != nil {
		closeFD(fd)
		return nil, err
	}
	// What is open now may have come in place of what was looked at: a file of a
	// grant below this directory, or something that is no file.
	if r := w.t.rootAt(identOf(&old.st)); r >= 0 && w.t.roots[r].ReadOnly {
		closeFD(fd)
		return nil, w.t.writable(w.op, w.pl, r, w.t.roots[r].Canonical)
	}
	if err := regular(&old.st); err != nil {
		closeFD(fd)
		return nil, err
	}
	return old, nil
}

// temp returns a file with the payload in the directory of s. If the payload is in
// one already, and that is the directory, it is taken as it is.
func (w *putter) temp(ctx context.Context, s *spot) (t *tempFile, own bool, err error) {
	var st unix.Stat_t
	if err := fstat(s.dir, &st); err != nil {
		return nil, false, err
	}
	if p := w.p.temp; p != nil && p.dir >= 0 && !p.used && p.dirID == identOf(&st) {
		return p, false, nil
	}
	t, err = newTemp(s.dir)
	if err != nil {
		return nil, false, err
	}
	if err := w.p.writeTo(ctx, t.fd); err != nil {
		t.close()
		return nil, false, err
	}
	return t, true, nil
}

// create makes the target, which does not exist. It appears complete.
func (w *putter) create(ctx context.Context, s *spot) error {
	t, own, err := w.temp(ctx, s)
	if err != nil {
		return err
	}
	if own {
		defer t.close()
	}
	if w.newMode != nil {
		if err := unix.Fchmod(t.fd, modeBits(*w.newMode)); err != nil {
			return err
		}
	}
	err = t.link(s.dir, s.leaf)
	if err == unix.EEXIST && !w.opts.Exclusive {
		err = errAgain
	}
	if err == nil {
		w.how = Created
	}
	return gone(err)
}

// link gives the file a name in a directory of its file system, where nothing may
// have it yet.
func (t *tempFile) link(dir int, name string) error {
	if t.name != "" {
		err := unix.Renameat2(t.dir, t.name, dir, name, unix.RENAME_NOREPLACE)
		if err == nil {
			t.name = ""
		}
		if err != unix.EINVAL && err != unix.ENOSYS {
			return err
		}
		return unix.Linkat(t.dir, t.name, dir, name, 0) // close removes the other name
	}
	// linkat(2): by the descriptor itself only with CAP_DAC_READ_SEARCH, or since
	// Linux 6.10 for whoever opened it; else by way of /proc.
	err := unix.Linkat(t.fd, "", dir, name, unix.AT_EMPTY_PATH)
	if err == nil || err == unix.EEXIST {
		return err
	}
	return unix.Linkat(unix.AT_FDCWD, fdPath(t.fd), dir, name, unix.AT_SYMLINK_FOLLOW)
}

// append adds the payload at the end of the file. Room for it is made first, so
// that a full disk leaves the file as it was.
func (w *putter) append(ctx context.Context, old *oldFile) error {
	if w.p.size == 0 {
		w.how = Appended
		return nil
	}
	if err := reserve(old.fd, old.st.Size, w.p.size); err != nil {
		return err
	}
	if err := w.p.writeTo(ctx, old.fd); err != nil {
		return err
	}
	w.how = Appended
	return w.finishOld(old)
}

// inPlace changes the content of the file. Room is made first, and only then the
// first byte changed. From there on the change is not given up any more: half of
// it would be worse than all.
func (w *putter) inPlace(ctx context.Context, old *oldFile) error {
	if err := reserve(old.fd, 0, w.p.size); err != nil {
		return err
	}
	if err := w.p.writeTo(context.WithoutCancel(ctx), old.fd); err != nil {
		return err
	}
	if err := unix.Ftruncate(old.fd, w.p.size); err != nil {
		return err
	}
	w.how = InPlace
	return w.finishOld(old)
}

// reserve makes room for size bytes from offset on (fallocate(2), KEEP_SIZE). Where
// the file system cannot, the write itself will find out.
func reserve(fd int, offset, size int64) error {
	if size == 0 {
		return nil
	}
	err := unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, offset, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return err
}

// finishOld sets the wanted mode of a file whose content was changed. Without one,
// setuid and setgid go, as the kernel takes them when anybody but root writes: the
// rights were given to the old content.
func (w *putter) finishOld(old *oldFile) error {
	if err := fstat(old.fd, &old.st); err != nil {
		return err
	}
	mode := old.st.Mode & 0o7777
	want := withoutSetID(mode)
	if w.opts.Mode != nil && w.op != opAppend {
		want = modeBits(*w.opts.Mode)
	}
	if want == mode {
		return nil
	}
	return unix.Fchmod(old.fd, want)
}

// withoutSetID returns the mode without setuid, and without setgid where it means
// the right of the group and not mandatory locking (inode(7)).
func withoutSetID(mode uint32) uint32 {
	mode &^= unix.S_ISUID
	if mode&unix.S_IXGRP != 0 {
		mode &^= unix.S_ISGID
	}
	return mode
}

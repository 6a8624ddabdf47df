package tree

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

func copyTree(ctx context.Context, src, dst *os.File, opts CopyOptions) (Stats, error) {
	c := &copier{opts: opts, links: map[ident]*hardlink{}}
	e, err := newEngine(ctx, opts.Options, c, src, dst)
	if err != nil {
		return Stats{}, err
	}
	c.e = e
	err = e.run()
	return c.stats(), err
}

// sourceTries is how often an entry is looked at again that changed its kind
// between the look and the opening.
const sourceTries = 8

// copier is the visitor of Copy. Of each node's two descriptors the first is the
// source's, the second the destination's.
type copier struct {
	opts CopyOptions
	e    *engine

	files, dirs, symlinks, bytes atomic.Int64
	noClone, noRange             atomic.Bool // the file systems cannot

	mu      sync.Mutex
	left    []Left
	leftOut int64
	links   map[ident]*hardlink
}

// hardlink is where the first name of a file with several was copied to.
type hardlink struct {
	done chan struct{} // closed when the copy is complete or failed
	dir  *node
	name string
	copy ident // the file made; zero if it failed
	sum  Copied
	seen uint32
}

func (v *copier) stats() Stats {
	return Stats{
		Files: v.files.Load(), Dirs: v.dirs.Load(), Symlinks: v.symlinks.Load(), Bytes: v.bytes.Load(),
		Left: v.left, LeftOut: v.leftOut,
	}
}

func readErr(rel string, err error) error  { return &CopyError{Rel: rel, Source: true, Err: err} }
func writeErr(rel string, err error) error { return &CopyError{Rel: rel, Err: err} }

func (v *copier) entry(w *worker, n *node, d dirent) (bool, error) {
	for try := 0; ; try++ {
		var st unix.Statx_t
		err := statAt(n.fd[0], d.name, &st)
		if err == unix.ENOENT && !v.opts.Stable {
			return false, nil
		}
		if err != nil {
			return false, readErr(n.join(d.name), changed(err))
		}
		descend, err := v.one(w, n, d.name, &st)
		if err == nil {
			v.e.counting.add(1, 0)
			return descend, nil
		}
		if !v.opts.Stable && try < sourceTries && errors.Is(err, ErrChanged) && !v.e.stopped() {
			continue
		}
		return false, err
	}
}

// changed adds ErrChanged to the errors by which a swap shows itself.
func changed(err error) error {
	if gone(err) {
		return errors.Join(ErrChanged, err)
	}
	return err
}

// one copies one entry of n, as st describes it.
func (v *copier) one(w *worker, n *node, name string, st *unix.Statx_t) (descend bool, err error) {
	switch kind := kindOf(uint32(st.Mode)); kind {
	case Dir:
		if st.Mnt_id != v.e.top.id[0].mnt && !v.opts.CrossMounts {
			v.leave1(n, name, kind, true)
			return false, nil
		}
		return true, nil
	case Symlink:
		if v.opts.RefuseSymlinks {
			return false, readErr(n.join(name), ErrSymlink)
		}
		return false, v.symlink(n, name, st)
	case File:
		if st.Nlink > 1 {
			return false, v.linked(w, n, name, st)
		}
		_, _, err := v.file(w, n, name, st)
		return false, err
	default:
		v.leave1(n, name, kind, false)
		return false, nil
	}
}

// leave1 names an entry that is left out.
func (v *copier) leave1(n *node, name string, kind Kind, mount bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.leftOut++
	if len(v.left) < MaxNamed {
		v.left = append(v.left, Left{Rel: n.join(name), Kind: kind, Mount: mount})
	}
}

func (v *copier) symlink(n *node, name string, st *unix.Statx_t) error {
	target, err := readlinkAt(n.fd[0], name)
	if err != nil {
		return readErr(n.join(name), err)
	}
	dst := n.fd[1]
	link := func() error { return unix.Symlinkat(target, dst, name) }
	err = retry(link)
	if err == unix.EEXIST && v.opts.Replace {
		if err = unix.Unlinkat(dst, name, 0); err == nil {
			err = retry(link)
		}
	}
	if err == nil && v.opts.Owner != nil {
		err = unix.Fchownat(dst, name, v.opts.Owner.UID, v.opts.Owner.GID, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		err = unix.UtimesNanoAt(dst, name, times(st), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return writeErr(n.join(name), err)
	}
	v.symlinks.Add(1)
	return nil
}

// linked copies a file that has several names: the first name by its content,
// each further one as a hard link to that copy. A worker that meets a further
// name waits for the first, which is in another worker's hands and needs nothing.
func (v *copier) linked(w *worker, n *node, name string, st *unix.Statx_t) error {
	key := identOf(st)
	key.mnt = 0
	v.mu.Lock()
	l := v.links[key]
	if l == nil {
		l = &hardlink{done: make(chan struct{}), dir: n, name: name, seen: 1}
		v.links[key] = l
		v.mu.Unlock()
		defer close(l.done)
		id, sum, err := v.file(w, n, name, st)
		if err != nil {
			v.mu.Lock()
			delete(v.links, key)
			v.mu.Unlock()
			return err
		}
		l.copy, l.sum = id, sum
		return nil
	}
	l.seen++
	if l.seen >= st.Nlink {
		delete(v.links, key) // no further name can come
	}
	v.mu.Unlock()
	<-l.done
	if l.copy == (ident{}) || !v.link(l, n, name) {
		_, _, err := v.file(w, n, name, st)
		return err
	}
	v.files.Add(1)
	if v.opts.Done != nil {
		sum := l.sum
		sum.Rel = n.join(name)
		v.opts.Done(sum)
	}
	return nil
}

// link makes name in n a hard link to the copy l, and reports whether it did. The
// new name is examined afterwards: a process that swaps names in the destination
// could otherwise have another file linked here.
func (v *copier) link(l *hardlink, n *node, name string) bool {
	if l.dir != n {
		if v.e.cache.pin(l.dir, nil) != nil {
			return false
		}
		defer v.e.cache.unpin(l.dir)
	}
	err := retry(func() error { return unix.Linkat(l.dir.fd[1], l.name, n.fd[1], name, 0) })
	if err == unix.EEXIST && v.opts.Replace && unix.Unlinkat(n.fd[1], name, 0) == nil {
		err = unix.Linkat(l.dir.fd[1], l.name, n.fd[1], name, 0)
	}
	if err != nil {
		return false
	}
	var st unix.Statx_t
	if statAt(n.fd[1], name, &st) == nil && identOf(&st) == l.copy {
		return true
	}
	_ = unix.Unlinkat(n.fd[1], name, 0)
	return false
}

func (v *copier) enter(_ *worker, parent *node, name string) (*node, error) {
	n, err := enterDir(parent, name)
	if err != nil {
		if gone(err) && !v.opts.Stable {
			return nil, nil
		}
		return nil, readErr(parent.join(name), changed(err))
	}
	if n.id[0].mnt != v.e.top.id[0].mnt && !v.opts.CrossMounts {
		unix.Close(n.fd[0])
		v.leave1(parent, name, Dir, true)
		return nil, nil
	}
	if n.fd[1], err = v.makeDir(parent.fd[1], name); err == nil {
		var st unix.Statx_t
		if err = statAt(n.fd[1], "", &st); err == nil {
			n.id[1] = identOf(&st)
			v.dirs.Add(1)
			return n, nil
		}
		unix.Close(n.fd[1])
	}
	unix.Close(n.fd[0])
	return nil, writeErr(parent.join(name), err)
}

// makeDir makes a directory, private until it is complete, and opens it.
func (v *copier) makeDir(dirfd int, name string) (int, error) {
	err := retry(func() error { return unix.Mkdirat(dirfd, name, 0o700) })
	if err != nil && (err != unix.EEXIST || !v.opts.Replace) {
		return -1, err
	}
	return openat(dirfd, name, openDirFlags, 0)
}

func (v *copier) unlisted(n *node, err error) error { return readErr(n.path(), err) }

func (v *copier) leave(n *node, open bool) (bool, error) {
	if n.fd[1] < 0 {
		return false, nil // it could not be found again, which is reported already
	}
	if err := v.finish(n.fd[0], n.fd[1], &n.meta); err != nil {
		return false, writeErr(n.path(), err)
	}
	return false, nil
}

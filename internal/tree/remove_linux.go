package tree

import (
	"context"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A directory is listed again while new entries appear in it, and the whole
// tree is gone through again while directories are moved about in it, but only
// so often: a process that never stops adding entries must not hold the caller.
const (
	listPasses = 8
	treePasses = 4
)

// Files of at least this size are cut in steps before they are unlinked: freeing
// gigabytes takes seconds, in which no cancellation would be heard.
const (
	bigFile = 128 << 20
	cutStep = 32 << 20
)

func remove(ctx context.Context, parent *os.File, name string, opts RemoveOptions) (Stats, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, '/') {
		return Stats{}, &fs.PathError{Op: "remove", Path: name, Err: fs.ErrInvalid}
	}
	r := &remover{opts: opts}
	err := r.passes(ctx, func() error {
		up, err := hold(parent)
		if err != nil {
			return err
		}
		defer unix.Close(up)
		return r.named(ctx, up, name)
	})
	return r.stats(), err
}

func removeContents(ctx context.Context, dir *os.File, opts RemoveOptions) (Stats, error) {
	r := &remover{opts: opts}
	err := r.passes(ctx, func() error { return r.contents(ctx, dir) })
	return r.stats(), err
}

// passes calls pass, and again while the tree was changed under it.
func (v *remover) passes(ctx context.Context, pass func() error) error {
	var err error
	for range treePasses {
		if err := ctx.Err(); err != nil {
			return err
		}
		v.moved.Store(false)
		v.failures.reset()
		err = onThread(v.opts.Thread, pass)
		if !v.moved.Load() || ctx.Err() != nil {
			break
		}
	}
	return err
}

// named removes the entry name below up, whatever it is.
func (v *remover) named(ctx context.Context, up int, name string) error {
	fd, err := openat(up, name, openDirFlags, 0)
	if err != nil && v.opts.Unlock && isDenied(err) && unlockDir(up, name) {
		fd, err = openat(up, name, openDirFlags, 0)
	}
	switch {
	case err == unix.ENOTDIR || err == unix.ELOOP:
		err = retry(func() error { return unix.Unlinkat(up, name, 0) })
		if err == nil {
			v.files.Add(1)
		}
		if err == unix.EISDIR {
			v.moved.Store(true)
		}
		return v.single("unlink", name, err)
	case isDenied(err) && unix.Unlinkat(up, name, unix.AT_REMOVEDIR) == nil:
		v.dirs.Add(1) // it was empty, which needs no right to read it
		return nil
	case err != nil:
		return v.single("open", name, err)
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	if mounted(up, fd) && !v.opts.CrossMounts {
		return v.single("rmdir", name, unix.EBUSY)
	}
	var st unix.Statx_t
	if v.opts.Keep != nil && statAt(fd, "", &st) == nil && v.keep(identOf(&st)) {
		return v.single("rmdir", name, ErrKept)
	}
	v.prefix = name + "/"
	if err := v.contents(ctx, dir); err != nil {
		return err
	}
	err = retry(func() error { return unix.Unlinkat(up, name, unix.AT_REMOVEDIR) })
	switch err {
	case nil:
		v.dirs.Add(1)
	case unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR:
		v.moved.Store(true) // someone added or replaced entries
	}
	return v.single("rmdir", name, err)
}

// mounted reports whether something is mounted on the directory fd, seen from
// the directory up that holds it.
func mounted(up, fd int) bool {
	var a, b unix.Statx_t
	return statAt(up, "", &a) == nil && statAt(fd, "", &b) == nil && a.Mnt_id != b.Mnt_id
}

// keep reports whether the caller wants the entry kept.
func (v *remover) keep(id ident) bool {
	return v.opts.Keep != nil && v.opts.Keep(id.dev, id.ino)
}

// single makes the error for the entry that was named by the caller. A name
// that is gone in a later pass is what was wanted.
func (v *remover) single(op, name string, err error) error {
	pe := &fs.PathError{Op: op, Path: name, Err: err}
	switch {
	case err == nil, err == unix.ENOENT && v.files.Load()+v.dirs.Load() > 0:
		return nil
	case err == unix.ENOENT:
		return pe
	}
	return &RemoveError{Failed: []*fs.PathError{pe}, Count: 1}
}

// remover is the visitor of Remove.
type remover struct {
	opts        RemoveOptions
	prefix      string // before the names of entries in errors
	e           *engine
	files, dirs atomic.Int64
	moved       atomic.Bool // another pass may find what this one could not
	failures    failures
}

func (v *remover) stats() Stats {
	return Stats{Files: v.files.Load(), Dirs: v.dirs.Load()}
}

// contents removes what is below dir.
func (v *remover) contents(ctx context.Context, dir *os.File) error {
	if v.opts.Unlock {
		unlockFile(dir)
	}
	e, err := newEngine(ctx, v.opts.Options, v, dir)
	if err != nil {
		return err
	}
	v.e = e
	if err := e.run(); err != nil {
		return err
	}
	return v.failures.err()
}

func unlockFile(dir *os.File) {
	if raw, err := dir.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			if unix.Faccessat(int(fd), "", unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS) != nil {
				unlockFD(int(fd))
			}
		})
	}
}

func (v *remover) entry(w *worker, n *node, d dirent) (bool, error) {
	if d.typ == unix.DT_DIR {
		return true, nil
	}
	if d.typ == unix.DT_REG || d.typ == unix.DT_UNKNOWN {
		var st unix.Statx_t
		if statAt(n.fd[0], d.name, &st) == nil {
			switch kind := kindOf(uint32(st.Mode)); {
			case kind == Dir:
				return true, nil
			case v.keep(identOf(&st)):
				v.fail("unlink", n, d.name, ErrKept)
				return false, nil
			case kind == File && st.Size >= bigFile && st.Nlink == 1:
				v.cut(n, d.name, &st)
				if v.e.stopped() {
					return false, nil
				}
			}
		}
	}
	err := v.unlink(n, d.name, 0)
	switch err {
	case nil:
		v.files.Add(1)
		v.e.counting.add(1, 0)
	case unix.ENOENT:
	case unix.EISDIR:
		return true, nil
	default:
		v.fail("unlink", n, d.name, err)
	}
	return false, nil
}

// unlink removes name in n; where n's own mode forbids it and Unlock is set, it
// changes the mode by n's descriptor and tries once more.
func (v *remover) unlink(n *node, name string, flags int) error {
	err := retry(func() error { return unix.Unlinkat(n.fd[0], name, flags) })
	if err != nil && v.opts.Unlock && err == unix.EACCES && unlockFD(n.fd[0]) {
		err = retry(func() error { return unix.Unlinkat(n.fd[0], name, flags) })
	}
	return err
}

// cut shortens a large file step by step, until it is small or the operation
// stops. It acts only on a file with this one name, and looks before each step
// whether the name still stands for it: a file that someone moves or links out
// of the tree meanwhile shall not be emptied. (Between that look and the step
// he still can; but only he who may write in the tree that is being removed.)
func (v *remover) cut(n *node, name string, st *unix.Statx_t) {
	fd, err := openat(n.fd[0], name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // it is unlinked in one go
	}
	defer unix.Close(fd)
	var now unix.Statx_t
	if statAt(fd, "", &now) != nil || identOf(&now) != identOf(st) || kindOf(uint32(now.Mode)) != File {
		return
	}
	for size := int64(now.Size); size > cutStep && !v.e.stopped(); {
		if statAt(n.fd[0], name, &now) != nil || identOf(&now) != identOf(st) || now.Nlink != 1 {
			return
		}
		size -= cutStep
		if unix.Ftruncate(fd, size) != nil {
			return
		}
	}
}

func (v *remover) enter(w *worker, parent *node, name string) (*node, error) {
	n, err := enterDir(parent, name)
	if err != nil && v.opts.Unlock && isDenied(err) {
		// Either the directory itself or the one that holds it lacks the right.
		unlockFD(parent.fd[0])
		unlockDir(parent.fd[0], name)
		n, err = enterDir(parent, name)
	}
	switch {
	case err == nil && n.id[0].mnt != v.e.top.id[0].mnt && !v.opts.CrossMounts:
		unix.Close(n.fd[0])
		v.fail("rmdir", parent, name, unix.EBUSY) // something is mounted on it
		return nil, nil
	case err == nil && v.keep(n.id[0]):
		unix.Close(n.fd[0])
		v.fail("rmdir", parent, name, ErrKept)
		return nil, nil
	case err == nil:
		return n, nil
	case err == unix.ENOENT:
		return nil, nil
	case err == unix.ENOTDIR || err == unix.ELOOP:
		_, err := v.entry(w, parent, dirent{name: name, typ: unix.DT_LNK})
		return nil, err
	case isDenied(err) && v.unlink(parent, name, unix.AT_REMOVEDIR) == nil:
		v.dirs.Add(1) // it was empty, which needs no right to read it
		v.e.counting.add(1, 0)
		return nil, nil
	}
	v.fail("open", parent, name, err)
	return nil, nil
}

func (v *remover) unlisted(n *node, err error) error {
	v.fail("readdir", n, "", err)
	return nil
}

func (v *remover) leave(n *node, open bool) (bool, error) {
	if !open || n.failed.Load() {
		n.parent.failed.Store(true)
		return false, nil
	}
	err := v.unlink(n.parent, n.name, unix.AT_REMOVEDIR)
	switch err {
	case nil:
		v.dirs.Add(1)
		v.e.counting.add(1, 0)
	case unix.ENOENT:
	case unix.ENOTDIR: // another entry took its place: the next pass sees it
		v.fail("rmdir", n.parent, n.name, ErrMoved)
	case unix.ENOTEMPTY, unix.EEXIST:
		n.passes++
		if n.passes < listPasses {
			_, serr := unix.Seek(n.fd[0], 0, unix.SEEK_SET)
			return serr == nil, nil
		}
		v.fail("rmdir", n.parent, n.name, err)
	default:
		v.fail("rmdir", n.parent, n.name, err)
	}
	return false, nil
}

// fail notes that an entry of n (or n itself) stays.
func (v *remover) fail(op string, n *node, name string, err error) {
	if err == ErrMoved {
		v.moved.Store(true)
	}
	n.failed.Store(true)
	path := n.path()
	if name != "" {
		path = n.join(name)
	}
	v.failures.add(&fs.PathError{Op: op, Path: v.prefix + path, Err: err})
}

// failures collects what could not be removed.
type failures struct {
	mu    sync.Mutex
	named []*fs.PathError
	count int64
}

func (f *failures) add(pe *fs.PathError) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if len(f.named) < MaxNamed {
		f.named = append(f.named, pe)
	}
}

func (f *failures) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.named, f.count = nil, 0
}

func (f *failures) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == 0 {
		return nil
	}
	return &RemoveError{Failed: f.named, Count: f.count}
}

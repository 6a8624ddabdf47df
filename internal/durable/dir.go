package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is returned where a regular file was asked for and something
// else, such as a directory or a fifo, has the name.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooLarge is returned by [Dir.ReadFile] for a file above the limit.
var ErrTooLarge = errors.New("file is too large")

// Dir is a directory held by its descriptor. Names given to its methods are
// single components. It is safe for use by several goroutines.
type Dir struct {
	f *os.File
}

// Open holds the directory at path, whose links are followed. The caller closes it.
func Open(path string) (*Dir, error) {
	return open(unix.AT_FDCWD, path, 0)
}

// OpenDir holds the directory called name in d. A link of that name is refused
// with ENOTDIR or ELOOP. The caller closes it.
func (d *Dir) OpenDir(name string) (*Dir, error) {
	return open(d.fd(), name, unix.O_NOFOLLOW)
}

func open(at int, name string, flags int) (*Dir, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &Dir{f: os.NewFile(uintptr(fd), name)}, nil
}

// File returns the descriptor of d, which d goes on owning.
func (d *Dir) File() *os.File { return d.f }

// Close lets the directory go.
func (d *Dir) Close() error { return d.f.Close() }

func (d *Dir) fd() int { return int(d.f.Fd()) }

// Mkdir makes the directory name with mode 0700; an existing directory is fine.
// It is on disk only after the next [Dir.Sync] of d.
func (d *Dir) Mkdir(name string) error {
	err := retryErr(func() error { return unix.Mkdirat(d.fd(), name, 0o700) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return nil
}

// Sync waits until the entries of d are on disk.
func (d *Dir) Sync() error { return d.f.Sync() }

// OpenFile opens the regular file name for reading and follows links. A fifo of
// that name hangs nobody. The caller closes it.
//
// The error is fs.ErrNotExist where nothing has the name and [ErrNotRegular]
// where something else than a regular file has it.
func (d *Dir) OpenFile(name string) (*os.File, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd(), name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// ReadFile returns the content of the regular file name, which may not exceed
// limit bytes.
func (d *Dir) ReadFile(name string, limit int64) ([]byte, error) {
	f, err := d.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: ErrTooLarge}
	}
	return data, nil
}

// Rename moves the entry name of d to newName in to and syncs both directories.
// An existing newName of the same kind is replaced, as rename(2) does it.
func (d *Dir) Rename(name string, to *Dir, newName string) error {
	err := retryErr(func() error { return unix.Renameat(d.fd(), name, to.fd(), newName) })
	if err != nil {
		return &os.LinkError{Op: "rename", Old: name, New: newName, Err: err}
	}
	if err := to.Sync(); err != nil {
		return err
	}
	if to.f == d.f {
		return nil
	}
	return d.Sync()
}

// RenameNew gives the directory name of d the name newName. It is on disk only after
// the next [Dir.Sync] of d. The error is fs.ErrExist where newName is in use, also by
// an empty directory.
func (d *Dir) RenameNew(name, newName string) error {
	if err := renameNew(d.fd(), name, newName); err != nil {
		return &os.LinkError{Op: "rename", Old: name, New: newName, Err: err}
	}
	return nil
}

// Exchange swaps what the two names of d stand for, in one step, and syncs d. The
// error is fs.ErrNotExist if one of them is missing.
func (d *Dir) Exchange(name, other string) error {
	if err := exchange(d.fd(), name, other); err != nil {
		return &os.LinkError{Op: "exchange", Old: name, New: other, Err: err}
	}
	return d.Sync()
}

// LockFile opens the file name for reading and writing, made with mode 0600 where
// it is missing, to be given to [TryLock]. The caller closes it.
func (d *Dir) LockFile(name string) (*os.File, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd(), name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Remove unlinks the file name. It is gone from disk only after the next [Dir.Sync].
func (d *Dir) Remove(name string) error { return d.unlink(name, 0) }

// RemoveDir removes the empty directory name.
func (d *Dir) RemoveDir(name string) error { return d.unlink(name, unix.AT_REMOVEDIR) }

func (d *Dir) unlink(name string, flags int) error {
	if err := retryErr(func() error { return unix.Unlinkat(d.fd(), name, flags) }); err != nil {
		return &fs.PathError{Op: "unlink", Path: name, Err: err}
	}
	return nil
}

// Names returns the names in d, in no order.
func (d *Dir) Names() ([]string, error) {
	// A second descriptor, because reading a directory moves the offset that all
	// users of d.f share.
	again, err := d.again()
	if err != nil {
		return nil, err
	}
	defer again.Close()
	return again.f.Readdirnames(-1)
}

func (d *Dir) again() (*Dir, error) { return open(d.fd(), ".", unix.O_NOFOLLOW) }

// Held is the exclusive lock on a directory.
type Held struct{ dir *Dir }

// Close lets the lock go now, also where a child that was forked meanwhile and has
// not yet reached its exec still has the descriptor.
func (h *Held) Close() error { return errors.Join(Unlock(h.dir.f), h.dir.Close()) }

// Lock takes the exclusive lock on the directory itself and reports whether it got
// it. The lock lasts until it is closed or the process ends; children made by fork
// and exec do not hold it.
func (d *Dir) Lock() (*Held, bool, error) {
	again, err := d.again()
	if err != nil {
		return nil, false, err
	}
	got, err := TryLock(again.f)
	if err != nil || !got {
		return nil, false, errors.Join(err, again.Close())
	}
	return &Held{again}, true, nil
}

// SameAs reports whether the entry name of d is now, without following a link,
// the very directory that other holds.
func (d *Dir) SameAs(name string, other *Dir) (bool, error) {
	var there, held unix.Stat_t
	err := retryErr(func() error { return unix.Fstatat(d.fd(), name, &there, unix.AT_SYMLINK_NOFOLLOW) })
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = unix.Fstat(other.fd(), &held)
	}
	if err != nil {
		return false, fmt.Errorf("compare directory %s: %w", name, err)
	}
	return there.Dev == held.Dev && there.Ino == held.Ino, nil
}

// TryLock takes the exclusive flock(2) on f and reports whether it got it. The
// lock belongs to the open file: it conflicts with one taken through another
// descriptor of the same process too, and ends with [Unlock] or the last close.
func TryLock(f *os.File) (bool, error) {
	err := retryErr(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// Unlock lets the lock on f go now. Closing f alone could leave it for a moment
// with a child that was forked meanwhile and has not yet reached its exec.
func Unlock(f *os.File) error {
	return retryErr(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) })
}

func retry[T any](f func() (T, error)) (T, error) {
	for {
		v, err := f()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}

func retryErr(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

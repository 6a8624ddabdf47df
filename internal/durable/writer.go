package durable

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// The names of temporary files: independent of the target's name, which may be
// as long as the file system allows.
const (
	tempPrefix = ".croft-"
	tempSuffix = ".tmp"
)

// Writer is a file that does not have its name yet. Exactly one of Commit and
// Discard ends it; Discard after Commit does nothing.
type Writer struct {
	dir  *Dir
	f    *os.File
	temp string
}

// WriteFile makes data the content of the file name, with mode 0600, all or
// nothing. When it returns nil, the new content is on disk. After an error the
// old content is there, except when the directory could not be synced: then the
// new one is visible and may be gone after a loss of power.
func (d *Dir) WriteFile(name string, data []byte) error {
	w, err := d.NewFile()
	if err != nil {
		return err
	}
	defer w.Discard()
	if _, err := w.Write(data); err != nil {
		return err
	}
	return w.Commit(name)
}

// NewFile makes a locked temporary file with mode 0600.
func (d *Dir) NewFile() (*Writer, error) {
	for {
		name := tempPrefix + RandomName() + tempSuffix
		fd, err := retry(func() (int, error) {
			return unix.Openat(d.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
		})
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "create", Path: name, Err: err}
		}
		w := &Writer{dir: d, f: os.NewFile(uintptr(fd), name), temp: name}
		kept, err := w.lock()
		if err != nil {
			w.Discard()
			return nil, err
		}
		if kept {
			return w, nil
		}
		_ = w.close() // a sweep took it; begin anew
	}
}

// lock locks the temporary file and reports whether it still has its name: a
// sweep may have met it between its creation and its lock.
func (w *Writer) lock() (bool, error) {
	if err := retryErr(func() error { return unix.Flock(int(w.f.Fd()), unix.LOCK_EX) }); err != nil {
		return false, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(w.f.Fd()), &st); err != nil {
		return false, err
	}
	return st.Nlink > 0, nil
}

// Write appends to the content.
func (w *Writer) Write(p []byte) (int, error) { return w.f.Write(p) }

// Commit syncs the content, gives it the name, replacing a file of that name, and
// syncs the directory.
func (w *Writer) Commit(name string) error {
	if err := w.f.Sync(); err != nil {
		return err
	}
	err := retryErr(func() error { return unix.Renameat(w.dir.fd(), w.temp, w.dir.fd(), name) })
	if err != nil {
		return &os.LinkError{Op: "rename", Old: w.temp, New: name, Err: err}
	}
	w.temp = ""
	if err := errors.Join(w.close(), w.dir.Sync()); err != nil {
		return err
	}
	return nil
}

// Discard removes the temporary file, unless it was committed.
func (w *Writer) Discard() {
	if w.temp != "" {
		_ = w.dir.Remove(w.temp) // else the next sweep takes it
		w.temp = ""
	}
	_ = w.close()
}

func (w *Writer) close() error {
	if w.f == nil {
		return nil
	}
	f := w.f
	w.f = nil
	return f.Close()
}

// RemoveLeftovers removes the temporary files in d whose writers have ended, and
// returns how many there were. It leaves those of living writers.
func (d *Dir) RemoveLeftovers() (int, error) {
	names, err := d.Names()
	if err != nil {
		return 0, err
	}
	var errs []error
	n := 0
	for _, name := range names {
		if !strings.HasPrefix(name, tempPrefix) || !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		gone, err := d.removeLeftover(name)
		if err != nil {
			errs = append(errs, err)
		}
		if gone {
			n++
		}
	}
	return n, errors.Join(errs...)
}

func (d *Dir) removeLeftover(name string) (bool, error) {
	f, err := d.OpenFile(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if got, err := TryLock(f); err != nil || !got {
		return false, err
	}
	err = d.Remove(name)
	if errors.Is(err, fs.ErrNotExist) { // its writer finished between our look and our lock
		return false, nil
	}
	return err == nil, err
}

// RandomName returns 16 hexadecimal digits for a name that nothing else has.
func RandomName() string {
	var b [8]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// WriteNew makes the file name, which must not exist, with the content data and
// mode 0600, and syncs it and the directory. It is for a directory that nobody
// looks at yet: others would see the file while it is being written, and a crash
// leaves a part of it.
func (d *Dir) WriteNew(name string, data []byte) error {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	})
	if err != nil {
		return &fs.PathError{Op: "create", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return d.Sync()
}

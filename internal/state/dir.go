package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/durable"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/snapshot"
)

// Dir is an open state directory. Its parts are held by descriptors, so that a
// name that is renamed or replaced later leads nowhere else. It is safe for use
// by several goroutines, and several processes may have the same directory open.
type Dir struct {
	path     string // absolute, for what must be given to others as a path
	top      *durable.Dir
	sessions *durable.Dir
	trash    *durable.Dir

	mu    sync.Mutex
	taken map[string]bool // entries of the trash that whoever put them there removes

	// unborn is held while a sweep looks at a directory that had no session's name yet.
	// It locks the directory for that moment, which may have got its name meanwhile.
	unborn sync.Mutex
}

// Open opens the state directory at path and makes what is missing of it, with
// mode 0700. The caller closes it.
//
// It refuses, with fault.PermissionDenied, a directory that belongs to someone
// else or that group or others may write in: who can write there can plant
// records, which are trusted and hold grants. A directory that others can only
// read is made private. What this does not stop is someone who may write in a
// directory above it, and who can put another directory of the same owner in its
// place for the next process.
func Open(path string) (*Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, openFailed(err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, openFailed(err)
	}
	d := &Dir{path: abs}
	if d.top, err = durable.Open(abs); err == nil {
		err = makePrivate(d.top)
	}
	if err == nil {
		d.sessions, err = part(d.top, sessionsName)
	}
	if err == nil {
		d.trash, err = part(d.top, trashName)
	}
	if err == nil {
		err = errors.Join(make1(d.top, snapshotsName), make1(d.top, runName))
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// make1 makes the part name of the state directory and lets it go.
func make1(top *durable.Dir, name string) error {
	p, err := part(top, name)
	if err != nil {
		return err
	}
	return p.Close()
}

// part opens a part of the state directory, made where it is missing.
func part(top *durable.Dir, name string) (*durable.Dir, error) {
	p, err := top.OpenDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = top.Mkdir(name); err == nil {
			p, err = top.OpenDir(name)
		}
	}
	if err != nil {
		return nil, openFailed(err)
	}
	if err := makePrivate(p); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// makePrivate refuses a directory that others control and closes one to readers.
func makePrivate(d *durable.Dir) error {
	fi, err := d.File().Stat()
	if err != nil {
		return openFailed(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(d.File().Fd()), &st); err != nil {
		return openFailed(err)
	}
	name := d.File().Name()
	if euid := os.Geteuid(); int(st.Uid) != euid {
		return unsafeDir(name, fmt.Sprintf("belongs to uid %d and not to uid %d, which runs croft: set CROFT_DIR to a directory of your own", st.Uid, euid))
	}
	perm := fi.Mode().Perm()
	if perm&0o022 != 0 {
		return unsafeDir(name, fmt.Sprintf("may be written by others (mode %04o): look at what is in it, then chmod 700", perm))
	}
	if perm&0o077 != 0 {
		if err := d.File().Chmod(0o700); err != nil {
			return openFailed(err)
		}
	}
	return nil
}

func unsafeDir(name, what string) error {
	return &fault.Error{Code: fault.PermissionDenied, Op: "open", Reason: "unsafe_state_dir", Retry: fault.RetryNo,
		Message: "the state directory " + filepath.Base(name) + " " + what}
}

func openFailed(cause error) error {
	return &fault.Error{Code: fault.NotAvailable, Op: "open", Reason: "state_dir", Err: cause,
		Message: "croft's state directory cannot be opened or made: set CROFT_DIR to a directory that you may write in"}
}

// Close lets the directory go. Locks that were taken stay.
func (d *Dir) Close() error {
	var errs []error
	for _, p := range []*durable.Dir{d.top, d.sessions, d.trash} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}

// Path returns the absolute path of the state directory.
func (d *Dir) Path() string { return d.path }

// SnapshotSpec returns the spec of a session's snapshot: what was asked for, named
// after the session where it has no name, and kept in croft's own directory, which is
// private, where it is a tar without a directory.
func (d *Dir) SnapshotSpec(asked *snapshot.Spec, id ID) snapshot.Spec {
	spec := asked.ForSession(id.String())
	if spec.Type == snapshot.Tar && spec.BasePath == "" {
		spec.BasePath = SnapshotDir(d.path)
	}
	return spec
}

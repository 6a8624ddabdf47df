package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/durable"
	"github.com/croftdev/croft/internal/fault"
)

// newPrefix begins the name of a session's directory that does not have its record yet.
const newPrefix = ".new-"

// Lock is a session that this process holds: the right to write its record, to
// start it and to move it away. It ends with [Lock.Release] or with the process,
// however that ends. It is not safe for use by several goroutines.
type Lock struct {
	d    *Dir
	id   ID
	dir  *durable.Dir // the session's directory
	file *os.File     // the locked file in it

	trashed string // the entry of the trash that the session has become
}

// NewSession makes the session's directory with its first record and returns it
// held. Other processes see the session whole or not at all; what a crash leaves
// of it is removed by [Dir.Sweep]. ID and Snapshot must be set; the version, the
// times and, where it is empty, the phase are filled in. The error is
// fault.StateCorrupt if there is a session of this id.
func (d *Dir) NewSession(rec Record) (*Lock, error) {
	rec.Created = time.Now().UTC()
	rec.Updated = rec.Created
	if rec.Phase == "" {
		rec.Phase = Created
	}
	data, err := rec.encode()
	if err != nil {
		return nil, err
	}
	for range newAttempts {
		l, err := d.newSession(rec.ID, data)
		switch {
		case err == nil:
			return l, nil
		case errors.Is(err, fs.ErrExist):
			return nil, &fault.Error{Code: fault.StateCorrupt, Op: "create", Reason: "id_in_use", Retry: fault.RetryNo,
				Message: "there is a session with the id " + rec.ID.String()}
		case !errors.Is(err, errSwept):
			return nil, writeFailed("create", rec.ID, err)
		}
	}
	return nil, writeFailed("create", rec.ID, errSwept)
}

// newAttempts bounds how often a new session is begun anew because a sweep met
// it before it was locked.
const newAttempts = 10

// errSwept says that a sweep took the new session's directory for a leftover.
var errSwept = errors.New("the new session was swept away")

func (d *Dir) newSession(id ID, record []byte) (*Lock, error) {
	temp := newPrefix + durable.RandomName()
	if err := d.sessions.Mkdir(temp); err != nil {
		return nil, err
	}
	dir, err := d.sessions.OpenDir(temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errSwept
	}
	if err != nil {
		_ = d.sessions.RemoveDir(temp)
		return nil, err
	}
	l := &Lock{d: d, id: id, dir: dir}
	if err := l.fillNew(temp, record); err != nil {
		l.discardNew(temp)
		return nil, err
	}
	return l, nil
}

// fillNew locks the new directory, writes its record and gives it its name.
func (l *Lock) fillNew(temp string, record []byte) error {
	// The directory is locked until it has its name, so that no sweep takes it for a
	// leftover; the lock file, so that the session is born held.
	made, got, err := l.dir.Lock()
	if err != nil {
		return err
	}
	if !got {
		return errSwept
	}
	defer made.Close()
	if same, err := l.d.sessions.SameAs(temp, l.dir); err != nil || !same {
		return errors.Join(err, errSwept)
	}
	// Nobody else can hold a lock in a directory that has no name yet.
	if _, err := l.take(); err != nil {
		return err
	}
	// The record needs no temporary name here: the directory itself has one.
	if err := l.dir.WriteNew(recordName, record); err != nil {
		return err
	}
	if err := l.d.sessions.RenameNew(temp, l.id.String()); err != nil {
		return err
	}
	if err := l.d.sessions.Sync(); err != nil {
		// It has its name, so it is not a leftover that a sweep would know.
		_, terr := l.Trash()
		return errors.Join(err, terr)
	}
	return nil
}

// discardNew removes a session that did not get its name. What cannot be removed
// now is left for the next sweep.
func (l *Lock) discardNew(temp string) {
	if same, err := l.d.sessions.SameAs(temp, l.dir); err == nil && same {
		for _, name := range []string{recordName, lockName} {
			_ = l.dir.Remove(name)
		}
		_ = l.d.sessions.RemoveDir(temp)
	}
	l.letGo()
}

// Lock takes the session for this process.
//
// The errors are fault.SessionNotFound, and fault.SessionBusy while another
// process, or another part of this one, holds it; the message and the detail
// "pid" name the holder. Leftovers of a killed writer are removed on the way.
func (d *Dir) Lock(id ID) (*Lock, error) {
	dir, err := d.openSession(id)
	if err != nil {
		return nil, err
	}
	l := &Lock{d: d, id: id, dir: dir}
	got, err := l.take()
	if err == nil && !got {
		holder := l.holder()
		l.letGo()
		return nil, busy(id, holder)
	}
	if err != nil {
		l.letGo()
		return nil, writeFailed("lock", id, err)
	}
	// The session may have gone to the trash between our look and our lock.
	same, err := d.sessions.SameAs(id.String(), dir)
	if err != nil || !same {
		l.letGo()
		if err != nil {
			return nil, writeFailed("lock", id, err)
		}
		return nil, notFound(id)
	}
	_, err = dir.RemoveLeftovers()
	if err = errors.Join(err, l.dropStages()); err != nil {
		_ = l.Release()
		return nil, writeFailed("lock", id, err)
	}
	return l, nil
}

// openSession opens the session's directory.
func (d *Dir) openSession(id ID) (*durable.Dir, error) {
	dir, err := d.sessions.OpenDir(id.String())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(id)
	}
	if err != nil {
		return nil, corrupt(id, "unreadable", "cannot be reached", err)
	}
	return dir, nil
}

// take locks the lock file and writes this process into it.
func (l *Lock) take() (bool, error) {
	f, err := l.dir.LockFile(lockName)
	if err != nil {
		return false, err
	}
	l.file = f
	got, err := durable.TryLock(f)
	if err != nil || !got {
		return false, err
	}
	// The holder's pid only serves the message of SessionBusy: it is not synced, and
	// a disk that is full does not keep anybody from the lock.
	if err := f.Truncate(0); err != nil && !errors.Is(err, unix.ENOSPC) {
		return false, err
	}
	_, _ = f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	return true, nil
}

// holder returns the pid that stands in the lock file, or 0.
func (l *Lock) holder() int {
	var buf [32]byte
	n, _ := l.file.ReadAt(buf[:], 0)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	return pid
}

// Load reads the record.
func (l *Lock) Load() (Record, error) { return load(l.id, l.dir) }

// Save replaces the record: when it returns nil, rec is on disk. After an error
// the old record is there, or, where only the directory could not be synced, the
// new one. The times and the version are filled in.
func (l *Lock) Save(rec Record) error {
	rec.Updated = time.Now().UTC()
	data, err := rec.encode()
	if err == nil {
		err = l.dir.WriteFile(recordName, data)
	}
	if err != nil {
		return writeFailed("save", l.id, err)
	}
	return nil
}

// ID returns the session's id.
func (l *Lock) ID() ID { return l.id }

// Dir returns the descriptor of the session's directory, which the lock goes on
// owning.
func (l *Lock) Dir() *os.File { return l.dir.File() }

// Path returns the path of the session's directory, for what must be given to
// others as a path.
func (l *Lock) Path() string {
	return filepath.Join(l.d.path, sessionsName, l.id.String())
}

// Release lets the session go. Calling it again does nothing.
func (l *Lock) Release() error {
	if l.file == nil {
		return nil
	}
	err := durable.Unlock(l.file)
	l.letGo()
	if err != nil {
		return fmt.Errorf("release session: %w", err)
	}
	return nil
}

func (l *Lock) letGo() {
	l.d.giveUp(l.trashed)
	if l.file != nil {
		_ = l.file.Close() // nothing in it must reach the disk
		l.file = nil
	}
	if l.dir != nil {
		_ = l.dir.Close()
		l.dir = nil
	}
}

func notFound(id ID) error {
	return &fault.Error{Code: fault.SessionNotFound, Op: "session", Retry: fault.RetryNo,
		Message: "there is no session " + id.String(), Details: map[string]any{"session_id": id.String()}}
}

func busy(id ID, pid int) error {
	who := "another process"
	details := map[string]any{"session_id": id.String()}
	if pid > 0 {
		who = "process " + strconv.Itoa(pid)
		details["pid"] = pid
	}
	return &fault.Error{Code: fault.SessionBusy, Op: "session", Retry: fault.RetryYes, Details: details,
		Message: "session " + id.String() + " is in use by " + who + "; try again when it has ended"}
}

// writeFailed is the error where the state directory cannot be written.
func writeFailed(op string, id ID, cause error) error {
	e := &fault.Error{Code: fault.NotAvailable, Op: op, Reason: "state_dir", Err: cause,
		Message: "croft's state on disk could not be changed", Details: map[string]any{"session_id": id.String()}}
	if errors.Is(cause, unix.ENOSPC) || errors.Is(cause, unix.EDQUOT) {
		e.Code, e.Reason, e.Retry = fault.LimitExceeded, "disk_full", fault.RetryYes
		e.Message = "there is no space left for croft's state: free some and try again"
	}
	return e
}

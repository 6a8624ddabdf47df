package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/croftdev/croft/internal/durable"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/tree"
	"github.com/croftdev/croft/snapshot"
)

// Trash takes the session away: in one rename it is gone for every observer. The
// bytes go with the next [Dir.Sweep], or now with [Dir.SweepEntry] and the name that
// is returned, and are found by a sweep after a crash at any moment. Until the lock is
// released, or SweepEntry has returned, the sweeps of this Dir leave the entry alone. The
// lock is still to be released.
func (l *Lock) Trash() (entry string, err error) {
	name := l.id.String() + "-" + durable.RandomName()
	l.d.take(name)
	l.trashed = name
	if err := l.d.sessions.Rename(l.id.String(), l.d.trash, name); err != nil {
		l.d.giveUp(name)
		if errors.Is(err, fs.ErrNotExist) {
			return "", notFound(l.id)
		}
		return "", writeFailed("delete", l.id, err)
	}
	return name, nil
}

// SweepEntry removes one entry of the trash, like [Dir.Sweep].
func (d *Dir) SweepEntry(ctx context.Context, entry string, progress func(tree.Progress)) error {
	defer d.giveUp(entry)
	d.afterUnborn()
	return sweepError(d.sweepEntry(ctx, entry, progress, &Swept{}))
}

// take keeps the sweeps of d away from an entry that is about to be put into the
// trash. A sweep in the background of a short program would else begin on it, make
// its SweepEntry find it busy and return, and be ended with the program.
func (d *Dir) take(entry string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.taken == nil {
		d.taken = make(map[string]bool)
	}
	d.taken[entry] = true
}

func (d *Dir) giveUp(entry string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.taken, entry)
}

func (d *Dir) isTaken(entry string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.taken[entry]
}

func sweepError(err error) error {
	if err == nil || fault.Canceled(err) {
		return err
	}
	return &fault.Error{Code: fault.NotAvailable, Op: "sweep", Reason: "trash", Err: err,
		Message: "some of what croft deleted is still on disk and will be tried again"}
}

// Swept says what a sweep did.
type Swept struct {
	// Entries counts what is gone from the trash, with Files and Dirs in it.
	Entries     int
	Files, Dirs int64
	// Busy counts entries that another sweep works on.
	Busy int
	// Snapshots counts saved workspaces that were removed for their age.
	Snapshots int
}

// Sweep removes what is to go: the trash, sessions whose creation was cut short,
// temporary files of writers that were killed, and tar snapshots in croft's own
// directory that no session names and that are older than [snapshot.MaxAge].
//
// Any number of sweeps may run at once, also in several processes: each entry is
// worked on by one. An entry that cannot be removed is left for the next sweep
// with all that could not go; the error names it, and the others are still done.
// When ctx ends, Sweep returns its error, and what is left stays for the next.
func (d *Dir) Sweep(ctx context.Context, progress func(tree.Progress)) (Swept, error) {
	var out Swept
	var errs []error
	errs = append(errs, d.dropUnborn())
	n, err := d.sweepSnapshots(ctx)
	out.Snapshots = n
	errs = append(errs, err)
	names, err := d.trash.Names()
	errs = append(errs, err)
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if d.isTaken(name) {
			out.Busy++
			continue
		}
		errs = append(errs, d.sweepEntry(ctx, name, progress, &out))
	}
	if err := ctx.Err(); err != nil {
		return out, err
	}
	return out, sweepError(errors.Join(errs...))
}

func (d *Dir) sweepEntry(ctx context.Context, name string, progress func(tree.Progress), out *Swept) error {
	entry, err := d.trash.OpenDir(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // another sweep was faster
	case err == nil:
		defer entry.Close()
		held, got, err := entry.Lock()
		if err != nil {
			return err
		}
		if !got {
			out.Busy++
			return nil
		}
		defer held.Close()
	}
	// What is no directory, or may not be opened, tree deals with as far as that goes.
	opts := tree.RemoveOptions{Options: tree.Options{Progress: progress}, Unlock: true}
	stats, err := tree.Remove(ctx, d.trash.File(), name, opts)
	out.Files += stats.Files
	out.Dirs += stats.Dirs
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("trash entry %s: %w", name, err)
	}
	out.Entries++
	return nil
}

// dropUnborn moves the directories of sessions whose creation was cut short to
// the trash. One that is being made is locked and left alone.
func (d *Dir) dropUnborn() error {
	names, err := d.sessions.Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if strings.HasPrefix(name, newPrefix) {
			errs = append(errs, d.dropIfUnborn(name))
		}
	}
	return errors.Join(errs...)
}

// afterUnborn waits until no sweep of d looks at a directory under the name it had
// before it was a session's. A short life can end within that moment; its directory
// would be found locked, taken for one that is being removed, and left in the trash.
func (d *Dir) afterUnborn() {
	d.unborn.Lock()
	defer d.unborn.Unlock()
}

func (d *Dir) dropIfUnborn(name string) error {
	d.unborn.Lock()
	defer d.unborn.Unlock()
	dir, err := d.sessions.OpenDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	held, got, err := dir.Lock()
	if err != nil || !got {
		return err
	}
	defer held.Close()
	// One that is being made and is not locked yet is empty. It goes here and now, and not
	// by the trash: its maker makes another and may end, and this sweep with it, before
	// the trash is swept.
	if d.sessions.RemoveDir(name) == nil {
		return nil
	}
	// It may have got its name and lost its lock since we opened it: then nothing has
	// the name any more.
	err = d.sessions.Rename(name, d.trash, name+"-"+durable.RandomName())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sweepSnapshots removes leftovers of killed saves and stale snapshots.
func (d *Dir) sweepSnapshots(ctx context.Context) (int, error) {
	dir, err := d.top.OpenDir(snapshotsName)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	if _, err := dir.RemoveLeftovers(); err != nil {
		return 0, err
	}
	sessions, err := d.List()
	if err != nil {
		return 0, err
	}
	used := map[string]bool{}
	for _, s := range sessions {
		if s.Err != nil {
			return 0, nil // nobody knows which snapshot it names: all stay
		}
		used[s.Record.Snapshot.ID] = true
	}
	return snapshot.RemoveStale(ctx, SnapshotDir(d.path), snapshot.MaxAge, time.Now(), func(id string) bool { return used[id] })
}

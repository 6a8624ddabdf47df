package state_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/state"
	"github.com/croftdev/croft/snapshot"
)

func trashed(t *testing.T, d *state.Dir, files int) {
	t.Helper()
	l := newSession(t, d)
	for i := range files {
		dir := filepath.Join(l.WorkspacePath(), fmt.Sprint("d", i%7))
		mkdir(t, dir, 0o755)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("f", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if i%7 == 3 { // a command made its directory read-only
			t.Cleanup(func() { os.Chmod(dir, 0o700) })
			if i > files-7 {
				mkdir(t, dir, 0o500)
			}
		}
	}
	if _, err := l.Trash(); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestSweepLeavesNothing(t *testing.T) {
	d := openState(t)
	for range 3 {
		trashed(t, d, 50)
	}
	kept := newSession(t, d)
	mkdir(t, filepath.Join(d.Path(), "sessions", ".new-0123456789abcdef"), 0o700)
	mkdir(t, filepath.Join(d.Path(), "sessions", ".new-empty"), 0o700) // goes without an entry in the trash
	for _, name := range []string{"sessions/.new-0123456789abcdef/session.json", "trash/plain", "snapshots/.croft-0123456789abcdef.tmp"} {
		if err := os.WriteFile(filepath.Join(d.Path(), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/", filepath.Join(d.Path(), "trash", "link")); err != nil {
		t.Fatal(err)
	}
	got, err := d.Sweep(t.Context(), nil)
	if err != nil || got.Entries != 6 || got.Files < 150 || got.Busy != 0 {
		t.Errorf("Sweep = %+v, %v, want 6 entries", got, err)
	}
	id := kept.ID().String()
	want := []string{"run", "sessions", "sessions/" + id, "sessions/" + id + "/lock", "sessions/" + id + "/session.json", "snapshots", "trash"}
	if got := below(t, d.Path()); !slices.Equal(got, want) {
		t.Errorf("left: %q\nwant %q", got, want)
	}
	if _, err := os.Stat("/"); err != nil {
		t.Errorf("what a link in the trash points to: %v", err)
	}
}

// What its holder has put into the trash is the holder's to remove: a sweep of the same
// program, which may be ended in the middle, leaves it alone.
func TestSweepLeavesWhatItsHolderRemoves(t *testing.T) {
	d := openState(t)
	l := newSession(t, d)
	entry, err := l.Trash()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.Sweep(t.Context(), nil); err != nil || got.Entries != 0 || got.Busy != 1 {
		t.Errorf("Sweep = %+v, %v, want one busy entry", got, err)
	}
	if err := d.SweepEntry(t.Context(), entry, nil); err != nil {
		t.Fatal(err)
	}
	if got := below(t, filepath.Join(d.Path(), "trash")); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
}

// Sweeps and creations at once, in several directories' handles as several crofts
// have them: each entry goes once, and no new session is taken for a leftover.
func TestSweepsAndCreationsAtOnce(t *testing.T) {
	d := openState(t)
	for range 20 {
		trashed(t, d, 10)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var mu sync.Mutex
	entries := 0
	for range 3 {
		other, err := state.Open(d.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		wg.Go(func() {
			for {
				got, err := other.Sweep(context.WithoutCancel(t.Context()), nil)
				if err != nil {
					t.Errorf("Sweep = %v", err)
				}
				mu.Lock()
				entries += got.Entries
				mu.Unlock()
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	const sessions = 60
	for range sessions {
		l, err := d.NewSession(newRecord())
		if err != nil {
			t.Errorf("NewSession beside sweeps = %v", err)
			continue
		}
		l.Release()
	}
	close(stop)
	wg.Wait()
	if _, err := d.Sweep(t.Context(), nil); err != nil {
		t.Errorf("last Sweep = %v", err)
	}
	if got, err := d.List(); err != nil || len(got) != sessions {
		t.Errorf("List = %d sessions, %v, want %d", len(got), err, sessions)
	}
	if got := below(t, filepath.Join(d.Path(), "trash")); len(got) > 0 {
		t.Errorf("trash: %q", got)
	}
	if entries < 20 {
		t.Errorf("%d entries were removed, want at least 20", entries)
	}
}

func TestSweepStopsWithItsContext(t *testing.T) {
	d := openState(t)
	trashed(t, d, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Sweep(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Sweep = %v, want context.Canceled", err)
	}
	if got, err := d.Sweep(t.Context(), nil); err != nil || got.Entries != 1 {
		t.Errorf("next Sweep = %+v, %v, want one entry", got, err)
	}
}

func TestSweepEntryLeavesTheOthers(t *testing.T) {
	d := openState(t)
	trashed(t, d, 3)
	l := newSession(t, d)
	name, err := l.Trash()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(name, l.ID().String()) {
		t.Errorf("the entry is called %q", name)
	}
	if err := d.SweepEntry(t.Context(), name, nil); err != nil {
		t.Errorf("SweepEntry = %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(d.Path(), "trash"))
	if err != nil || len(entries) != 1 || entries[0].Name() == name {
		t.Errorf("trash: %v, %v, want the other entry", entries, err)
	}
}

// What cannot be removed is named, and the rest is gone.
func TestSweepNamesWhatStays(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can make a file immutable")
	}
	d := openState(t)
	trashed(t, d, 3)
	l := newSession(t, d)
	mkdir(t, l.WorkspacePath(), 0o755)
	for _, name := range []string{"free", "stuck"} {
		if err := os.WriteFile(filepath.Join(l.WorkspacePath(), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name, err := l.Trash()
	if err != nil {
		t.Fatal(err)
	}
	stuck := filepath.Join(d.Path(), "trash", name, "workspace", "stuck")
	if err := setImmutable(stuck, true); err != nil {
		t.Skipf("needs a file system with immutable files: %v", err)
	}
	defer setImmutable(stuck, false)
	if err := l.Release(); err != nil { // from here on the entry is any sweep's
		t.Fatal(err)
	}
	got, err := d.Sweep(t.Context(), nil)
	if !errors.Is(err, fault.NotAvailable) || got.Entries != 1 {
		t.Errorf("Sweep = %+v, %v, want one entry and not_available", got, err)
	}
	if left := below(t, filepath.Join(d.Path(), "trash")); len(left) != 3 {
		t.Errorf("left: %q, want only the immutable file and what holds it", left)
	}
	if err := setImmutable(stuck, false); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Sweep(t.Context(), nil); err != nil || got.Entries != 1 {
		t.Errorf("next Sweep = %+v, %v", got, err)
	}
}

// Snapshots are kept while a session names them, or may name them.
func TestSweepOfSnapshots(t *testing.T) {
	d := openState(t)
	snapshots := filepath.Join(d.Path(), "snapshots")
	old := time.Now().Add(-snapshot.MaxAge - time.Hour)
	put := func(name string, when time.Time) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(snapshots, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(snapshots, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	put("used.tar", old)
	put("free.tar", old)
	put("young.tar", time.Now())
	rec := newRecord()
	rec.Snapshot = d.SnapshotSpec(&snapshot.Spec{Type: snapshot.Tar, ID: "used"}, rec.ID)
	l, err := d.NewSession(rec)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	record := filepath.Join(l.Path(), "session.json")
	data, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Sweep(t.Context(), nil); err != nil || got.Snapshots != 0 {
		t.Errorf("Sweep beside a damaged record = %+v, %v, want no snapshot removed", got, err)
	}
	if err := os.WriteFile(record, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Sweep(t.Context(), nil); err != nil || got.Snapshots != 1 {
		t.Errorf("Sweep = %+v, %v, want one snapshot removed", got, err)
	}
	if got := below(t, snapshots); !slices.Equal(got, []string{"used.tar", "young.tar"}) {
		t.Errorf("left: %q", got)
	}
}

package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/croftdev/croft/internal/durable"
)

// MaxAge is how long a tar snapshot stays that no session of the machine names
// any more: long enough for a program that paused last month and kept its state.
const MaxAge = 30 * 24 * time.Hour

// RemoveStale removes the tar snapshots in dir that were written before now minus
// maxAge and whose id inUse does not know, and returns how many. A negative
// maxAge removes nothing. Only regular files called *.tar count; a directory of
// that name, and every other file, stays (cases SS-065 to SS-072). A missing
// directory is no error; a file that cannot be removed does not stop the others.
func RemoveStale(ctx context.Context, dir string, maxAge time.Duration, now time.Time, inUse func(id string) bool) (int, error) {
	if maxAge < 0 {
		return 0, nil
	}
	d, err := durable.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer d.Close()
	names, err := d.Names()
	if err != nil {
		return 0, err
	}
	cutoff := now.Add(-maxAge)
	var errs []error
	n := 0
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		id, ok := strings.CutSuffix(name, tarSuffix)
		if !ok || inUse(id) {
			continue
		}
		gone, err := removeIfOlder(d, name, cutoff)
		if err != nil {
			errs = append(errs, err)
		}
		if gone {
			n++
		}
	}
	return n, errors.Join(errs...)
}

func removeIfOlder(d *durable.Dir, name string, cutoff time.Time) (bool, error) {
	f, err := d.OpenFile(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.ModTime().Before(cutoff) {
		return false, err
	}
	err = d.Remove(name)
	return err == nil, err
}

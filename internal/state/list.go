package state

import (
	"errors"
	"slices"
	"strings"

	"github.com/croftdev/croft/internal/durable"
	"github.com/croftdev/croft/internal/fault"
)

// Listed is one session of a listing: its record, or the error of reading it.
type Listed struct {
	ID     ID
	Record Record
	Err    error
}

// Load reads the record of a session without holding it: it may be about to
// change. The errors are fault.SessionNotFound and fault.StateCorrupt.
func (d *Dir) Load(id ID) (Record, error) {
	dir, err := d.openSession(id)
	if err != nil {
		return Record{}, err
	}
	defer dir.Close()
	return load(id, dir)
}

func load(id ID, dir *durable.Dir) (Record, error) {
	data, err := dir.ReadFile(recordName, maxRecord)
	if err != nil {
		return Record{}, corrupt(id, "unreadable", "cannot be read", err)
	}
	return decode(id, data)
}

// List returns every session, oldest first, those whose record cannot be read
// last. A session that ends meanwhile is there or not.
func (d *Dir) List() ([]Listed, error) {
	names, err := d.sessions.Names()
	if err != nil {
		return nil, openFailed(err)
	}
	var out []Listed
	for _, name := range names {
		id, err := ParseID(name)
		if err != nil || id.String() != name {
			continue // a session that is being made, or nothing of croft's
		}
		rec, err := d.Load(id)
		if err != nil {
			// One that went to the trash while it was being read is not found again.
			rec, err = d.Load(id)
		}
		if errors.Is(err, fault.SessionNotFound) {
			continue
		}
		out = append(out, Listed{ID: id, Record: rec, Err: err})
	}
	slices.SortFunc(out, func(a, b Listed) int {
		if (a.Err == nil) != (b.Err == nil) {
			if a.Err == nil {
				return -1
			}
			return 1
		}
		if c := a.Record.Created.Compare(b.Record.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID.String(), b.ID.String())
	})
	return out, nil
}

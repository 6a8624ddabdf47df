package snapshot

import (
	"context"
	"io"

	"github.com/croftdev/croft/internal/fault"
)

// Store keeps the saved workspace that one [Spec] names. Its methods may be
// called by several goroutines and processes at once; of two saves at the same
// time one wins, whole.
type Store interface {
	// Restorable reports whether there is something to restore.
	Restorable(ctx context.Context) (bool, error)

	// Persist saves the stream that pack writes. Either all of it is saved, replaces
	// what was saved before and is on disk when Persist returns nil, or nothing has
	// changed and no trace of the attempt is left. An error of pack, and the end of
	// ctx, abandon the save; pack must itself return soon when ctx ends. Errors are
	// fault.SnapshotPersistError; a context that ended is returned as it is.
	Persist(ctx context.Context, pack func(w io.Writer) error) error

	// Restore opens what was saved last; the caller closes it. A save that replaces
	// it meanwhile does not change what the stream gives. Errors are
	// fault.SnapshotRestoreError, and fault.SnapshotNotRestorable from a store that
	// keeps nothing.
	Restore(ctx context.Context) (io.ReadCloser, error)

	// Remove removes what was saved; that nothing was saved is no error.
	Remove(ctx context.Context) error
}

// Open returns the store for spec. It touches nothing on disk. The error is
// fault.InvalidArgument for an ID that cannot name a file, and fault.Unsupported
// for a kind that cannot be opened.
func Open(spec Spec) (Store, error) {
	switch spec.Type {
	case None:
		return noneStore{id: spec.ID}, nil
	case Tar:
		name, err := FileName(spec.ID)
		if err != nil {
			return nil, err
		}
		if spec.BasePath == "" {
			return nil, invalid("snapshot of type `local` needs a directory (base_path)", nil)
		}
		return tarStore{id: spec.ID, base: spec.BasePath, name: name}, nil
	case Remote:
		return nil, &fault.Error{Code: fault.Unsupported, Op: "snapshot", Retry: fault.RetryNo,
			Message: "snapshots of type `remote` are not supported yet: use local or noop"}
	default:
		return nil, unknownKind(spec.Type)
	}
}

// noneStore is the kind None.
type noneStore struct{ id string }

func (noneStore) Restorable(context.Context) (bool, error)             { return false, nil }
func (noneStore) Persist(context.Context, func(io.Writer) error) error { return nil }
func (noneStore) Remove(context.Context) error                         { return nil }

func (s noneStore) Restore(context.Context) (io.ReadCloser, error) {
	return nil, &fault.Error{Code: fault.SnapshotNotRestorable, Op: "restore", Retry: fault.RetryNo,
		Message: "this session saves no workspace (snapshot type noop)",
		Details: map[string]any{"snapshot_id": s.id}}
}

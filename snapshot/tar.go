package snapshot

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/croftdev/croft/internal/durable"
	"github.com/croftdev/croft/internal/fault"
)

const tarSuffix = ".tar"

// FileName returns the name of the file that keeps the tar snapshot with this id.
//
// The id must be a single path segment on every system, so that no id, also one
// from a serialized state, leads out of the directory: not empty, "." or "..",
// without "/", "\", NUL, and without a drive such as "c:" in front; everything
// else is kept as it is (cases SS-001 to SS-028). Else the error is
// fault.InvalidArgument.
func FileName(id string) (string, error) {
	drive := len(id) >= 2 && id[1] == ':' && isLetter(id[0])
	if id == "" || id == "." || id == ".." || drive || strings.ContainsAny(id, "/\\\x00") {
		return "", invalid("snapshot id must be a single path segment", nil)
	}
	return id + tarSuffix, nil
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// tarStore is the kind Tar: the file <id>.tar in base.
type tarStore struct {
	id, base, name string
}

func (s tarStore) Restorable(context.Context) (bool, error) {
	f, err := s.open()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotRegular) {
		return false, nil
	}
	if err != nil {
		return false, s.fail(fault.SnapshotRestoreError, "restore", "the saved workspace cannot be looked at", err)
	}
	return true, f.Close()
}

func (s tarStore) Restore(context.Context) (io.ReadCloser, error) {
	f, err := s.open()
	if err != nil {
		return nil, s.fail(fault.SnapshotRestoreError, "restore", "the saved workspace cannot be opened", err)
	}
	return f, nil
}

func (s tarStore) open() (*os.File, error) {
	dir, err := durable.Open(s.base)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.OpenFile(s.name)
}

func (s tarStore) Persist(ctx context.Context, pack func(io.Writer) error) error {
	err := s.persist(ctx, pack)
	if err == nil || fault.Canceled(err) {
		return err
	}
	return s.fail(fault.SnapshotPersistError, "persist", "the workspace could not be saved", err)
}

func (s tarStore) persist(ctx context.Context, pack func(io.Writer) error) error {
	if err := os.MkdirAll(s.base, 0o700); err != nil {
		return err
	}
	dir, err := durable.Open(s.base)
	if err != nil {
		return err
	}
	defer dir.Close()
	// A writer that was killed left its file; its space is needed now, if ever.
	if _, err := dir.RemoveLeftovers(); err != nil {
		return err
	}
	w, err := dir.NewFile()
	if err != nil {
		return err
	}
	defer w.Discard()
	if err := pack(w); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.Commit(s.name)
}

func (s tarStore) Remove(context.Context) error {
	dir, err := durable.Open(s.base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		defer dir.Close()
		if err = dir.Remove(s.name); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err == nil {
		err = dir.Sync()
	}
	if err != nil {
		return s.fail(fault.SnapshotPersistError, "remove", "the saved workspace cannot be removed", err)
	}
	return nil
}

func (s tarStore) fail(code fault.Code, op, message string, cause error) error {
	return &fault.Error{Code: code, Op: op, Message: message, Err: cause,
		Details: map[string]any{"snapshot_id": s.id}}
}

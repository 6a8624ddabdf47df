package root

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
)

// Operations, as errors and events name them.
const (
	opRead     = "read"
	opWrite    = "write"
	opAppend   = "append"
	opList     = "list"
	opStat     = "stat"
	opLstat    = "lstat"
	opMkdir    = "mkdir"
	opRemove   = "remove"
	opRename   = "rename"
	opCopy     = "copy"
	opSymlink  = "symlink"
	opReadlink = "readlink"
	opChmod    = "chmod"
	opResolve  = "resolve"
)

// reading reports whether an operation changes nothing.
func reading(op string) bool {
	switch op {
	case opRead, opList, opStat, opLstat, opReadlink, opResolve:
		return true
	}
	return false
}

// causes gives each kernel error that a user can do something about a stable word
// and a sentence. Errors that are not listed have neither.
var causes = []struct {
	err             error
	reason, message string
}{
	{unix.ENOENT, "missing", "a directory on the way does not exist"},
	{unix.EACCES, "permission", "permission denied"},
	{unix.EPERM, "permission", "operation not permitted"},
	{unix.EISDIR, "is_directory", "it is a directory"},
	{unix.ENOTDIR, "not_directory", "a component of the name is not a directory"},
	{unix.EEXIST, "exists", "something by that name exists already"},
	{unix.ENOTEMPTY, "not_empty", "the directory is not empty; remove it recursively"},
	{unix.ELOOP, "link_loop", "too many links follow on each other"},
	{unix.ENAMETOOLONG, "name_too_long", "a component of the name is too long"},
	{unix.EXDEV, "cross_device", "the two names lie on different file systems; copy and remove instead"},
	{unix.ENOSPC, "no_space", "no space left on the file system"},
	{unix.EDQUOT, "no_space", "the disk quota is used up"},
	{unix.EFBIG, "too_large", "the file would become too large"},
	{unix.EROFS, "read_only_file_system", "the file system is read-only"},
	{unix.EBUSY, "busy", "something uses the entry, such as a mount"},
	{unix.ETXTBSY, "busy", "the file is a program that runs"},
	{unix.EMFILE, "too_many_open_files", "too many files are open in this process"},
	{unix.ENFILE, "too_many_open_files", "too many files are open on this machine"},
	{errNotRegular, "not_regular", "it is neither a regular file nor a directory"},
	{errNotLink, "not_link", "it is not a link"},
	{errHoldsGrant, "holds_grant", "the directory holds the root of a grant"},
	{errIsRoot, "is_root", "the root of the workspace or of a grant cannot be moved or replaced"},
	{errIntoItself, "into_itself", "a directory cannot be put into itself"},
	{errSwapped, "swapped", "the name changed again and again during the operation"},
}

var (
	errNotLink    = errors.New("not a link")
	errIntoItself = errors.New("the new name lies in the directory itself")
	// errMissing is a missing entry where a missing directory on the way would be
	// another error.
	errMissing = errors.New("no such file or directory")
)

// fail makes the error of an operation on the name pl. With reading the code is
// that of a failed read, and something missing is not found; a change says that
// something is not found only by errMissing.
func (t *Tree) fail(op string, pl place, reading bool, err error) error {
	return t.failAt(op, pl, nil, reading, err)
}

func (t *Tree) failAt(op string, pl place, s *spot, reading bool, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return withOp(op, err)
	}
	switch {
	case errors.Is(err, errEscape):
		return escapeError(op, pl.text, pl.abs)
	case errors.Is(err, errVoidGrant):
		return voidError(op, t.void().Path, pl.text)
	}
	e := &fault.Error{Code: fault.WorkspaceArchiveWriteError, Op: op, Path: t.shown(pl), Err: err,
		Details: map[string]any{"path": t.shown(pl)}}
	if s != nil && s.host != "" {
		e.Details["path"] = t.display(s.host)
	}
	if reading {
		e.Code = fault.WorkspaceArchiveReadError
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		e.Reason, e.Message, e.Retry = "cancelled", "the operation was cancelled", fault.RetryYes
		return e
	}
	if errors.Is(err, errMissing) || reading && errors.Is(err, unix.ENOENT) {
		e.Code, e.Reason, e.Message, e.Retry = fault.WorkspaceReadNotFound, "missing", "no such file or directory", fault.RetryNo
		return e
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			e.Reason, e.Message = c.reason, c.message
			break
		}
	}
	if errors.Is(err, errSwapped) {
		e.Retry = fault.RetryYes
	}
	return e
}

// withOp adds the operation to an error that was made without it.
func withOp(op string, err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Op == "" {
		e.Op = op
	}
	return err
}

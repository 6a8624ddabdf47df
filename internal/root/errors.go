package root

import (
	"errors"

	"github.com/croftdev/croft/internal/fault"
)

// escapeError says that a name leads, or would lead, outside all roots. The words
// are the same whatever lies there: nobody shall learn from croft what exists
// outside.
func escapeError(op, text string, abs bool) error {
	reason, message := "escape_root", "the name leads out of the workspace"
	if abs {
		reason, message = "absolute", "the path is neither in the workspace nor in a grant"
	}
	return &fault.Error{Code: fault.InvalidManifestPath, Op: op, Path: text, Reason: reason, Message: message,
		Retry: fault.RetryNo, Details: map[string]any{"rel": text}}
}

// readOnlyError refuses a change below a read-only grant. Where is the place that
// would have been changed.
func readOnlyError(op, grant, text, where string) error {
	return &fault.Error{Code: fault.WorkspaceArchiveWriteError, Op: op, Path: text, Reason: "read_only_extra_path_grant",
		Message: "the path lies in a grant that is read-only", Retry: fault.RetryNo,
		Details: map[string]any{"grant_path": grant, "path": where}}
}

// voidError refuses a name below a grant that leads to the file system's root.
func voidError(op, grant, text string) error {
	return &fault.Error{Code: fault.InvalidArgument, Op: op, Path: text, Reason: "filesystem_root", Retry: fault.RetryNo,
		Message: "a grant leads to the file system's root, and so grants nothing; grant a directory below it",
		Details: map[string]any{"grant_path": grant, "rel": text}}
}

// closedError says that the tree has been closed.
func closedError(op string) error {
	return &fault.Error{Code: fault.NotAvailable, Op: op, Reason: "closed", Retry: fault.RetryNo,
		Message: "the workspace has been closed"}
}

// Reasons of failed operations that are croft's own and not the kernel's.
var (
	errNotRegular = errors.New("not a regular file")
	errHoldsGrant = errors.New("a grant's directory lies there")
	errIsRoot     = errors.New("it is the root of the workspace or of a grant")
	errSwapped    = errors.New("the name changed again and again during the operation")
)

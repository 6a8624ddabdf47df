package croft

import "github.com/croftdev/croft/internal/fault"

// Error is the one error type of croft: a stable code, the operation, the
// workspace-relative name, a reason, structured details, whether a retry can
// help, and the cause. Every error that a method of this package returns is or
// wraps one, except the error of a context that ended, which is returned so that
// errors.Is(err, context.Canceled) holds.
type Error = fault.Error

// Code names a kind of failure. It is an error itself: errors.Is(err, croft.SessionBusy).
// doc/errors.md explains each.
type Code = fault.Code

// Retry tells whether the same call may succeed later: unknown, yes or no.
type Retry = fault.Retry

// The answers of [Error].Retry.
const (
	RetryUnknown = fault.RetryUnknown
	RetryYes     = fault.RetryYes
	RetryNo      = fault.RetryNo
)

// The codes that callers of this package branch on most. All of them, with what
// to do, stand in doc/errors.md; their texts are stable.
const (
	InvalidArgument            = fault.InvalidArgument
	InvalidManifestPath        = fault.InvalidManifestPath
	NotAvailable               = fault.NotAvailable
	Unsupported                = fault.Unsupported
	ConfinementUnavailable     = fault.ConfinementUnavailable
	LimitExceeded              = fault.LimitExceeded
	SessionNotFound            = fault.SessionNotFound
	SessionBusy                = fault.SessionBusy
	EventSinkError             = fault.EventSinkError
	StateCorrupt               = fault.StateCorrupt
	ExecNonzero                = fault.ExecNonzero
	ExecTimeout                = fault.ExecTimeout
	ExecTransportError         = fault.ExecTransportError
	ExposedPortUnavailable     = fault.ExposedPortUnavailable
	WorkspaceReadNotFound      = fault.WorkspaceReadNotFound
	WorkspaceArchiveReadError  = fault.WorkspaceArchiveReadError
	WorkspaceArchiveWriteError = fault.WorkspaceArchiveWriteError
	WorkspaceStartError        = fault.WorkspaceStartError
	WorkspaceStopError         = fault.WorkspaceStopError
	WorkspaceRootNotFound      = fault.WorkspaceRootNotFound
	SnapshotPersistError       = fault.SnapshotPersistError
	SnapshotRestoreError       = fault.SnapshotRestoreError
	SnapshotNotRestorable      = fault.SnapshotNotRestorable
)

// CodeOf returns the code of the first [*Error] in err's chain, or "" if there is none.
func CodeOf(err error) Code { return fault.CodeOf(err) }

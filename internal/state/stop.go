package state

import (
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/snapshot"
)

// StopStep is one thing that a stop does.
type StopStep string

// The steps of a stop, in their order.
const (
	EndProcesses    StopStep = "end_processes" // every command and its descendants
	TakeFingerprint StopStep = "fingerprint"   // begin the fingerprint of what is saved
	Archive         StopStep = "archive"       // pack the workspace and save the stream
	CloseArchive    StopStep = "close_archive" // also after a failure
)

// DecideStop returns the steps of a stop (cases SS-106 to SS-110). A session that
// keeps no snapshot only ends its processes, and its fingerprint stays as it is.
func DecideStop(spec snapshot.Spec) []StopStep {
	if !spec.Durable() {
		return []StopStep{EndProcesses}
	}
	return []StopStep{EndProcesses, TakeFingerprint, Archive, CloseArchive}
}

// Saved says how the saving part of a stop ended.
type Saved struct {
	// Live is the fingerprint of what was saved; nil if it could not be taken, which
	// does not fail the stop.
	Live *snapshot.Fingerprint
	// Err is the error of the save; nil if it succeeded.
	Err error
}

// Fingerprint returns what the record holds after the stop: after a save the
// fingerprint of what was saved, or none; after a failed one what it held before,
// because the older snapshot is still the one there.
func (s Saved) Fingerprint(before *snapshot.Fingerprint) *snapshot.Fingerprint {
	if s.Err != nil {
		return before
	}
	return s.Live
}

// StopError returns the error of a stop whose step failed with cause:
// fault.WorkspaceStopError around it. A context that ended is returned as it is.
func StopError(id ID, cause error) error {
	if cause == nil || fault.Canceled(cause) {
		return cause
	}
	return &fault.Error{Code: fault.WorkspaceStopError, Op: "stop", Err: cause,
		Message: "the workspace was not saved; it is kept on disk",
		Details: map[string]any{"session_id": id.String()}}
}

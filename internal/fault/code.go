package fault

// Code is a stable name for a kind of failure. It is an error itself, so that
// errors.Is(err, code) asks whether err is of that kind. doc/errors.md says for
// each when it occurs and what to do.
type Code string

// Error returns the code's name.
func (c Code) Error() string { return string(c) }

// The codes that the field already uses; clients map them one to one.
const (
	InvalidManifestPath        Code = "invalid_manifest_path"
	InvalidCompressionScheme   Code = "invalid_compression_scheme"
	ExposedPortUnavailable     Code = "exposed_port_unavailable"
	ExecNonzero                Code = "exec_nonzero"
	ExecTimeout                Code = "exec_timeout"
	ExecTransportError         Code = "exec_transport_error"
	PTYSessionNotFound         Code = "pty_session_not_found"
	ApplyPatchInvalidPath      Code = "apply_patch_invalid_path"
	ApplyPatchInvalidDiff      Code = "apply_patch_invalid_diff"
	ApplyPatchFileNotFound     Code = "apply_patch_file_not_found"
	ApplyPatchDecodeError      Code = "apply_patch_decode_error"
	WorkspaceReadNotFound      Code = "workspace_read_not_found"
	WorkspaceArchiveReadError  Code = "workspace_archive_read_error"
	WorkspaceArchiveWriteError Code = "workspace_archive_write_error"
	WorkspaceWriteTypeError    Code = "workspace_write_type_error"
	WorkspaceStopError         Code = "workspace_stop_error"
	WorkspaceStartError        Code = "workspace_start_error"
	WorkspaceRootNotFound      Code = "workspace_root_not_found"
	LocalFileReadError         Code = "local_file_read_error"
	LocalDirReadError          Code = "local_dir_read_error"
	LocalChecksumError         Code = "local_checksum_error"
	GitMissingInImage          Code = "git_missing_in_image"
	GitCloneError              Code = "git_clone_error"
	GitSubpathError            Code = "git_subpath_error"
	GitCopyError               Code = "git_copy_error"
	MountMissingTool           Code = "mount_missing_tool"
	MountFailed                Code = "mount_failed"
	MountConfigInvalid         Code = "mount_config_invalid"
	SkillsConfigInvalid        Code = "skills_config_invalid"
	SandboxConfigInvalid       Code = "sandbox_config_invalid"
	SnapshotPersistError       Code = "snapshot_persist_error"
	SnapshotRestoreError       Code = "snapshot_restore_error"
	SnapshotNotRestorable      Code = "snapshot_not_restorable"
)

// croft's own codes.
const (
	InvalidArgument        Code = "invalid_argument"
	NotAvailable           Code = "not_available"
	Unsupported            Code = "unsupported"
	ConfinementUnavailable Code = "confinement_unavailable"
	LimitExceeded          Code = "limit_exceeded"
	SessionNotFound        Code = "session_not_found"
	SessionBusy            Code = "session_busy"
	EventSinkError         Code = "event_sink_error"
	// StateCorrupt: a record on croft's own disk cannot be read or is of an unknown version.
	StateCorrupt Code = "state_corrupt"
	// PermissionDenied: the kernel refused the operation to the user it was done for,
	// where no code of the field fits better.
	PermissionDenied Code = "permission_denied"
)

// Codes returns every code, in the order of their declaration.
func Codes() []Code {
	return []Code{
		InvalidManifestPath, InvalidCompressionScheme, ExposedPortUnavailable, ExecNonzero, ExecTimeout,
		ExecTransportError, PTYSessionNotFound, ApplyPatchInvalidPath, ApplyPatchInvalidDiff,
		ApplyPatchFileNotFound, ApplyPatchDecodeError, WorkspaceReadNotFound, WorkspaceArchiveReadError,
		WorkspaceArchiveWriteError, WorkspaceWriteTypeError, WorkspaceStopError, WorkspaceStartError,
		WorkspaceRootNotFound, LocalFileReadError, LocalDirReadError, LocalChecksumError, GitMissingInImage,
		GitCloneError, GitSubpathError, GitCopyError, MountMissingTool, MountFailed, MountConfigInvalid,
		SkillsConfigInvalid, SandboxConfigInvalid, SnapshotPersistError, SnapshotRestoreError,
		SnapshotNotRestorable,
		InvalidArgument, NotAvailable, Unsupported, ConfinementUnavailable, LimitExceeded, SessionNotFound,
		SessionBusy, EventSinkError, StateCorrupt, PermissionDenied,
	}
}

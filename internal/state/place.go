package state

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/croftdev/croft/internal/fault"
)

// The names below the state directory.
const (
	sessionsName  = "sessions"
	snapshotsName = "snapshots"
	trashName     = "trash"
	runName       = "run"
)

// The names in a session's directory.
const (
	recordName    = "session.json"
	lockName      = "lock"
	WorkspaceName = "workspace"
	EventsName    = "events.jsonl"
	LogsName      = "logs"
)

// Host is what the place of the state directory depends on.
type Host struct {
	GOOS string
	Home string
	Env  func(name string) string
}

// ThisHost returns the host this process runs on.
func ThisHost() Host {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	return Host{GOOS: runtime.GOOS, Home: home, Env: os.Getenv}
}

// StateDir returns where croft's state lies unless the program says otherwise:
// $CROFT_DIR, else $XDG_STATE_HOME/croft (XDG Base Directory Specification: an
// empty or relative value is ignored), else ~/.local/state/croft, and on macOS
// ~/Library/Application Support/croft. The error is fault.InvalidArgument where
// neither names a place.
func (h Host) StateDir() (string, error) {
	if dir := h.Env("CROFT_DIR"); dir != "" {
		return filepath.Clean(dir), nil
	}
	var base string
	switch xdg := h.Env("XDG_STATE_HOME"); {
	case h.GOOS == "darwin" && h.Home != "":
		base = filepath.Join(h.Home, "Library", "Application Support")
	case filepath.IsAbs(xdg):
		base = xdg
	case h.Home != "":
		base = filepath.Join(h.Home, ".local", "state")
	default:
		return "", &fault.Error{Code: fault.InvalidArgument, Op: "open", Reason: "no_state_dir", Retry: fault.RetryNo,
			Message: "there is no place for croft's state: set CROFT_DIR or HOME"}
	}
	return filepath.Join(base, "croft"), nil
}

// SnapshotDir returns where the saved workspaces lie in the state directory dir.
func SnapshotDir(dir string) string { return filepath.Join(dir, snapshotsName) }

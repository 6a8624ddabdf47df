package confine

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/croftdev/croft/policy"
)

// ErrLost is wrapped by the error of a call whose answer was lost because the
// session's warden ended.
var ErrLost = errors.New("the session's warden has ended")

// Spec says what the commands of one session may see.
type Spec struct {
	// SessionID names the session in errors.
	SessionID string
	// Policy is applied as a whole or Start fails. See its fields for the defaults.
	Policy policy.Policy
	// Workspace is the session's workspace. Target is where commands see it on the
	// namespaces tier: the same path for a caller's root, else what the manifest
	// says. The tier none shows it at Path.
	Workspace Bind
	// Owned tells that the workspace is croft's own. For root it then has to belong to
	// UID already. False: a caller's root, whose owners on disk do not change.
	Owned bool
	// Grants are host paths that commands see beside the workspace, each at its own
	// path unless Target says otherwise. One may lie inside the workspace.
	Grants []Bind
	// PrivateHome makes HOME an empty directory that ends with the cell. False: HOME
	// is the workspace.
	PrivateHome bool
	// UID is the host uid, and gid, that commands run under if this process is root:
	// see [ChooseUID]. It is ignored for an ordinary user, whose commands run under his
	// own uid.
	UID int
	// Hidden are absolute canonical host directories that commands never see, wherever they
	// would lie below what they do see: an empty directory of the cell's own is there
	// instead. The tier none hides nothing.
	Hidden []string
	// SearchPath is the PATH whose toolchains commands may read. Empty: this process's.
	SearchPath string
}

// Bind is one host file or directory that commands see.
type Bind struct {
	// Path is its absolute canonical path on the host.
	Path string
	// Dir is the same, held open: what commands see is this very inode, or Start fails.
	// Start does not keep it. Nil: whatever Path names at the start.
	Dir *os.File
	// Target is the absolute path at which commands see it. Empty: Path. It is cleaned
	// lexically.
	Target string
	// ReadOnly keeps commands from changing it.
	ReadOnly bool
}

func (b Bind) target() string {
	if b.Target != "" {
		return filepath.Clean(b.Target)
	}
	return b.Path
}

// IsRoot reports whether commands of this process get a uid of their own: its
// effective user is root, and its user namespace maps more uids than that one. Root
// in a rootless container that maps only itself counts as an ordinary user.
func IsRoot() bool { return isRoot() }

// ChooseUID returns a host uid, free to serve as a gid too, for a new session of
// root. It lies in a high range that no distribution assigns and that the user
// namespace of this process maps, at random, so that two sessions do not share one. The
// caller records it: the files of the session belong to it.
func ChooseUID() (int, error) { return chooseUID() }

// Root returns the workspace's path as commands see it.
func (c *Cell) Root() string { return c.setup.Root }

// Home returns the commands' HOME.
func (c *Cell) Home() string {
	if c.ready.Home != "" {
		return c.ready.Home
	}
	return c.setup.Home
}

// User returns the name of the user that commands run as.
func (c *Cell) User() string { return c.setup.User.Name }

// SearchPath returns the PATH for commands: the directories of Spec.SearchPath that
// they can see, and the system's.
func (c *Cell) SearchPath() string { return c.setup.SearchPath }

// Receipt returns what is in force, as it was read back when the cell started.
func (c *Cell) Receipt() policy.Receipt { return c.ready.Receipt }

// Pid returns the warden's process id on the host, for the session's record.
func (c *Cell) Pid() int { return c.pid }

// StartTime returns the warden's start time as /proc/PID/stat tells it (field 22,
// see proc_pid_stat(5)). Together with Pid it names the process for good.
func (c *Cell) StartTime() uint64 { return c.startTime }

// Done is closed when the warden has ended and with it everything in the cell.
func (c *Cell) Done() <-chan struct{} { return c.done }

// Close ends the cell: everything in it is killed. It returns when no process, mount
// or socket of it is left, with nil also if the cell had ended before. If ctx ends
// first, the killing goes on and ctx's error is returned.
func (c *Cell) Close(ctx context.Context) error { return c.close(ctx) }

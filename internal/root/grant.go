package root

import (
	"path"
	"strings"

	"github.com/croftdev/croft/internal/fault"
)

// Grant is access to one host path outside the workspace. It has the fields of the
// manifest's grant, so that one converts to the other; what a manifest can say and
// what a workspace is opened with may part one day.
type Grant struct {
	// Path is the absolute path, never "/": at which commands see it, and where it
	// lies on the host unless HostPath says otherwise.
	Path string
	// ReadOnly forbids writing there.
	ReadOnly bool
	// Description is for the agent; empty means none.
	Description string
	// HostPath is another host path that is to appear at Path, or empty. [Open]
	// refuses it: not supported yet.
	HostPath string
}

// ParseGrant checks a grant and returns it with its paths cleaned. It looks at the
// text alone. Path must be absolute and not the file system's root; HostPath, if
// set, must be absolute too and hold no "..". Errors are fault.InvalidArgument.
func ParseGrant(g Grant) (Grant, error) {
	p := posix(g.Path)
	switch {
	case g.Path == "" || drive(p) || !strings.HasPrefix(p, "/"):
		return Grant{}, grantError(g, "not_absolute", "the path of a grant must be absolute")
	case path.Clean(p) == "/":
		return Grant{}, grantError(g, "filesystem_root", "a grant must not be the file system's root")
	case strings.HasPrefix(p, "//"):
		return Grant{}, grantError(g, "not_absolute", "the path of a grant must begin with a single slash")
	}
	g.Path = path.Clean(p)
	if g.HostPath == "" {
		return g, nil
	}
	h := posix(g.HostPath)
	switch {
	case strings.HasPrefix(h, "//"):
		return Grant{}, grantError(g, "unc_path", "the host path of a grant must not be a UNC or device path")
	case drive(h) || !strings.HasPrefix(h, "/"):
		return Grant{}, grantError(g, "not_absolute", "the host path of a grant must be absolute")
	case strings.Contains(h+"/", "/../"):
		return Grant{}, grantError(g, "parent_segment", "the host path of a grant must not contain parent segments")
	case h == "/":
		return Grant{}, grantError(g, "filesystem_root", "a grant must not be the file system's root")
	}
	g.HostPath = h
	return g, nil
}

func grantError(g Grant, reason, message string) error {
	return &fault.Error{Code: fault.InvalidArgument, Reason: reason, Message: message, Retry: fault.RetryNo,
		Details: map[string]any{"grant_path": g.Path}}
}

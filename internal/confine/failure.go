package confine

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/croftdev/croft/internal/fault"
)

// step names what a helper was doing when it failed.
type step string

const (
	stepSetup      step = "setup"      // reading what to do
	stepFork       step = "fork"       // clone with namespaces, or executing the helper in them
	stepHelper     step = "helper"     // executing or telling the helper
	stepBind       step = "bind"       // cloning a mount of a host path
	stepIdentity   step = "identity"   // a host path is not what it was
	stepIDMap      step = "idmap"      // mapping owners on a mount
	stepRoot       step = "root"       // making the root file system
	stepAttach     step = "attach"     // putting something into it
	stepProc       step = "proc"       // a fresh /proc
	stepPivot      step = "pivot"      // entering the root file system
	stepProtect    step = "protect"    // making a protected name read-only
	stepNetwork    step = "network"    // loopback interface
	stepPrivileges step = "privileges" // dropping capabilities, no_new_privs
	stepLandlock   step = "landlock"   // the landlock domain
	stepSeccomp    step = "seccomp"    // the system call filter
	stepReceipt    step = "receipt"    // what the kernel says is not what was meant
)

// failure is why a helper could not make a cell. It travels as JSON.
type failure struct {
	Step  step          `json:"step"`
	Path  string        `json:"path,omitempty"`
	Errno syscall.Errno `json:"errno,omitempty"`
	Text  string        `json:"text,omitempty"`
}

// Error says what failed.
func (f *failure) Error() string {
	s := string(f.Step)
	if f.Path != "" {
		s += " " + f.Path
	}
	if f.Text != "" {
		s += ": " + f.Text
	}
	if f.Errno != 0 {
		s += ": " + f.Errno.Error()
	}
	return s
}

// Unwrap returns the errno, if there is one.
func (f *failure) Unwrap() error {
	if f.Errno == 0 {
		return nil
	}
	return f.Errno
}

func failed(s step, path string, err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	f := &failure{Step: s, Path: path}
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // an errno alone; one that is wrapped keeps its text
		f.Errno = errno
	} else if err != nil {
		f.Text = err.Error()
	}
	return f
}

// explain turns a failure into the error that users see: what is missing and what
// would bring it.
func explain(f *failure) error {
	e := &fault.Error{
		Code: fault.ConfinementUnavailable, Op: "start", Reason: string(f.Step), Retry: fault.RetryNo, Err: f,
		Details: map[string]any{"tier": "namespaces", "step": string(f.Step)},
	}
	if f.Path != "" {
		e.Details["target"] = f.Path
	}
	missing, fix := diagnose(f)
	e.Details["missing"], e.Details["fix"] = missing, fix
	e.Message = fmt.Sprintf("commands cannot be confined here: %s: %s", missing, fix)
	if f.Step == stepIdentity {
		e.Code, e.Retry = fault.WorkspaceStartError, fault.RetryYes
		e.Message = missing + ": " + fix
	}
	return e
}

// diagnose returns what is missing and the setting that brings it.
func diagnose(f *failure) (missing, fix string) {
	switch f.Step {
	case stepFork:
		switch f.Errno {
		case syscall.ENOSPC, syscall.EUSERS:
			return "the limit on user namespaces is reached", "raise the sysctl user.max_user_namespaces"
		case syscall.EPERM, syscall.EINVAL, syscall.ENOSYS:
			return "this user may not create namespaces", "set the sysctl kernel.unprivileged_userns_clone=1 (Debian) or " +
				"kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu); in a container run it with --security-opt seccomp=unconfined"
		}
		return "the helper process cannot be started", "see the cause"
	case stepHelper:
		return "croft's helper program cannot be executed or does not answer", "check that it is a croft of this version, and executable"
	case stepProc:
		return "a fresh /proc cannot be mounted, as is usual in containers that mask parts of it",
			"run the container with --security-opt systempaths=unconfined"
	case stepIDMap:
		return "the file system of " + f.Path + " does not support idmapped mounts (overlayfs does not), and the directory belongs to root",
			"put the directory on a volume (docker -v), or give it to an ordinary user with chown, or run croft as an ordinary user"
	case stepBind:
		if f.Errno == syscall.ENOSYS {
			return "the kernel has no open_tree and mount_setattr", "use Linux 5.12 or later"
		}
		return "the host path " + f.Path + " cannot be shown", "check that it exists and that this user may reach it"
	case stepIdentity:
		return "the directory " + f.Path + " was replaced while the session started", "try again"
	case stepRoot, stepAttach, stepPivot, stepProtect:
		if f.Errno == syscall.EPERM || f.Errno == syscall.EACCES {
			return "mounting inside a user namespace is refused",
				"set the sysctl kernel.apparmor_restrict_unprivileged_userns=0 or load an AppArmor profile that allows userns for croft; " +
					"in a container run it with --security-opt apparmor=unconfined"
		}
		return "the root file system of the session cannot be made", "see the cause"
	case stepLandlock:
		return "the kernel has no landlock", "use Linux 5.13 or later with landlock in the lsm= list of its command line"
	case stepSeccomp:
		return "the kernel takes no system call filter", "use a kernel with CONFIG_SECCOMP_FILTER"
	}
	return "the step " + string(f.Step) + " failed", "see the cause"
}

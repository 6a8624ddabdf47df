package root

import (
	"errors"
	"os"
	osuser "os/user"
	"slices"
	"strconv"

	"github.com/croftdev/croft/internal/fault"
)

// User is an account on whose behalf files are accessed.
type User struct {
	Name   string
	UID    int
	GID    int
	Groups []int // supplementary
}

// LookupUser finds an account by its name or decimal uid, with its groups.
//
// A process that is not root may only ask for its own account; for another one
// the error is fault.PermissionDenied. An unknown name is fault.InvalidArgument.
func LookupUser(name string) (*User, error) {
	account, err := osuser.Lookup(name)
	if _, unknown := errors.AsType[osuser.UnknownUserError](err); unknown {
		if _, bad := strconv.ParseUint(name, 10, 32); bad == nil {
			account, err = osuser.LookupId(name)
		}
	}
	if err != nil {
		return nil, &fault.Error{Code: fault.InvalidArgument, Reason: "unknown_user", Retry: fault.RetryNo,
			Message: "no such user: " + strconv.Quote(name), Details: map[string]any{"user": name}, Err: err}
	}
	u := &User{Name: account.Username}
	ids, err := account.GroupIds()
	if err == nil {
		u.UID, err = strconv.Atoi(account.Uid)
	}
	if err == nil {
		u.GID, err = strconv.Atoi(account.Gid)
	}
	for _, id := range ids {
		gid, convErr := strconv.Atoi(id)
		err = errors.Join(err, convErr)
		u.Groups = append(u.Groups, gid)
	}
	if err != nil {
		return nil, &fault.Error{Code: fault.InvalidArgument, Reason: "unknown_user", Retry: fault.RetryNo,
			Message: "the groups of user " + strconv.Quote(name) + " cannot be read", Details: map[string]any{"user": name}, Err: err}
	}
	slices.Sort(u.Groups)
	return u, u.allowed()
}

// self reports whether u is the account that the process runs as anyhow.
func (u *User) self() bool { return u == nil || u.UID == os.Geteuid() }

// allowed returns an error if the process may not act as u.
func (u *User) allowed() error {
	if u.self() || os.Geteuid() == 0 {
		return nil
	}
	return &fault.Error{Code: fault.PermissionDenied, Reason: "other_user", Retry: fault.RetryNo,
		Message: "only root may act as another user (" + u.Name + ")", Details: map[string]any{"user": u.Name}}
}

// Do runs fn with the file access rights of u and returns its error.
//
// For another user fn runs on a thread of its own, which has u's file system ids
// and supplementary groups and none of root's file capabilities: sticky
// directories, modes, access lists and protected links are then the kernel's
// business (setfsuid(2), capabilities(7)). Only system calls that look up names
// should be made in fn; signals and the like would still go out with root's
// rights. Fn must not start goroutines that are to act as u: they run elsewhere.
//
// The thread is never the program's first one and is never reused for anything
// else, so that no other goroutine can meet the changed ids. Its use makes the
// process non-dumpable (PR_SET_DUMPABLE) for good.
//
// If u is the process's own account, or nil, fn runs in place. A process that is
// not root gets fault.PermissionDenied for any other account.
func (u *User) Do(fn func() error) error {
	if err := u.allowed(); err != nil {
		return err
	}
	if u.self() {
		return fn()
	}
	return doAs(u.identity(), fn)
}

func (u *User) identity() identity { return identity{uid: u.UID, gid: u.GID, groups: u.Groups} }

// identity is what a thread is given before it acts for someone.
type identity struct {
	uid, gid int
	groups   []int
	// keepCaps lets the thread override permissions as root would, while what it
	// creates belongs to uid and gid.
	keepCaps bool
}

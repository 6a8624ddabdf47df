package fill

import (
	"os"
	osuser "os/user"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/manifest"
)

// check sorts the entries into jobs and refuses what cannot be done, before
// anything is written.
func (a *applier) check(m *manifest.Manifest) error {
	if err := Supported(m); err != nil {
		return err
	}
	dirs, err := allowedDirs(a.opts)
	if err != nil {
		return err
	}
	ephemeral := map[string]bool{}
	for name, e := range m.All() {
		if err := checkName(name); err != nil {
			return err
		}
		if a.opts.OnlyEphemeral {
			if !e.Common().Ephemeral && !ephemeral[path.Dir(name)] {
				continue
			}
			if _, dir := e.(*manifest.Dir); dir {
				a.under(ephemeral, name, e)
			}
		}
		j := job{name: name, entry: e, perm: e.Common().Perm(), gid: -1}
		if j.gid, err = groupID(name, e); err != nil {
			return err
		}
		if err := a.sort(j, dirs); err != nil {
			return err
		}
	}
	slices.SortStableFunc(a.copies, func(x, y job) int { return depth(x.name) - depth(y.name) })
	return nil
}

// under marks the directories that the children of e lie in, which may be several
// components below it.
func (a *applier) under(ephemeral map[string]bool, name string, e manifest.Entry) {
	ephemeral[name] = true
	m := manifest.Manifest{Entries: e.(*manifest.Dir).Children}
	for child := range m.All() {
		for d := path.Dir(child); d != "."; d = path.Dir(d) {
			ephemeral[path.Join(name, d)] = true
		}
	}
}

func depth(name string) int {
	if name == "." {
		return 0
	}
	return 1 + strings.Count(name, "/")
}

// Supported refuses what a manifest may say and croft cannot do yet: accounts, grants
// with a host_path, storage mounts and git_repo. It looks at nothing but m.
func Supported(m *manifest.Manifest) error {
	unsupported := func(reason, what string) error {
		return &fault.Error{Code: fault.InvalidArgument, Op: "apply", Reason: reason, Retry: fault.RetryNo,
			Message: what + " are not supported yet; leave them out of the manifest"}
	}
	if len(m.Users) > 0 {
		return unsupported("users", "users")
	}
	if len(m.Groups) > 0 {
		return unsupported("groups", "groups")
	}
	for _, g := range m.Grants {
		if g.HostPath != "" {
			return unsupported("host_path", "grants with a host_path")
		}
	}
	for name, e := range m.All() {
		switch e.(type) {
		case *manifest.Mount:
			return &fault.Error{Code: fault.MountConfigInvalid, Op: "apply", Path: name, Reason: "not_supported",
				Message: "storage mounts are not supported yet", Retry: fault.RetryNo,
				Details: map[string]any{"type": e.Type()}}
		case *manifest.GitRepo:
			return &fault.Error{Code: fault.Unsupported, Op: "apply", Path: name, Reason: "git_repo",
				Message: "git_repo entries are not supported yet; use local_dir", Retry: fault.RetryNo}
		}
	}
	return nil
}

// checkName refuses a name that a parsed manifest cannot have, for manifests that
// a program built by hand.
func checkName(name string) error {
	var reason string
	switch {
	case strings.HasPrefix(name, "/"):
		reason = "absolute"
	case slices.Contains(strings.Split(name, "/"), ".."):
		reason = "escape_root"
	case strings.ContainsRune(name, 0):
		reason = "name"
	default:
		return nil
	}
	return &fault.Error{Code: fault.InvalidManifestPath, Op: "apply", Path: name, Reason: reason, Retry: fault.RetryNo,
		Message: "an entry must lie in the workspace", Details: map[string]any{"rel": name}}
}

// sort puts a job into its list. A host source is opened once, to find out early
// whether it can be.
func (a *applier) sort(j job, dirs []allowed) error {
	var err error
	switch e := j.entry.(type) {
	case *manifest.Dir:
		a.dirs = append(a.dirs, j)
	case *manifest.LocalDir:
		if e.Src != "" {
			if j.src, err = findSource(dirs, a.opts.Base, e.Src, fault.LocalDirReadError, j.name); err != nil {
				return err
			}
			d, err := j.src.openDir()
			if err != nil {
				return j.src.fault(j.name, "", err)
			}
			_ = d.Close()
			a.copies = append(a.copies, j)
		}
		a.dirs = append(a.dirs, j)
	case *manifest.LocalFile:
		if j.src, err = findSource(dirs, a.opts.Base, e.Src, fault.LocalFileReadError, j.name); err != nil {
			return err
		}
		f, err := j.src.openFile()
		if err != nil {
			return j.src.fault(j.name, "", err)
		}
		if st, err := f.Stat(); err == nil {
			j.size = st.Size()
		}
		_ = f.Close()
		a.files = append(a.files, j)
	case *manifest.File:
		a.files = append(a.files, j)
	}
	return nil
}

// groupID returns the id of the entry's group, -1 if it names none. An ordinary
// user may give a file only to a group of his own.
func groupID(name string, e manifest.Entry) (int, error) {
	g := e.Common().Group
	if g == nil {
		return -1, nil
	}
	found, err := osuser.LookupGroup(g.Name)
	if err != nil {
		return -1, &fault.Error{Code: fault.InvalidArgument, Op: "apply", Path: name, Reason: "unknown_group",
			Message: "there is no group " + strconv.Quote(g.Name), Retry: fault.RetryNo,
			Details: map[string]any{"group": g.Name}, Err: err}
	}
	gid, err := strconv.Atoi(found.Gid)
	if err != nil {
		return -1, groupFault(name, e, err)
	}
	if os.Geteuid() == 0 || gid == os.Getegid() {
		return gid, nil
	}
	if mine, err := os.Getgroups(); err != nil || !slices.Contains(mine, gid) {
		return -1, groupFault(name, e, err)
	}
	return gid, nil
}

func groupFault(name string, e manifest.Entry, err error) error {
	return &fault.Error{Code: fault.PermissionDenied, Op: "apply", Path: name, Reason: "group", Retry: fault.RetryNo,
		Message: "the entry cannot be given to the group " + strconv.Quote(e.Common().Group.Name),
		Details: map[string]any{"group": e.Common().Group.Name}, Err: err}
}

package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/policy"
)

// defaultUser is the name of the commands' account where the host knows none.
const defaultUser = "croft"

// hostDirs are the host's directories that hold programs and libraries. One that is
// a symbolic link (merged /usr) becomes the same link.
var hostDirs = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu",
}

// etcDirs are the directories of /etc that programs need to run at all. The rest of
// /etc tells about the host and holds secrets, so it does not exist inside.
var etcDirs = []string{
	"alternatives", "ca-certificates", "crypto-policies", "fonts", "ld.so.conf.d", "maven", "pki", "profile.d",
	"ssl", "terminfo", "xml",
}

// etcGlobs are more of them, whose names carry a version.
var etcGlobs = []string{"java-*"}

// etcFiles are copied as they are at the start. resolv.conf is often a link into
// /run, which is not there inside.
var etcFiles = []string{
	"alpine-release", "bash.bashrc", "debian_version", "gai.conf", "host.conf", "hosts", "inputrc", "ld.so.cache",
	"ld.so.conf", "locale.conf", "localtime", "lsb-release", "mime.types", "nsswitch.conf", "os-release", "profile",
	"protocols", "redhat-release", "resolv.conf", "services", "shells", "timezone",
}

// devices are the device nodes that commands see.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// hostView is what layout reads of the host whatever the session is.
type hostView struct {
	items []item // of systemItems and etcItems
	homes []string
}

func readHost() hostView {
	return hostView{items: append(systemItems(), etcItems()...), homes: homeDirs()}
}

// layout returns the setup of a cell and the descriptors it refers to: item.Dir n
// is the n-th of them, counted from 1.
func layout(spec Spec, host hostView) (setup, []*os.File, error) {
	if err := checkSpec(&spec); err != nil {
		return setup{}, nil, err
	}
	tier := spec.Policy.Tier
	s := setup{
		Version: wireVersion, Tier: tier, Floor: spec.Policy.Floor, Network: spec.Policy.Network.OrDefault(),
		Root: spec.Workspace.target(), Privileged: isRoot() && tier != policy.None, PrivateHome: spec.PrivateHome,
		User: accountFor(spec),
	}
	if tier == policy.None {
		layoutNone(&s, spec)
		return s, nil, nil
	}
	var files []*os.File
	bind := func(b Bind, workspace bool) {
		it := item{
			Kind: itemBind, Target: b.target(), Source: b.Path, ReadOnly: b.ReadOnly, Access: accessWrite,
			Workspace: workspace, Foreign: s.Privileged && !(workspace && spec.Owned),
		}
		if b.ReadOnly {
			it.Access = accessRead
		}
		if b.Dir != nil {
			files = append(files, b.Dir)
			it.Dir = len(files)
		}
		s.Items = append(s.Items, it)
	}
	s.Items = append(s.Items, host.items...)
	for _, p := range spec.Policy.ReadPaths {
		s.Items = append(s.Items, item{Kind: itemBind, Target: p, Source: p, ReadOnly: true, Access: accessRead})
	}
	addToolchains(&s, spec, host.homes)
	bind(spec.Workspace, true)
	for _, g := range spec.Grants {
		bind(g, false)
	}
	if !spec.Owned {
		s.Protected = spec.Policy.ProtectedNames()
	}
	hide(&s, spec.Hidden)
	placeHome(&s, spec)
	s.Items = append(s.Items, accountItems(s.User, s.Home)...)
	s.Items = sortItems(s.Items)
	binds := 0
	for _, it := range s.Items {
		if it.Kind == itemBind {
			binds++
		}
	}
	if binds > maxBinds {
		return setup{}, nil, &fault.Error{
			Code: fault.LimitExceeded, Op: "start", Reason: "grants", Retry: fault.RetryNo,
			Message: fmt.Sprintf("a session can see %d paths of the host at most, and this one is to see %d: use fewer grants or read paths", maxBinds, binds),
		}
	}
	return s, files, nil
}

// appliedFields are the fields of a policy that a cell can apply, as [policy.Policy.Asked] names
// them. What is not here is refused: a policy that is only half in force would be taken for more.
var appliedFields = []string{"tier", "floor", "network", "read_paths", "protected"}

// checkSpec refuses what no layout can show and fills in the tier.
func checkSpec(spec *Spec) error {
	refuse := func(reason, format string, args ...any) error {
		return &fault.Error{
			Code: fault.InvalidArgument, Op: "start", Reason: reason, Retry: fault.RetryNo,
			Message: fmt.Sprintf(format, args...),
		}
	}
	if err := spec.Policy.Check(); err != nil {
		return &fault.Error{Code: fault.InvalidArgument, Op: "start", Reason: "policy", Retry: fault.RetryNo, Err: err}
	}
	for _, field := range spec.Policy.Asked() {
		if !slices.Contains(appliedFields, field) {
			return &fault.Error{
				Code: fault.Unsupported, Op: "start", Reason: "policy", Retry: fault.RetryNo, Details: map[string]any{"field": field},
				Message: fmt.Sprintf("this croft cannot enforce %s of a policy yet: leave it out to start without it", field),
			}
		}
	}
	if spec.Policy.Tier == "" {
		spec.Policy.Tier = policy.Namespaces
	}
	switch tier := spec.Policy.Tier; {
	case tier == policy.None && spec.Policy.Floor == "":
		// Named by the caller, who asked for nothing better.
	case !tier.AtLeast(spec.Policy.Floor):
		return unavailable("floor", fmt.Sprintf("the tier %s is below the floor %s: lower the floor or name a stronger tier",
			tier, spec.Policy.Floor), nil)
	case tier != policy.Namespaces && tier != policy.None:
		return unavailable("tier", fmt.Sprintf("the tier %s is not built yet: use namespaces", tier), nil)
	}
	for i, b := range append([]Bind{spec.Workspace}, spec.Grants...) {
		what := "workspace"
		if i > 0 {
			what = "grant"
		}
		for _, p := range []string{b.Path, b.target()} {
			if !filepath.IsAbs(p) || filepath.Clean(p) != p {
				return refuse("path", "the %s's path %q is not absolute and clean", what, p)
			}
		}
		if spec.Policy.Tier == policy.None {
			continue
		}
		for _, taken := range []string{"/proc", "/dev", "/sys"} {
			if t := b.target(); within(t, taken) || t == "/" {
				return refuse("path", "the %s cannot be at %s: commands have a %s of their own there", what, t, taken)
			}
		}
	}
	if spec.SearchPath == "" {
		spec.SearchPath = os.Getenv("PATH")
	}
	return nil
}

// hide covers each host directory of the list, wherever an item shows it, with an empty
// file system of the cell's own.
func hide(s *setup, hidden []string) {
	for _, dir := range hidden {
		for _, it := range s.Items {
			if it.Kind == itemBind && dir != it.Source && within(dir, it.Source) {
				target := filepath.Join(it.Target, strings.TrimPrefix(dir, it.Source))
				s.Items = append(s.Items, item{Kind: itemTmpfs, Target: target, Mode: 0o700})
			}
		}
	}
}

func layoutNone(s *setup, spec Spec) {
	s.Root, s.Network = spec.Workspace.Path, policy.NetworkHost
	s.Home = s.Root
	s.SearchPath = strings.Join(appendMissing(pathDirs(spec.SearchPath), systemPath), ":")
	s.NotEnforced = []policy.NotEnforced{{Asked: "confinement", Reason: "the tier none was named: commands run like any other program of this user"}}
}

// systemItems returns what every cell has: the system's programs, /dev, /proc, /tmp.
func systemItems() []item {
	items := []item{
		{Kind: itemDir, Target: "/etc", Access: accessRead},
		{Kind: itemDir, Target: "/run"},
		{Kind: itemDir, Target: "/var"},
		{Kind: itemTmpfs, Target: "/tmp", Mode: 0o1777, Access: accessWrite},
		{Kind: itemTmpfs, Target: "/var/tmp", Mode: 0o1777, Access: accessWrite},
		{Kind: itemLink, Target: "/var/run", Source: "/run"},
		{Kind: itemProc, Target: "/proc", Access: accessProc},
		{Kind: itemDir, Target: "/dev", Access: accessDevice},
		{Kind: itemTmpfs, Target: "/dev/shm", Mode: 0o1777, Access: accessWrite},
		{Kind: itemDevpts, Target: "/dev/pts"},
		{Kind: itemLink, Target: "/dev/ptmx", Source: "pts/ptmx"},
		{Kind: itemLink, Target: "/dev/fd", Source: "/proc/self/fd"},
		{Kind: itemLink, Target: "/dev/stdin", Source: "/proc/self/fd/0"},
		{Kind: itemLink, Target: "/dev/stdout", Source: "/proc/self/fd/1"},
		{Kind: itemLink, Target: "/dev/stderr", Source: "/proc/self/fd/2"},
	}
	for _, name := range devices {
		items = append(items, item{Kind: itemBind, Target: "/dev/" + name, Source: "/dev/" + name, Devices: true, Optional: name == "tty"})
	}
	for _, dir := range hostDirs {
		fi, err := os.Lstat(dir)
		switch {
		case err != nil:
		case fi.Mode()&fs.ModeSymlink != 0:
			if text, err := os.Readlink(dir); err == nil {
				items = append(items, item{Kind: itemLink, Target: dir, Source: text})
			}
		case fi.IsDir():
			items = append(items, item{Kind: itemBind, Target: dir, Source: dir, ReadOnly: true, Access: accessRead})
		}
	}
	return items
}

// etcItems returns the short list of /etc. What the host does not have is left out.
func etcItems() []item {
	names := slices.Clone(etcDirs)
	for _, g := range etcGlobs {
		if found, err := filepath.Glob("/etc/" + g); err == nil {
			for _, p := range found {
				names = append(names, filepath.Base(p))
			}
		}
	}
	var items []item
	for _, name := range names {
		p := "/etc/" + name
		if fi, err := os.Stat(p); err == nil && fi.IsDir() {
			items = append(items, item{Kind: itemBind, Target: p, Source: p, ReadOnly: true, Optional: true})
		}
	}
	for _, name := range etcFiles {
		p := "/etc/" + name
		// A link into /usr stays a link (localtime tells the zone's name by it).
		if text, err := os.Readlink(p); err == nil {
			if abs := text; within(filepath.Clean(filepath.Join("/etc", text)), "/usr") || within(abs, "/usr") {
				items = append(items, item{Kind: itemLink, Target: p, Source: text})
				continue
			}
		}
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() {
			items = append(items, item{Kind: itemCopy, Target: p, Source: p, Optional: true})
		}
	}
	return append(items, item{Kind: itemLink, Target: "/etc/mtab", Source: "/proc/self/mounts"})
}

// addToolchains shows the tools on the PATH of spec and sets the PATH for commands.
func addToolchains(s *setup, spec Spec, homes []string) {
	writable := []string{spec.Workspace.target()}
	for _, g := range spec.Grants {
		writable = append(writable, g.target())
	}
	visible := func(p string) bool {
		return slices.ContainsFunc(s.Items, func(it item) bool {
			return (it.Kind == itemBind || it.Kind == itemLink) && !it.Devices && within(p, it.Target)
		}) || slices.ContainsFunc(writable, func(w string) bool { return within(p, w) })
	}
	dirs := pathDirs(spec.SearchPath)
	var shown []string
	for _, dir := range dirs {
		shown = append(shown, toolchains(dir, homes)...)
	}
	// Shorter ones first: what lies in one that is shown needs no mount of its own. One that
	// lies in the workspace or a grant is there already, with its rights.
	slices.SortStableFunc(shown, func(a, b string) int { return depth(a) - depth(b) })
	for _, p := range shown {
		if _, err := os.Stat(p); err != nil || visible(p) {
			continue
		}
		s.Items = append(s.Items, item{Kind: itemBind, Target: p, Source: p, ReadOnly: true, Access: accessRead, Optional: true})
	}
	path := slices.DeleteFunc(dirs, func(dir string) bool { return !visible(dir) })
	s.SearchPath = strings.Join(appendMissing(path, systemPath), ":")
}

func appendMissing(list, more []string) []string {
	for _, m := range more {
		if !slices.Contains(list, m) {
			list = append(list, m)
		}
	}
	return list
}

// placeHome decides on HOME; a private one goes where nothing else is.
func placeHome(s *setup, spec Spec) {
	s.Home = s.Root
	if !spec.PrivateHome {
		return
	}
	s.Home = "/home/" + s.User.Name
	if slices.ContainsFunc(s.Items, func(it item) bool { return within(it.Target, s.Home) || below(s.Home, it.Target) && it.Target != "/" }) {
		s.Home = "/run/home"
	}
	s.Items = append(s.Items, item{Kind: itemTmpfs, Target: s.Home, Mode: 0o700, Access: accessWrite})
}

// accountFor returns the account that commands run as.
func accountFor(spec Spec) account {
	uid, gid := os.Geteuid(), os.Getegid()
	if spec.Policy.Tier == policy.None {
		return account{Name: userName(uid), HostUID: uid, HostGID: gid, InsideUID: uid, InsideGID: gid}
	}
	if isRoot() {
		return account{Name: defaultUser, HostUID: spec.UID, HostGID: spec.UID, InsideUID: 1000, InsideGID: 1000}
	}
	a := account{Name: userName(uid), HostUID: uid, HostGID: gid, InsideUID: uid, InsideGID: gid}
	// Root of a container that maps nobody else: uid 0 would gain nothing inside, but
	// programs behave differently for it.
	if uid == 0 {
		a.Name, a.InsideUID, a.InsideGID = defaultUser, 1000, 1000
	}
	return a
}

// userName returns the host's name for uid if it is one that fits a line of passwd.
func userName(uid int) string {
	b, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return defaultUser
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Split(line, ":")
		if len(f) >= 7 && f[2] == strconv.Itoa(uid) && f[0] != "" && !strings.ContainsAny(f[0], "/.\n") {
			return f[0]
		}
	}
	return defaultUser
}

// accountItems makes passwd and group for the session: its own account, root and
// nobody. The host's accounts are nobody's business inside.
func accountItems(a account, home string) []item {
	passwd := "root:x:0:0:root:/root:/bin/sh\n"
	group := "root:x:0:\n"
	if a.InsideUID != 65534 {
		passwd += "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	}
	if a.InsideGID != 65534 {
		group += "nogroup:x:65534:\n"
	}
	if a.InsideUID != 0 {
		passwd += fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n", a.Name, a.InsideUID, a.InsideGID, home)
	}
	if a.InsideGID != 0 {
		group += fmt.Sprintf("%s:x:%d:\n", a.Name, a.InsideGID)
	}
	return []item{
		{Kind: itemFile, Target: "/etc/passwd", Content: passwd},
		{Kind: itemFile, Target: "/etc/group", Content: group},
		{Kind: itemFile, Target: "/etc/hostname", Content: hostname + "\n"},
	}
}

// maxBinds bounds what of the host a session can see: each takes up to two descriptors
// of one packet (see maxDescriptors). The system's own take some 35.
const maxBinds = 120

// hostname is the name of every session's machine: the host's own is not told.
const hostname = "croft"

// unavailable returns the error for confinement that cannot be had.
func unavailable(reason, message string, cause error) error {
	return &fault.Error{
		Code: fault.ConfinementUnavailable, Op: "start", Reason: reason, Message: message, Retry: fault.RetryNo, Err: cause,
	}
}

var errNoUID = errors.New("Spec.UID is not set")

package confine

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/croftdev/croft/policy"
)

// setup is what starter and warden need to make one cell, in a memory file (see
// [setup.encode]). It comes from croft, which both trust.
type setup struct {
	Version   int
	Tier      policy.Tier
	Floor     policy.Tier
	Network   policy.Network
	Items     []item
	Protected []string
	// Root is the workspace as commands see it, Home their HOME.
	Root       string
	Home       string
	SearchPath string
	// Privileged: the starter is root and prepares the mounts; else the warden does.
	Privileged bool
	// User is the commands' account: its name, and its ids on the host and inside.
	User account
	// PrivateHome asks the warden of the tier none for a temporary HOME.
	PrivateHome bool
	// NotEnforced is what was known before the start.
	NotEnforced []policy.NotEnforced

	// HostRoot is the warden's own descriptor of the host's root directory until its thread
	// has confined itself, which is tried on it.
	HostRoot int
}

type account struct {
	Name string
	// HostUID and HostGID are the ids on the host; InsideUID and InsideGID those
	// that commands see.
	HostUID   int
	HostGID   int
	InsideUID int
	InsideGID int
}

// itemKind says how an entry of the root file system is made.
type itemKind string

const (
	itemBind   itemKind = "bind"   // the host's Source, at Target
	itemLink   itemKind = "link"   // a symbolic link with the text Source
	itemTmpfs  itemKind = "tmpfs"  // a file system in memory with mode Mode
	itemProc   itemKind = "proc"   // a fresh procfs
	itemDevpts itemKind = "devpts" // a fresh devpts
	itemFile   itemKind = "file"   // a file with Content
	itemCopy   itemKind = "copy"   // a file with the content of the host's Source, as it is at the start
	itemDir    itemKind = "dir"    // an empty directory
)

// access names the landlock rule for what lies beneath an item's target.
type access string

const (
	accessNone   access = ""
	accessList   access = "list"
	accessRead   access = "read"
	accessWrite  access = "write"
	accessDevice access = "device"
	accessProc   access = "proc"
)

// item is one entry of the root file system.
type item struct {
	Kind     itemKind
	Target   string
	Source   string
	Content  string
	Mode     uint32
	Access   access
	ReadOnly bool
	// Devices leaves device nodes usable.
	Devices bool
	// Optional: left out if the host has no Source.
	Optional bool
	// Foreign: for root, the files belong to somebody else than the session and are
	// to be seen as the session's through an idmapped mount.
	Foreign bool
	// Workspace marks the workspace itself.
	Workspace bool
	// Dir is the descriptor of the Source that must be what Source names, and Mount a
	// detached mount of it; 0 where there is none. Between processes the numbers are
	// those of the receiver.
	Dir   int
	Mount int
}

// sortItems orders items so that a parent comes before what lies in it, and of two
// with the same target keeps the later one.
func sortItems(items []item) []item {
	last := make(map[string]int, len(items))
	for i, it := range items {
		last[it.Target] = i
	}
	kept := items[:0]
	for i, it := range items {
		if last[it.Target] == i {
			kept = append(kept, it)
		}
	}
	slices.SortStableFunc(kept, func(a, b item) int { return cmp.Compare(depth(a.Target), depth(b.Target)) })
	return kept
}

func depth(p string) int {
	if p == "/" {
		return 0
	}
	return strings.Count(p, "/")
}

// within reports whether the clean path p is dir or lies below it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// below reports whether p lies below dir and is not dir.
func below(p, dir string) bool { return p != dir && within(p, dir) }

// parents returns the proper prefixes of the relative name, outermost first.
func parents(name string) []string {
	var list []string
	for d := path.Dir(name); d != "." && d != "/"; d = path.Dir(d) {
		list = append(list, d)
	}
	slices.Reverse(list)
	return list
}

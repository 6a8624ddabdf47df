package confine

import (
	"cmp"
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/croftdev/croft/policy"
)

// setup is what starter and warden need to make one cell, as JSON in a memory file.
// It comes from croft, which both trust.
type setup struct {
	Version   int            `json:"version"`
	Tier      policy.Tier    `json:"tier"`
	Floor     policy.Tier    `json:"floor"`
	Network   policy.Network `json:"network"`
	Items     []item         `json:"items"`
	Protected []string       `json:"protected"`
	// Root is the workspace as commands see it, Home their HOME.
	Root       string `json:"root"`
	Home       string `json:"home"`
	SearchPath string `json:"search_path"`
	// Privileged: the starter is root and prepares the mounts; else the warden does.
	Privileged bool `json:"privileged"`
	// User is the commands' account: its name, and its ids on the host and inside.
	User account `json:"user"`
	// PrivateHome asks the warden of the tier none for a temporary HOME.
	PrivateHome bool `json:"private_home"`
	// NotEnforced is what was known before the start.
	NotEnforced []policy.NotEnforced `json:"not_enforced"`

	// HostRoot is the warden's own descriptor of the host's root directory until its thread
	// has confined itself, which is tried on it.
	HostRoot int `json:"-"`
}

// encode returns s as JSON. Linux paths are bytes, and JSON would replace those that are
// no UTF-8, so the paths are escaped.
func (s setup) encode() ([]byte, error) {
	s.Items = slices.Clone(s.Items)
	s.eachPath(url.QueryEscape)
	return json.Marshal(s)
}

func decodeSetup(text []byte) (setup, error) {
	var s setup
	if err := json.Unmarshal(text, &s); err != nil {
		return setup{}, err
	}
	var bad error
	s.eachPath(func(p string) string {
		p, err := url.QueryUnescape(p)
		if err != nil {
			bad = err
		}
		return p
	})
	return s, bad
}

func (s *setup) eachPath(change func(string) string) {
	for _, p := range []*string{&s.Root, &s.Home, &s.SearchPath} {
		*p = change(*p)
	}
	for i := range s.Items {
		s.Items[i].Source, s.Items[i].Target = change(s.Items[i].Source), change(s.Items[i].Target)
	}
}

type account struct {
	Name string `json:"name"`
	// HostUID and HostGID are the ids on the host; InsideUID and InsideGID those
	// that commands see.
	HostUID   int `json:"host_uid"`
	HostGID   int `json:"host_gid"`
	InsideUID int `json:"inside_uid"`
	InsideGID int `json:"inside_gid"`
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
	Kind     itemKind `json:"kind"`
	Target   string   `json:"target"`
	Source   string   `json:"source,omitempty"`
	Content  string   `json:"content,omitempty"`
	Mode     uint32   `json:"mode,omitempty"`
	Access   access   `json:"access,omitempty"`
	ReadOnly bool     `json:"read_only,omitempty"`
	// Devices leaves device nodes usable.
	Devices bool `json:"devices,omitempty"`
	// Optional: left out if the host has no Source.
	Optional bool `json:"optional,omitempty"`
	// Foreign: for root, the files belong to somebody else than the session and are
	// to be seen as the session's through an idmapped mount.
	Foreign bool `json:"foreign,omitempty"`
	// Workspace marks the workspace itself.
	Workspace bool `json:"workspace,omitempty"`
	// Dir is the descriptor of the Source that must be what Source names, and Mount a
	// detached mount of it; 0 where there is none. Between processes the numbers are
	// those of the receiver.
	Dir   int `json:"dir,omitempty"`
	Mount int `json:"mount,omitempty"`
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

package root

import (
	"path"
	"strings"

	"github.com/croftdev/croft/internal/fault"
)

// Names are the rules by which the text of a name is taken apart, before anything
// is looked up. They know the spellings of the roots and touch no file.
//
// A backslash counts as a separator and a Windows drive as the start of an
// absolute path: names come from people, models and manifests of other systems,
// and an escape there must not be a harmless name here. (A [Tree] prefers the entry
// that really has the backslash in its name, where there is one.) An absolute name
// with two leading slashes is refused, since POSIX (4.13 Pathname Resolution) lets
// it mean something else.
//
// In a relative name ".." is taken by the text, so that "a/../b" is b whatever a
// is. In an absolute name it is taken by the text only here; the operations of a
// Tree take it as the kernel does.
type Names struct {
	roots []namedRoot // the workspace, then the grants
}

// namedRoot is a root as far as its text goes.
type namedRoot struct {
	base      string   // clean; what Absolute and Normalize answer with
	spellings []string // without empty and "." components; may hold ".."
	readOnly  bool
	grant     string // the grant's configured path; empty for the workspace
}

// place is a name taken apart: where it begins, and what is left to look up.
type place struct {
	root int    // index of a root; -1 if the name begins outside all of them
	rest string // below that root, "." for the root itself; without a root an absolute path
	abs  bool   // the name was absolute
	text string // the name as errors show it
}

// NewNames returns the rules for a workspace at the absolute path root, which may
// also be spelled otherwise, and its grants. Nothing of it need exist. The error is
// fault.InvalidArgument.
func NewNames(root string, spellings []string, grants []Grant) (*Names, error) {
	n := &Names{}
	all := append([]string{root}, spellings...)
	for i, s := range all {
		p := posix(s)
		if s == "" || drive(p) || !strings.HasPrefix(p, "/") {
			return nil, &fault.Error{Code: fault.InvalidArgument, Reason: "not_absolute", Retry: fault.RetryNo,
				Message: "the workspace root must be an absolute path"}
		}
		all[i] = p
	}
	n.roots = append(n.roots, namedRoot{base: path.Clean(all[0]), spellings: withClean(all)})
	for _, g := range grants {
		g, err := ParseGrant(g)
		if err != nil {
			return nil, err
		}
		n.roots = append(n.roots, namedRoot{base: g.Path, spellings: []string{g.Path}, readOnly: g.ReadOnly, grant: g.Path})
	}
	return n, nil
}

// withClean returns the spellings and their clean forms, without doubles.
func withClean(spellings []string) []string {
	var all []string
	seen := map[string]bool{}
	for _, s := range spellings {
		for _, p := range []string{s, path.Clean(s)} {
			if !seen[p] {
				seen[p] = true
				all = append(all, p)
			}
		}
	}
	return all
}

// Absolute returns the absolute path of a name in the workspace, by its text. The
// result lies in the workspace. Grants do not count.
func (n *Names) Absolute(name string) (string, error) {
	rest, err := n.workspace(name)
	if err != nil {
		return "", err
	}
	return path.Join(n.roots[0].base, rest), nil
}

// Relative returns a name of the workspace relative to its root, by its text; "."
// is the root. Grants do not count.
func (n *Names) Relative(name string) (string, error) { return n.workspace(name) }

// Normalize returns the absolute path of a name in the workspace or a grant, by its
// text. With forWrite the most specific root must not be a read-only grant; of two
// grants of one path the first counts.
func (n *Names) Normalize(name string, forWrite bool) (string, error) {
	text := posix(name)
	var result string
	if rest, err := n.workspace(name); err == nil {
		result = path.Join(n.roots[0].base, rest)
	} else if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") {
		return "", err
	} else if result = path.Clean(text); n.owner(result) < 0 {
		return "", err
	}
	if i := n.owner(result); forWrite && n.roots[i].readOnly {
		return "", readOnlyError("", n.roots[i].grant, text, n.shown(result))
	}
	return result, nil
}

// owner returns the index of the most specific root that holds the clean path p by
// its base, or -1.
func (n *Names) owner(p string) int {
	best := -1
	for i, r := range n.roots {
		if _, ok := below(r.base, p); ok && (best < 0 || len(r.base) > len(n.roots[best].base)) {
			best = i
		}
	}
	return best
}

// shown returns the absolute path p relative to the workspace if it lies in it.
func (n *Names) shown(p string) string {
	if rest, ok := below(n.roots[0].base, p); ok {
		return rest
	}
	return p
}

// workspace returns name relative to the workspace, by its text alone.
func (n *Names) workspace(name string) (string, error) {
	text := posix(name)
	abs := strings.HasPrefix(text, "/")
	if drive(text) || strings.HasPrefix(text, "//") {
		return "", escapeError("", text, true)
	}
	for _, s := range n.roots[0].spellings {
		s = path.Clean(s)
		p := path.Clean(text)
		if !abs {
			p = path.Join(s, text)
		}
		if rest, ok := below(s, p); ok {
			return rest, nil
		}
	}
	return "", escapeError("", text, abs)
}

// find takes a name of an operation apart. A relative name is resolved by its text
// and lies in the workspace; of an absolute one only the longest spelling of a root
// at its beginning is taken off, and the rest, with its "..", is for the lookup.
func (n *Names) find(name string) (place, error) {
	if plain(name) {
		return place{rest: name, text: name}, nil
	}
	text := posix(name)
	if strings.IndexByte(name, 0) >= 0 {
		return place{}, &fault.Error{Code: fault.InvalidManifestPath, Reason: "nul_byte", Path: text, Retry: fault.RetryNo,
			Message: "a name cannot hold a zero byte", Details: map[string]any{"rel": text}}
	}
	if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") {
		rest, err := n.workspace(name)
		return place{rest: rest, text: text}, err
	}
	pl := place{root: -1, rest: text, abs: true, text: text}
	longest := -1
	for i, r := range n.roots {
		for _, s := range r.spellings {
			if rest, ok := below(s, text); ok && len(s) > longest {
				pl.root, pl.rest, longest = i, rest, len(s)
			}
		}
	}
	return pl, nil
}

// plain reports whether name is relative and clean as it stands, so that the
// common case costs one pass over its bytes.
func plain(name string) bool {
	start := 0
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			if name[i] == '\\' || name[i] == 0 {
				return false
			}
			continue
		}
		if part := name[start:i]; part == "" || part == "." || part == ".." {
			return false
		}
		start = i + 1
	}
	return !drive(name)
}

// below returns p relative to base, both without empty and "." components, if base
// is p or a directory above it by text; "." if they are equal.
func below(base, p string) (string, bool) {
	if p == base {
		return ".", true
	}
	if base != "/" {
		base += "/"
	}
	rest, ok := strings.CutPrefix(p, base)
	return rest, ok
}

// posix returns name with slashes only, without empty and "." components and
// without a trailing slash. ".." stays, and so do exactly two leading slashes.
func posix(name string) string {
	return squeeze(strings.ReplaceAll(name, `\`, "/"))
}

// squeeze is posix without the rule for backslashes.
func squeeze(name string) string {
	rest := strings.TrimLeft(name, "/")
	prefix := name[:len(name)-len(rest)]
	if len(prefix) > 2 {
		prefix = "/"
	}
	var b strings.Builder
	b.WriteString(prefix)
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" || part == "." {
			continue
		}
		if b.Len() > len(prefix) {
			b.WriteByte('/')
		}
		b.WriteString(part)
	}
	if b.Len() == 0 {
		return "."
	}
	return b.String()
}

// drive reports whether name is absolute on Windows: a letter, a colon, a separator.
func drive(name string) bool {
	return len(name) > 2 && name[1] == ':' && (name[2] == '/' || name[2] == '\\') &&
		('a' <= name[0]|0x20 && name[0]|0x20 <= 'z')
}

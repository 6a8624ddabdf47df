package manifest

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/croftdev/croft/internal/document"
	"github.com/croftdev/croft/internal/fault"
)

// metaFields are the fields that every entry has.
var metaFields = []string{"type", "description", "ephemeral", "group", "is_dir", "permissions"}

// entryFields are the fields of the entries that are no mounts, after metaFields
// and in the order of the normal form.
var entryFields = map[string][]string{
	"file":       {"content", "content_base64"},
	"dir":        {"children"},
	"local_file": {"src"},
	"local_dir":  {"src", "symlinks"},
	"git_repo":   {"host", "repo", "ref", "subpath"},
}

// entryTypes are the types of entries, in the order of the reference.
var entryTypes = []string{
	"file", "dir", "local_file", "local_dir", "git_repo",
	"s3_mount", "gcs_mount", "r2_mount", "azure_blob_mount", "box_mount", "s3_files_mount",
}

// entries reads the entries of the directory dir.
func (r *reader) entries(n *document.Node, place *document.Place, dir string) Entries {
	out := Entries{}
	o, ok := r.Object(n, place, nil)
	if !ok {
		return out
	}
	o.Each(func(f document.Field, place *document.Place) {
		at := located{name: f.Name, dir: dir, at: f.At, place: place}
		name, ok := r.entryName(at)
		slot := r.paths.reserve(at, name, ok)
		if e := r.entry(f.Value, place, name); e != nil {
			r.paths.fill(slot, e)
			out = append(out, Named{Name: f.Name, Entry: e})
		}
	})
	return out
}

// entry reads one entry; dir is its path in the workspace.
func (r *reader) entry(n *document.Node, place *document.Place, dir string) Entry {
	typ, ok := r.entryType(n, place, entryTypes)
	if !ok {
		return nil
	}
	own, simple := entryFields[typ]
	if !simple {
		return r.mount(n, place, typ)
	}
	o, _ := r.Object(n, place, slices.Concat(metaFields, own))
	var (
		e    Entry
		meta = r.meta(o, typ != "file" && typ != "local_file")
	)
	switch typ {
	case "file":
		e = &File{Meta: meta, Content: r.content(o)}
	case "dir":
		d := &Dir{Meta: meta}
		if n, place := o.Get("children"); n != nil && n.Kind != document.Null {
			d.Children = r.entries(n, place, dir)
		}
		e = d
	case "local_file":
		e = &LocalFile{Meta: meta, Src: r.hostSource(o, "src", true)}
	case "local_dir":
		e = &LocalDir{Meta: meta, Src: r.hostSource(o, "src", false), Symlinks: r.symlinks(o)}
	case "git_repo":
		g := r.gitRepo(o)
		g.Meta = meta
		e = g
	}
	return e
}

// entryType returns the type of an entry, one of types.
func (r *reader) entryType(n *document.Node, place *document.Place, types []string) (string, bool) {
	if n.Kind != document.Object {
		r.Want(n, place, document.Object)
		return "", false
	}
	i := slices.IndexFunc(n.Fields, func(f document.Field) bool { return f.Name == "type" })
	place = document.Child(place, "type")
	if i < 0 {
		r.Invalid(n.At, place, "missing_field", "the field \"type\" has to be there, one of %s", strings.Join(types, ", "))
		return "", false
	}
	v := n.Fields[i].Value
	typ, ok := r.Text(v, place)
	if ok && !slices.Contains(types, typ) {
		r.Invalid(v.At, place, "value", "unknown type %q; known here: %s", typ, strings.Join(types, ", "))
		ok = false
	}
	return typ, ok
}

// meta reads what every entry has.
func (r *reader) meta(o document.Fields, isDir bool) Meta {
	m := Meta{Description: o.Optional("description"), Ephemeral: o.Flag("ephemeral", false)}
	if n, place := o.Get("group"); n != nil && n.Kind != document.Null {
		m.Group = r.entryGroup(n, place)
	}
	if n, place := o.Get("is_dir"); n != nil && r.Boolean(n, place, isDir) != isDir {
		r.Invalid(n.At, place, "value", "the type makes this %t; leave the field out", isDir)
	}
	p := DefaultPermissions
	if n, place := o.Get("permissions"); n != nil {
		p = r.permissions(n, place)
	}
	p.Directory = p.Directory || isDir
	m.Permissions = &p
	return m
}

// permissionFields are the fields of permissions.
var permissionFields = []string{"owner", "group", "other", "directory"}

// permissions reads permissions, an object or the text of ls(1).
func (r *reader) permissions(n *document.Node, place *document.Place) Permissions {
	switch n.Kind {
	case document.Text:
		p, err := ParsePermissions(n.Text)
		if err != nil {
			r.Invalid(n.At, place, "permissions", "%q is not of the form %s", n.Text, permissionHint(n.Text))
		}
		return p
	case document.Number:
		// 0644 is 420 in YAML 1.1 and 644 in YAML 1.2, and JSON has no octal numbers at all.
		r.Invalid(n.At, place, "type",
			"the number %s says different things to different readers; write %s", n.Text, permissionHint(n.Text))
		return Permissions{}
	}
	o, ok := r.Object(n, place, permissionFields)
	if !ok {
		return Permissions{}
	}
	// Without the others, the owner alone may use the entry (case MF-023).
	p := Permissions{Owner: 7, Directory: o.Flag("directory", false)}
	for _, digit := range []struct {
		name string
		to   *uint8
	}{{"owner", &p.Owner}, {"group", &p.Group}, {"other", &p.Other}} {
		if n, place := o.Get(digit.name); n != nil {
			if v, ok := r.Integer(n, place, 0, 7); ok {
				*digit.to = uint8(v)
			}
		}
	}
	return p
}

// permissionHint returns the text of permissions that somebody wrote in octal, or an example.
func permissionHint(written string) string {
	mode, err := strconv.ParseUint(strings.TrimPrefix(written, "0o"), 8, 9)
	if err != nil {
		mode = 0o644
	}
	return PermissionsFromMode(uint32(mode)).String()
}

// content reads the content of a file.
func (r *reader) content(o document.Fields) []byte {
	plain, plainPlace := o.Get("content")
	coded, codedPlace := o.Get("content_base64")
	switch {
	case plain == nil && coded == nil:
		r.Invalid(o.Node.At, plainPlace, "missing_field", "a file has either content or content_base64")
	case plain != nil && coded != nil:
		r.Invalid(coded.At, codedPlace, "value", "a file has either content or content_base64, not both")
	case plain != nil:
		// Content is the one text that may hold a NUL.
		if plain.Kind == document.Text && !document.YAMLWord(plain) {
			return []byte(plain.Text)
		}
		r.Text(plain, plainPlace)
	default:
		s, ok := r.Text(coded, codedPlace)
		if !ok {
			return nil
		}
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			r.Invalid(coded.At, codedPlace, "value", "not base64 (RFC 4648, section 4): %v", err)
		}
		return b
	}
	return nil
}

// hostSource reads the host path of a local source.
func (r *reader) hostSource(o document.Fields, name string, required bool) string {
	n, place := o.Get(name)
	if !required && (n == nil || n.Kind == document.Null) {
		return ""
	}
	s := o.Required(name)
	if s != "" && r.untrusted {
		r.refuseUntrusted(n.At, place, "a source on the host")
	}
	return s
}

// symlinks reads what becomes of links in a local directory.
func (r *reader) symlinks(o document.Fields) Symlinks {
	n, place := o.Get("symlinks")
	if n == nil {
		return RefuseSymlinks
	}
	s, ok := r.Text(n, place)
	if ok && s != string(RefuseSymlinks) && s != string(KeepSymlinks) {
		r.Invalid(n.At, place, "value", "want %q or %q, have %q", RefuseSymlinks, KeepSymlinks, s)
	}
	return Symlinks(s)
}

// gitRepo reads the fields of a git repository.
//
// A host, repository or ref that begins with "-" is an option to git, which can
// run a command (CVE-2017-1000117 and its kin); a host with a slash, "@" or blank
// in it is another address than the one it seems.
func (r *reader) gitRepo(o document.Fields) *GitRepo {
	g := &GitRepo{Host: "github.com", Repo: o.Required("repo"), Ref: o.Required("ref"), Subpath: o.Optional("subpath")}
	if n, _ := o.Get("host"); n != nil {
		g.Host = o.Required("host")
	}
	for _, f := range []struct{ name, value, not string }{
		{"host", g.Host, "/@?#\\ \t\n"}, {"repo", g.Repo, "@?#\\ \t\n"}, {"ref", g.Ref, "\\ \t\n~^:?*["},
	} {
		if strings.HasPrefix(f.value, "-") || strings.ContainsAny(f.value, f.not) || strings.Contains(f.value, "..") {
			n, place := o.Get(f.name)
			r.Invalid(n.At, place, "value", "%q cannot be the %s of a git repository", f.value, f.name)
		}
	}
	g.Commit = IsCommitRef(g.Ref)
	dir, reason := gitDir(g.Subpath)
	if reason != "" {
		n, place := o.Get("subpath")
		r.RefusePath(n.At, place, fault.GitSubpathError, reason, g.Subpath,
			fmt.Sprintf("%q is not a path inside the repository (%s)", g.Subpath, reason))
	}
	g.Dir = dir
	return g
}

// IsCommitRef reports whether a ref looks like a commit id, whole or shortened: 7 to
// 40 hexadecimal digits. A branch can have such a name too, so what is fetched as a commit
// first is fetched by name when there is no such commit.
func IsCommitRef(ref string) bool {
	if len(ref) < 7 || len(ref) > 40 {
		return false
	}
	return strings.Trim(ref, "0123456789abcdefABCDEF") == ""
}

// gitDir returns the directory that a subpath names, clean, or "" for the whole
// repository; else the reason of a fault.GitSubpathError.
func gitDir(subpath string) (dir, reason string) {
	if subpath == "" {
		return "", ""
	}
	trimmed := strings.TrimSpace(subpath)
	if trimmed == "" {
		return "", "empty"
	}
	clean := posixPath(trimmed)
	switch {
	case strings.HasPrefix(trimmed, "/"):
		return "", "absolute"
	case strings.Contains(subpath, `\`) || hasDrive(trimmed):
		return "", "windows_path"
	case slices.Contains(components(clean), ".."):
		return "", "parent_traversal"
	case clean == ".":
		return "", ""
	}
	return clean, ""
}

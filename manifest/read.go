package manifest

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/croftdev/croft/internal/document"
	"github.com/croftdev/croft/internal/fault"
)

// The fields of the parts of a manifest that are not entries, in the order of the normal form.
var (
	manifestFields = []string{
		"version", "root", "entries", "environment", "users", "groups", "extra_path_grants",
		"remote_mount_command_allowlist", "skills",
	}
	userFields  = []string{"name"}
	groupFields = []string{"name", "users"}
	grantFields = []string{"path", "read_only", "description", "host_path"}
)

// manifest reads the whole manifest.
func (r *reader) manifest(n *document.Node) *Manifest {
	m := &Manifest{Root: DefaultRoot, RemoteMountCommands: slices.Clone(defaultRemoteMountCommands)}
	o, ok := r.Object(n, nil, manifestFields)
	if !ok {
		return m
	}
	if n, place := o.Get("version"); n != nil {
		r.Integer(n, place, Version, Version)
	}
	if n, place := o.Get("root"); n != nil {
		m.Root = r.rootPath(n, place)
	}
	if n, place := o.Get("entries"); n != nil && n.Kind != document.Null {
		m.Entries = r.entries(n, place, ".")
	}
	if n, place := o.Get("environment"); n != nil {
		m.Environment = r.environment(n, place)
	}
	if n, place := o.Get("users"); n != nil {
		m.Users = r.users(n, place)
	}
	if n, place := o.Get("groups"); n != nil {
		m.Groups = r.groups(n, place)
	}
	if n, place := o.Get("extra_path_grants"); n != nil {
		m.Grants = r.grants(n, place)
	}
	if n, place := o.Get("remote_mount_command_allowlist"); n != nil {
		m.RemoteMountCommands = r.Texts(n, place)
	}
	if n, place := o.Get("skills"); n != nil {
		m.Skills = r.skills(n, place)
	}
	r.checkPaths(m)
	return m
}

// rootPath reads the root, which is kept as it was written (case MF-008).
func (r *reader) rootPath(n *document.Node, place *document.Place) string {
	s, ok := r.Text(n, place)
	switch {
	case !ok:
	case !strings.HasPrefix(s, "/"):
		r.Invalid(n.At, place, "value", "the root has to be an absolute path")
	case slices.Contains(components(posixPath(s)), ".."):
		r.Invalid(n.At, place, "value", `the root has ".." in it`)
	default:
		return s
	}
	return DefaultRoot
}

// users reads a list of users, each of them once.
func (r *reader) users(n *document.Node, place *document.Place) []User {
	out := []User{}
	seen := map[string]bool{}
	r.Items(n, place, func(n *document.Node, place *document.Place) {
		if o, ok := r.Object(n, place, userFields); ok {
			out = append(out, User{Name: r.accountName(o, seen)})
		}
	})
	return out
}

// groups reads a list of groups, each of them once.
func (r *reader) groups(n *document.Node, place *document.Place) []Group {
	out := []Group{}
	seen := map[string]bool{}
	r.Items(n, place, func(n *document.Node, place *document.Place) {
		o, ok := r.Object(n, place, groupFields)
		if !ok {
			return
		}
		g := Group{Name: r.accountName(o, seen)}
		if members, place := o.Get("users"); members != nil {
			g.Users = r.users(members, place)
		} else {
			o.Missing("users")
		}
		out = append(out, g)
	})
	return out
}

// entryGroup reads the group that owns an entry: a name, perhaps with members.
func (r *reader) entryGroup(n *document.Node, place *document.Place) *Group {
	o, ok := r.Object(n, place, groupFields)
	if !ok {
		return nil
	}
	g := &Group{Name: r.accountName(o, map[string]bool{})}
	if members, place := o.Get("users"); members != nil {
		g.Users = r.users(members, place)
	}
	return g
}

// accountName reads the name of a user or group and adds it to those seen. What
// passwd(5) and group(5) use between names cannot stand in one.
func (r *reader) accountName(o document.Fields, seen map[string]bool) string {
	name := o.Required("name")
	n, place := o.Get("name")
	switch {
	case name == "":
	case strings.ContainsAny(name, ":,/\n\t ") || strings.HasPrefix(name, "-"):
		r.Invalid(n.At, place, "value", "%q cannot be the name of an account", name)
	case seen[name]:
		r.Invalid(n.At, place, "value", "%q is there twice", name)
	}
	seen[name] = true
	return name
}

// grants reads the list of grants. The same path may be there more than once.
func (r *reader) grants(n *document.Node, place *document.Place) []Grant {
	out := []Grant{}
	r.Items(n, place, func(n *document.Node, place *document.Place) {
		if r.untrusted {
			r.refuseUntrusted(n.At, place, "a grant of a host path")
			return
		}
		o, ok := r.Object(n, place, grantFields)
		if !ok {
			return
		}
		g := Grant{ReadOnly: o.Flag("read_only", false), Description: o.Optional("description")}
		if o.Required("path") != "" {
			g.Path = r.grantPath(o, "path")
		}
		if o.Optional("host_path") != "" {
			g.HostPath = r.grantPath(o, "host_path")
		}
		out = append(out, g)
	})
	return out
}

// grantPath reads a path of a grant: absolute, made clean, and not the root of the
// file system, which would grant everything.
func (r *reader) grantPath(o document.Fields, name string) string {
	n, place := o.Get(name)
	p := path.Clean(n.Text)
	problem := ""
	switch {
	case !strings.HasPrefix(n.Text, "/"):
		problem = "the path has to be absolute"
	case p == "/":
		problem = "the path may not be the root of the file system"
	case name == "host_path" && strings.HasPrefix(n.Text, "//"):
		problem = "the path names a network or device"
	case name == "host_path" && slices.Contains(components(posixPath(n.Text)), ".."):
		problem = `the path has ".." in it`
	default:
		return p
	}
	r.Invalid(n.At, place, "value", "%s", problem)
	return ""
}

// refuseUntrusted adds the fault that a stranger's manifest reaches for the host.
func (r *reader) refuseUntrusted(at document.Position, place *document.Place, what string) {
	r.Refuse(at, place, fault.InvalidArgument, "untrusted",
		fmt.Sprintf("%s cannot come from a manifest that is not trusted; the caller has to give it", what))
}

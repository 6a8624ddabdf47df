package manifest

import (
	"fmt"
	"path"
	"slices"
	"strings"

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
func (r *reader) manifest(n *node) *Manifest {
	m := &Manifest{Root: DefaultRoot, RemoteMountCommands: slices.Clone(defaultRemoteMountCommands)}
	o, ok := r.object(n, nil, manifestFields)
	if !ok {
		return m
	}
	if n, place := o.get("version"); n != nil {
		r.integer(n, place, Version, Version)
	}
	if n, place := o.get("root"); n != nil {
		m.Root = r.rootPath(n, place)
	}
	if n, place := o.get("entries"); n != nil && n.kind != null {
		m.Entries = r.entries(n, place, ".")
	}
	if n, place := o.get("environment"); n != nil {
		m.Environment = r.environment(n, place)
	}
	if n, place := o.get("users"); n != nil {
		m.Users = r.users(n, place)
	}
	if n, place := o.get("groups"); n != nil {
		m.Groups = r.groups(n, place)
	}
	if n, place := o.get("extra_path_grants"); n != nil {
		m.Grants = r.grants(n, place)
	}
	if n, place := o.get("remote_mount_command_allowlist"); n != nil {
		m.RemoteMountCommands = r.texts(n, place)
	}
	if n, place := o.get("skills"); n != nil {
		m.Skills = r.skills(n, place)
	}
	r.checkPaths(m)
	return m
}

// rootPath reads the root, which is kept as it was written (case MF-008).
func (r *reader) rootPath(n *node, place *trail) string {
	s, ok := r.text(n, place)
	switch {
	case !ok:
	case !strings.HasPrefix(s, "/"):
		r.invalid(n.at, place, "value", "the root has to be an absolute path")
	case slices.Contains(components(posixPath(s)), ".."):
		r.invalid(n.at, place, "value", `the root has ".." in it`)
	default:
		return s
	}
	return DefaultRoot
}

// users reads a list of users, each of them once.
func (r *reader) users(n *node, place *trail) []User {
	out := []User{}
	seen := map[string]bool{}
	r.items(n, place, func(n *node, place *trail) {
		if o, ok := r.object(n, place, userFields); ok {
			out = append(out, User{Name: r.accountName(o, seen)})
		}
	})
	return out
}

// groups reads a list of groups, each of them once.
func (r *reader) groups(n *node, place *trail) []Group {
	out := []Group{}
	seen := map[string]bool{}
	r.items(n, place, func(n *node, place *trail) {
		o, ok := r.object(n, place, groupFields)
		if !ok {
			return
		}
		g := Group{Name: r.accountName(o, seen)}
		if members, place := o.get("users"); members != nil {
			g.Users = r.users(members, place)
		} else {
			o.missing("users")
		}
		out = append(out, g)
	})
	return out
}

// entryGroup reads the group that owns an entry: a name, perhaps with members.
func (r *reader) entryGroup(n *node, place *trail) *Group {
	o, ok := r.object(n, place, groupFields)
	if !ok {
		return nil
	}
	g := &Group{Name: r.accountName(o, map[string]bool{})}
	if members, place := o.get("users"); members != nil {
		g.Users = r.users(members, place)
	}
	return g
}

// accountName reads the name of a user or group and adds it to those seen. What
// passwd(5) and group(5) use between names cannot stand in one.
func (r *reader) accountName(o fieldsOf, seen map[string]bool) string {
	name := o.required("name")
	n, place := o.get("name")
	switch {
	case name == "":
	case strings.ContainsAny(name, ":,/\n\t ") || strings.HasPrefix(name, "-"):
		r.invalid(n.at, place, "value", "%q cannot be the name of an account", name)
	case seen[name]:
		r.invalid(n.at, place, "value", "%q is there twice", name)
	}
	seen[name] = true
	return name
}

// grants reads the list of grants. The same path may be there more than once.
func (r *reader) grants(n *node, place *trail) []Grant {
	out := []Grant{}
	r.items(n, place, func(n *node, place *trail) {
		if r.untrusted {
			r.refuseUntrusted(n.at, place, "a grant of a host path")
			return
		}
		o, ok := r.object(n, place, grantFields)
		if !ok {
			return
		}
		g := Grant{ReadOnly: o.flag("read_only", false), Description: o.optional("description")}
		if o.required("path") != "" {
			g.Path = r.grantPath(o, "path")
		}
		if o.optional("host_path") != "" {
			g.HostPath = r.grantPath(o, "host_path")
		}
		out = append(out, g)
	})
	return out
}

// grantPath reads a path of a grant: absolute, made clean, and not the root of the
// file system, which would grant everything.
func (r *reader) grantPath(o fieldsOf, name string) string {
	n, place := o.get(name)
	p := path.Clean(n.text)
	problem := ""
	switch {
	case !strings.HasPrefix(n.text, "/"):
		problem = "the path has to be absolute"
	case p == "/":
		problem = "the path may not be the root of the file system"
	case name == "host_path" && strings.HasPrefix(n.text, "//"):
		problem = "the path names a network or device"
	case name == "host_path" && slices.Contains(components(posixPath(n.text)), ".."):
		problem = `the path has ".." in it`
	default:
		return p
	}
	r.invalid(n.at, place, "value", "%s", problem)
	return ""
}

// refuseUntrusted adds the fault that a stranger's manifest reaches for the host.
func (r *reader) refuseUntrusted(at position, place *trail, what string) {
	r.refuse(at, place, fault.InvalidArgument, "untrusted",
		fmt.Sprintf("%s cannot come from a manifest that is not trusted; the caller has to give it", what))
}

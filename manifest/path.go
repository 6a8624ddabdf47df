package manifest

import (
	"path"
	"strings"
)

// The names in a manifest are POSIX paths. A backslash counts as a separator, and
// a Windows drive as the start of an absolute path: manifests travel between
// systems, and what is a name on one must not be an escape on the other.

// posixPath returns name with slashes only, without empty and "." components and
// without a trailing slash. ".." stays: where it leads depends on links. Exactly
// two leading slashes stay too, as POSIX (4.13 Pathname Resolution) lets them mean
// something of their own.
func posixPath(name string) string {
	name = strings.ReplaceAll(name, `\`, "/")
	rest := strings.TrimLeft(name, "/")
	prefix := name[:len(name)-len(rest)]
	if len(prefix) > 2 {
		prefix = "/"
	}
	var parts []string
	for part := range strings.SplitSeq(rest, "/") {
		if part != "" && part != "." {
			parts = append(parts, part)
		}
	}
	switch {
	case len(parts) > 0:
		return prefix + strings.Join(parts, "/")
	case prefix != "":
		return prefix
	default:
		return "."
	}
}

// components returns the components of a path made by posixPath, without its root.
func components(p string) []string {
	p = strings.TrimLeft(p, "/")
	if p == "" || p == "." {
		return nil
	}
	return strings.Split(p, "/")
}

// hasDrive reports whether name begins with a drive letter and a colon, as "C:" does.
func hasDrive(name string) bool {
	return len(name) >= 2 && name[1] == ':' &&
		('a' <= name[0] && name[0] <= 'z' || 'A' <= name[0] && name[0] <= 'Z')
}

// windowsAbsolute reports whether name is an absolute path with a drive. "C:x" is
// not: it is a name with a colon in it.
func windowsAbsolute(name string) bool {
	return hasDrive(name) && len(name) > 2 && (name[2] == '/' || name[2] == '\\')
}

// join returns the path of name below dir; both are made by posixPath and relative.
func join(dir, name string) string {
	switch {
	case dir == ".":
		return name
	case name == ".":
		return dir
	default:
		return dir + "/" + name
	}
}

// relativeProblem returns the reason for which a name made by posixPath may not
// name something in a workspace: "absolute" or "escape_root"; else "".
//
// Any ".." is refused, also one that would stay inside: "a/../b" is b only while a
// is no link, and an agent's process can make it one.
func relativeProblem(name string) (reason string) {
	if windowsAbsolute(name) || strings.HasPrefix(name, "/") {
		return "absolute"
	}
	for _, part := range components(name) {
		if part == ".." {
			return "escape_root"
		}
	}
	return ""
}

// ResolvePath returns the absolute path of name in a workspace at root, lexically.
//
// A name may be absolute only with allowAbsolute, and then must lie in root once it
// is cleaned. Errors are of the code fault.InvalidManifestPath with the reason
// "absolute" or "escape_root", and name the path as it was refused. What links do
// to the result is not looked at: internal/root does that when it opens the name.
func ResolvePath(root, name string, allowAbsolute bool) (string, error) {
	if windowsAbsolute(name) {
		return "", pathFault(posixPath(name), "absolute")
	}
	root, name = posixPath(root), posixPath(name)
	if strings.HasPrefix(name, "/") {
		if !allowAbsolute {
			return "", pathFault(name, "absolute")
		}
		clean := path.Clean(name)
		if _, ok := within(path.Clean(root), clean); !ok {
			return "", pathFault(clean, "absolute")
		}
		return clean, nil
	}
	if reason := relativeProblem(name); reason != "" {
		return "", pathFault(name, reason)
	}
	return below(root, name), nil
}

// below returns the path of the relative name below the absolute root; both are
// made by posixPath.
func below(root, name string) string {
	if name == "." {
		return root
	}
	return strings.TrimSuffix(root, "/") + "/" + name
}

// within returns p relative to root, component by component and without
// resolving "..", if it lies there.
func within(root, p string) (rel string, ok bool) {
	if p == root {
		return ".", true
	}
	rel, ok = strings.CutPrefix(p, strings.TrimSuffix(root, "/")+"/")
	return rel, ok
}

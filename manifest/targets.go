package manifest

import (
	"cmp"
	"slices"
	"strings"
)

// MountTarget is where a mount appears.
type MountTarget struct {
	Mount *Mount
	// Path is absolute: below the root, or outside it where the manifest says so.
	Path string
}

// MountTargets returns where each mount appears, the deepest first, so that mounts
// can be released in this order; mounts of equal depth keep their written order.
// They are made in the reverse order.
func (m *Manifest) MountTargets() ([]MountTarget, error) {
	var targets []MountTarget
	for name, e := range m.All() {
		mount, ok := e.(*Mount)
		if !ok {
			continue
		}
		target, err := mountTarget(m.root(), name, mount)
		if err != nil {
			return nil, err
		}
		targets = append(targets, MountTarget{Mount: mount, Path: target})
	}
	slices.SortStableFunc(targets, func(a, b MountTarget) int {
		return cmp.Compare(len(components(b.Path)), len(components(a.Path)))
	})
	return targets, nil
}

// mountTarget returns the absolute path at which the mount of the entry name
// appears in a workspace at root.
//
// A ".." is resolved lexically where the path stays inside the root, as the format
// has it (case MF-103): nothing exists there yet when mounts are made. In a path
// outside the root it is refused, since nobody can say there where it leads.
func mountTarget(root, name string, m *Mount) (string, error) {
	if m.Path == "" {
		return ResolvePath(root, name, false)
	}
	if windowsAbsolute(m.Path) {
		return "", pathFault(posixPath(m.Path), "absolute")
	}
	root = posixPath(root)
	target := posixPath(m.Path)
	if !strings.HasPrefix(target, "/") {
		target = below(root, target)
	}
	rel, inside := within(root, target)
	if !inside {
		if slices.Contains(components(target), "..") {
			return "", pathFault(target, "escape_root")
		}
		return target, nil
	}
	clean, ok := descend(rel)
	if !ok {
		return "", pathFault(target, "escape_root")
	}
	return below(root, clean), nil
}

// descend resolves the ".." components of a relative path lexically and reports
// whether the path stays where it starts all along its way.
func descend(rel string) (clean string, ok bool) {
	var parts []string
	for _, part := range components(rel) {
		if part != ".." {
			parts = append(parts, part)
			continue
		}
		if len(parts) == 0 {
			return "", false
		}
		parts = parts[:len(parts)-1]
	}
	if len(parts) == 0 {
		return ".", true
	}
	return strings.Join(parts, "/"), true
}

// ephemeral reports whether an entry is never saved. Storage mounts are never:
// what they show is kept elsewhere (case MF-093).
func ephemeral(e Entry) bool {
	_, mount := e.(*Mount)
	return mount || e.Common().Ephemeral
}

// EphemeralEntries returns the paths of the entries that are never saved and are
// built again on each start, sorted and relative to the workspace. What lies
// below such a directory is not listed for that alone.
func (m *Manifest) EphemeralEntries() []string {
	var paths []string
	for name, e := range m.All() {
		if ephemeral(e) {
			paths = append(paths, name)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// EphemeralPaths returns what a saved workspace leaves out: [Manifest.EphemeralEntries],
// and the places inside the workspace at which mounts appear. Sorted, and
// relative to the workspace.
func (m *Manifest) EphemeralPaths() ([]string, error) {
	paths := m.EphemeralEntries()
	targets, err := m.MountTargets()
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		if rel, ok := within(posixPath(m.root()), t.Path); ok && rel != "." {
			paths = append(paths, rel)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

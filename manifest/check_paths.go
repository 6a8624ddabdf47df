package manifest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/croftdev/croft/internal/document"
	"github.com/croftdev/croft/internal/fault"
)

// Limits of the kernel on names (NAME_MAX and PATH_MAX, limits.h(0p)): what passes
// them cannot be made, so it is a fault here and not in the middle of filling.
const (
	nameMax = 255
	pathMax = 4095
)

// maxComponents is the deepest path. It is croft's own: the kernel has no such limit,
// and nobody a use for it, but what is checked for each component above each entry
// has to stay cheap on a manifest that was made to cost time.
const maxComponents = 255

// located is an entry's name and where it is written.
type located struct {
	name  string // as it was written
	dir   string // path of what holds it
	at    document.Position
	place *document.Place
}

// paths are the entries that a manifest puts into the workspace.
type paths struct {
	all []placed
	// targets are the places of the mount_path fields.
	targets map[*Mount]document.Position
}

// placed is one entry with its path; entry is nil while or if it cannot be read.
type placed struct {
	located
	path  string
	entry Entry
	ok    bool
}

// reserve notes the entry at its path, before those below it, and returns its place for fill.
func (p *paths) reserve(at located, path string, ok bool) int {
	p.all = append(p.all, placed{located: at, path: path, ok: ok})
	return len(p.all) - 1
}

// fill says what stands at a place that reserve returned.
func (p *paths) fill(slot int, e Entry) { p.all[slot].entry = e }

// entryName returns the path in the workspace of a name in a directory, and
// whether it may stand there. The path is of use for what lies below in any case.
func (r *reader) entryName(at located) (string, bool) {
	refuse := func(path, reason, problem string) (string, bool) {
		r.RefusePath(at.at, at.place, fault.InvalidManifestPath, reason, path, problem)
		return at.dir, false
	}
	if strings.ContainsRune(at.name, 0) {
		return refuse(at.name, "name", "the name has a NUL character in it")
	}
	name := posixPath(at.name)
	if relativeProblem(name) == "absolute" {
		return refuse(name, "absolute", pathProblem("absolute"))
	}
	full := join(at.dir, name)
	if reason := relativeProblem(full); reason != "" {
		return refuse(full, reason, pathProblem(reason))
	}
	parts := components(full)
	if len(parts) > maxComponents {
		return refuse(full, "name", fmt.Sprintf("the path has more than %d components", maxComponents))
	}
	for _, part := range parts {
		if len(part) > nameMax {
			return refuse(full, "name", fmt.Sprintf("a name is longer than %d bytes", nameMax))
		}
	}
	if len(full) > pathMax {
		return refuse(full, "name", fmt.Sprintf("the path is longer than %d bytes", pathMax))
	}
	return full, true
}

// checkPaths checks the entries against each other: each path once, nothing below
// a file, nothing but a directory for the workspace itself, and each mount's target once.
func (r *reader) checkPaths(m *Manifest) {
	first := map[string]placed{}
	for _, p := range r.paths.all {
		if !p.ok {
			continue
		}
		if other, doubled := first[p.path]; doubled {
			r.RefusePath(p.at, p.place, fault.InvalidManifestPath, "duplicate", p.path,
				fmt.Sprintf("two entries for one path; the first is %s in line %d", other.place, other.at.Line))
			continue
		}
		first[p.path] = p
		if p.path == "." && p.entry != nil && !isTree(p.entry) {
			r.RefusePath(p.at, p.place, fault.InvalidManifestPath, "not_directory", ".",
				fmt.Sprintf("a %s cannot be the workspace itself; give it a name", p.entry.Type()))
		}
	}
	above := ancestors{entries: first, files: map[string]*placed{}}
	for _, p := range r.paths.all {
		if !p.ok {
			continue
		}
		if file := above.file(p.path); file != nil {
			r.RefusePath(p.at, p.place, fault.InvalidManifestPath, "below_file", p.path,
				fmt.Sprintf("the entry lies below a file, %s in line %d", file.place, file.at.Line))
		}
	}
	r.checkTargets(m)
}

// isTree reports whether an entry can be the workspace itself.
func isTree(e Entry) bool {
	_, mount := e.(*Mount)
	return e.IsDir() && !mount
}

// ancestors finds the files above paths. It remembers what it found, so that many
// entries below one deep directory cost no more than that directory.
type ancestors struct {
	entries map[string]placed
	files   map[string]*placed // by directory
}

// file returns the entry above path that is a file, or nil.
func (a ancestors) file(path string) *placed {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return nil
	}
	dir := path[:i]
	found, known := a.files[dir]
	if !known {
		if p, ok := a.entries[dir]; ok && p.entry != nil && !p.entry.IsDir() {
			found = &p
		} else {
			found = a.file(dir)
		}
		a.files[dir] = found
	}
	return found
}

// checkTargets checks where the mounts appear.
func (r *reader) checkTargets(m *Manifest) {
	first := map[string]placed{}
	for _, p := range r.paths.all {
		mount, ok := p.entry.(*Mount)
		if !ok || !p.ok {
			continue
		}
		at, written := r.paths.targets[mount]
		if !written {
			at = p.at
		}
		place := document.Child(p.place, "mount_path")
		target, err := mountTarget(m.root(), p.path, mount)
		if e, ok := errors.AsType[*fault.Error](err); ok {
			r.RefusePath(at, place, e.Code, e.Reason, e.Path, e.Message)
			continue
		}
		if other, doubled := first[target]; doubled {
			r.Refuse(at, place, fault.MountConfigInvalid, "duplicate",
				fmt.Sprintf("two mounts at %s; the first is %s in line %d", target, other.place, other.at.Line))
			continue
		}
		first[target] = p
	}
}

package manifest

import (
	"fmt"
	"strings"

	"github.com/croftdev/croft/internal/document"
	"github.com/croftdev/croft/internal/fault"
)

// skillFields are the fields of a skill's source by its type.
var skillFields = map[string][]string{
	"local_dir": {"type", "src", "symlinks"},
	"git_repo":  {"type", "host", "repo", "ref", "subpath"},
}

// skillTypes are the types of sources, in the order of the reference.
var skillTypes = []string{"local_dir", "git_repo"}

// skills reads the map of skills.
func (r *reader) skills(n *document.Node, place *document.Place) []Skill {
	var out []Skill
	o, ok := r.Object(n, place, nil)
	if !ok {
		return out
	}
	o.Each(func(f document.Field, place *document.Place) {
		if problem := skillNameProblem(f.Name); problem != "" {
			r.RefusePath(f.At, place, fault.SkillsConfigInvalid, "name", f.Name, problem)
		}
		if source := r.skillSource(f.Value, place); source != nil {
			out = append(out, Skill{Name: f.Name, Source: source})
		}
	})
	return out
}

// skillNameProblem returns what is wrong with a skill's name. It becomes the name
// of a directory and is shown to an agent, so it is one plain word.
func skillNameProblem(name string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	switch {
	case name == "" || len(name) > 64:
		return "the name of a skill has 1 to 64 characters"
	case strings.Trim(name, letters) != "" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-"):
		return fmt.Sprintf("%q cannot be the name of a skill: letters, digits, -, _ and . only, a letter, digit or _ first", name)
	}
	return ""
}

// skillSource reads where a skill's folder comes from.
func (r *reader) skillSource(n *document.Node, place *document.Place) Entry {
	typ, ok := r.entryType(n, place, skillTypes)
	if !ok {
		return nil
	}
	o, _ := r.Object(n, place, skillFields[typ])
	if typ == "git_repo" {
		return r.gitRepo(o)
	}
	// A skill without a source would be a folder without its SKILL.md.
	return &LocalDir{Src: r.hostSource(o, "src", true), Symlinks: r.symlinks(o)}
}

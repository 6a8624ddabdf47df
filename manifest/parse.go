package manifest

import (
	"cmp"
	"fmt"

	"github.com/croftdev/croft/internal/document"
	"github.com/croftdev/croft/internal/fault"
)

// Format is the notation of a manifest.
type Format = document.Format

// The notations. Auto takes the one that Options.Name ends in, else JSON where the
// first character is "{", else YAML.
const (
	Auto = document.Auto
	JSON = document.JSON
	YAML = document.YAML
)

// reader turns nodes into the checked values of a manifest.
type reader struct {
	*document.Reader
	untrusted bool
	paths     paths
}

// Options says how to read a manifest. The zero value reads a trusted one.
type Options struct {
	// Format is the notation; Auto by default.
	Format Format
	// Name is the manifest's name in error messages, such as its file's; "manifest" by default.
	Name string
	// Untrusted refuses what reaches for the host: extra_path_grants, local_file,
	// local_dir and skills with a source on the host, host variables and host files
	// in the environment, and credential files of mounts. A manifest that came over
	// the network or from an agent is read so; what it needs of the host its caller adds.
	Untrusted bool
}

// Parse reads and checks a manifest. On an error the manifest is nil and the
// error is the first of those that [Check] returns.
func Parse(data []byte, opts Options) (*Manifest, error) {
	m, faults := Check(data, opts)
	if len(faults) > 0 {
		return nil, faults[0]
	}
	return m, nil
}

// Check reads and checks a manifest and returns every fault in it, in the order of
// their places in the text; the manifest is nil if there is one. Where the text is
// not well-formed, or passes a limit, that is the only fault.
//
// Each fault has in its Details "place" (the names that lead to it, joined by
// dots: "entries.src/app.py.permissions"; "." for the whole), "line" and "column"
// (from 1, in characters) and "problem" (the message without them). Codes:
// fault.InvalidManifestPath for names (Path is the name; Reason "absolute",
// "escape_root", "duplicate", "below_file", "not_directory" or "name"),
// fault.MountConfigInvalid, fault.GitSubpathError, fault.SkillsConfigInvalid,
// fault.LimitExceeded, and fault.InvalidArgument for all else (Reason "syntax",
// "unknown_field", "duplicate_field", "missing_field", "type", "value",
// "permissions" or "untrusted").
func Check(data []byte, opts Options) (*Manifest, []*fault.Error) {
	r := &reader{
		Reader: document.NewReader(document.Source{
			Noun: "manifest", Name: cmp.Or(opts.Name, "manifest"), Format: opts.Format,
			Limits: document.Limits{Bytes: MaxBytes, Nodes: MaxNodes, Depth: MaxDepth, YAMLTokens: MaxYAMLTokens},
		}),
		untrusted: opts.Untrusted, paths: paths{targets: map[*Mount]document.Position{}},
	}
	tree := r.Parse(data)
	if tree == nil {
		return nil, r.Faults()
	}
	m := r.manifest(tree)
	if r.OK() {
		r.checkForm(m)
	}
	if !r.OK() {
		return nil, r.Faults()
	}
	return m, nil
}

// checkForm holds the normal form to the limits too. It is larger than most of what
// it is made of, and what croft writes down it has to be able to read back.
func (r *reader) checkForm(m *Manifest) {
	form, err := m.form()
	if err != nil {
		panic(fmt.Sprintf("manifest: a parsed manifest has no normal form: %v", err))
	}
	data, err := form.MarshalJSON()
	if err != nil {
		panic(fmt.Sprintf("manifest: a normal form is no JSON: %v", err))
	}
	w := weigh(form)
	w.Bytes = len(data)
	r.Weigh(w, " with its defaults written out")
}

// Checked returns a copy of m that went through the same checks as a parsed
// manifest. A program that builds a manifest by hand calls it through croft.Create.
// Places in its errors are lines and columns of m's normal form, which
// [Manifest.MarshalJSON] writes.
func (m *Manifest) Checked() (*Manifest, error) {
	data, err := m.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return Parse(data, Options{Format: JSON})
}

// pathFault returns the error for a name that may not stand in a manifest.
func pathFault(name, reason string) *fault.Error {
	return &fault.Error{
		Code: fault.InvalidManifestPath, Op: "manifest", Path: name, Reason: reason,
		Message: pathProblem(reason), Retry: fault.RetryNo,
	}
}

// pathProblem says in words what a reason of fault.InvalidManifestPath means.
func pathProblem(reason string) string {
	switch reason {
	case "absolute":
		return "the path is absolute; write it relative to the workspace"
	case "escape_root":
		return `the path has ".." in it; name what it leads to`
	default:
		panic(fmt.Sprintf("manifest: no words for the reason %q", reason))
	}
}

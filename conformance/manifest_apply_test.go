package conformance

import (
	"path/filepath"

	apply "github.com/croftdev/croft/internal/fill" // the package already has a function fill
	"github.com/croftdev/croft/internal/root"
)

// runApply fills ${ROOT} from the manifest. Sources lie below ${HOST}, or where a
// grant of the manifest, which is trusted here, says so.
func runApply(e *env, op *fields) (outcome, error) {
	only := op.flag("only_ephemeral")
	m, err := parseManifest(op)
	if err != nil {
		return nil, err
	}
	t, err := root.Open(root.Options{Path: e.root, Spellings: []string{m.Root}})
	e.check(err)
	defer func() { e.check(t.Close()) }()
	opts := apply.Options{Base: e.host, OnlyEphemeral: only}
	for _, g := range m.Grants {
		opts.Sources = append(opts.Sources, g.Path)
	}
	report, err := apply.Apply(e.ctx, t, m, opts)
	// The cases name the files whose content came from the host.
	files := []map[string]string{}
	for _, f := range report.Files {
		if f.Local {
			files = append(files, map[string]string{"path": filepath.Join(e.root, f.Path), "sha256": f.SHA256})
		}
	}
	return outcome{"files": files}, err
}

package conformance

import (
	"fmt"

	"github.com/croftdev/croft/internal/root"
	"github.com/croftdev/croft/manifest"
)

func init() {
	register(area{
		name: "path_policy",
		calls: map[string]call{
			"absolute":   {fields: "path", run: runAbsolute},
			"relative":   {fields: "path", run: runRelative},
			"new_policy": {run: runNewPolicy},
			"normalize":  {fields: "path", run: runNormalize},
			"new_grant":  {fields: "grant", match: map[string]match{"grant": subset}, run: runNewGrant},
			"resolve":    {fields: "path", run: runResolve},
			"rm_target":  {fields: "path", run: runRemovalTarget},
		},
	})
}

func runAbsolute(e *env, op *fields) (outcome, error) {
	path := op.str("path")
	names, err := lexicalNames(e, op)
	if err != nil {
		return nil, err
	}
	path, err = names.Absolute(path)
	return outcome{"path": path}, err
}

func runRelative(e *env, op *fields) (outcome, error) {
	path := op.str("path")
	names, err := lexicalNames(e, op)
	if err != nil {
		return nil, err
	}
	path, err = names.Relative(path)
	return outcome{"path": path}, err
}

func runNewPolicy(e *env, op *fields) (outcome, error) {
	_, err := lexicalNames(e, op)
	return nil, err
}

func runNormalize(e *env, op *fields) (outcome, error) {
	path, write := op.str("path"), op.flag("for_write")
	names, err := lexicalNames(e, op)
	if err != nil {
		return nil, err
	}
	path, err = names.Normalize(path, write)
	return outcome{"path": path}, err
}

// lexicalNames returns the rules for the workspace that op names by root and grants;
// nothing of it need exist.
func lexicalNames(e *env, op *fields) (*root.Names, error) {
	workspace := op.str("root")
	e.workspaces = append(e.workspaces, workspace)
	return root.NewNames(workspace, nil, rootGrants(op))
}

// runNewGrant reads the grant as a manifest does, and then as a workspace is opened
// with it: both must agree.
func runNewGrant(e *env, op *fields) (outcome, error) {
	text := fmt.Appendf(nil, `{"extra_path_grants":[%s]}`, op.raw("grant"))
	m, err := manifest.Parse(text, manifest.Options{Format: manifest.JSON})
	if err != nil {
		return nil, err
	}
	g := m.Grants[0]
	again, err := root.ParseGrant(root.Grant(g))
	if err != nil {
		return nil, err
	}
	if again != root.Grant(g) {
		e.fatalf("the manifest reads the grant as %+v, the workspace as %+v", g, again)
	}
	out := map[string]any{"path": g.Path, "read_only": g.ReadOnly, "description": nullable(g.Description), "host_path": nullable(g.HostPath)}
	return outcome{"grant": out}, nil
}

func runResolve(e *env, op *fields) (outcome, error) {
	path, write := op.str("path"), op.flag("for_write")
	t, err := openTree(e, op)
	if err != nil {
		return nil, err
	}
	path, err = t.Resolve(e.ctx, path, root.ResolveOptions{ForWrite: write})
	return outcome{"path": path}, err
}

func runRemovalTarget(e *env, op *fields) (outcome, error) {
	path := op.str("path")
	t, err := openTree(e, op)
	if err != nil {
		return nil, err
	}
	path, err = t.RemovalTarget(e.ctx, path, nil)
	return outcome{"path": path}, err
}

// openTree opens the workspace that op names by root and grants.
func openTree(e *env, op *fields) (*root.Tree, error) {
	t, err := root.Open(root.Options{Path: op.str("root"), Grants: rootGrants(op)})
	if err == nil {
		e.cleanup(func() { e.check(t.Close()) })
	}
	return t, err
}

// rootGrants reads the argument grants.
func rootGrants(op *fields) []root.Grant {
	var grants []root.Grant
	for _, g := range op.objects("grants") {
		description, _ := g.optStr("description")
		host, _ := g.optStr("host_path")
		grants = append(grants, root.Grant{Path: g.str("path"), ReadOnly: g.flag("read_only"), Description: description, HostPath: host})
	}
	return grants
}

// nullable writes an empty text as the cases do: null.
func nullable(s string) any {
	if s == "" {
		return nil
	}
	return s
}

package croft

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/fill"
	"github.com/croftdev/croft/internal/state"
	"github.com/croftdev/croft/manifest"
	"github.com/croftdev/croft/policy"
)

// kept is what a session's record holds of its CreateOptions beside the fields of
// the record itself.
type kept struct {
	BaseDir     string            `json:"base_dir,omitempty"`
	Env         map[string]string `json:"env,omitempty"`
	PassEnv     []string          `json:"pass_env,omitempty"`
	PrivateHome bool              `json:"private_home,omitempty"`
	Mounts      []string          `json:"mounts,omitempty"`
	// Disposable: the session goes when its holder has ended without deleting it.
	Disposable bool `json:"disposable,omitempty"`
	// Generated says that croft chose the place of the workspace.
	Generated bool `json:"generated,omitempty"`
}

// plan is a session's record in the form that the session works with.
type plan struct {
	manifest *manifest.Manifest
	policy   policy.Policy
	kept     kept
	grants   []manifest.Grant // of the manifest and of the program
}

// newRecord checks opts and turns them into the first record of a session.
func (c *Client) newRecord(opts CreateOptions) (state.Record, error) {
	m := opts.Manifest
	if m == nil {
		m = &manifest.Manifest{}
	}
	m, err := m.Checked()
	if err != nil {
		return state.Record{}, err
	}
	if err := fill.Supported(m); err != nil {
		return state.Record{}, err
	}
	pol := c.cfg.Policy
	if opts.Policy != nil {
		pol = *opts.Policy
	}
	if err := pol.Check(); err != nil {
		return state.Record{}, invalidOption("policy", err)
	}
	rec := state.Record{ID: state.NewID(), RootOwned: opts.Root == "", Phase: state.Created}
	rec.Snapshot = c.dir.SnapshotSpec(opts.Snapshot, rec.ID)
	ports, err := state.NewPorts(opts.ExposedPorts)
	if err != nil {
		return state.Record{}, err
	}
	rec.ExposedPorts = ports
	for _, g := range slices.Concat(m.Grants, opts.Grants) {
		if within(resolveExisting(filepath.Clean(g.Path)), resolveExisting(c.dir.Path())) {
			return state.Record{}, &fault.Error{Code: fault.InvalidArgument, Op: "create", Path: g.Path, Reason: "grant_refused", Retry: fault.RetryNo,
				Message: "this path lies in croft's own state, which no session may reach"}
		}
	}
	for _, g := range opts.Grants {
		rec.Grants = append(rec.Grants, state.Grant{Path: g.Path, ReadOnly: g.ReadOnly, Description: g.Description, HostPath: g.HostPath})
	}
	k := kept{Env: opts.Env, PassEnv: opts.PassEnv, PrivateHome: opts.PrivateHome, Disposable: opts.Disposable, Generated: opts.Root == ""}
	if k.BaseDir, err = filepath.Abs(opts.BaseDir); err != nil {
		return state.Record{}, invalidOption("base_dir", err)
	}
	if k.Mounts, err = mountNames(opts.Mounts); err != nil {
		return state.Record{}, err
	}
	if opts.Root != "" {
		if rec.Root, err = c.callersRoot(opts.Root, opts.AllowHome); err != nil {
			return state.Record{}, err
		}
	}
	if rec.Manifest, err = json.Marshal(m); err == nil {
		if rec.Policy, err = json.Marshal(pol); err == nil {
			rec.Options, err = json.Marshal(k)
		}
	}
	if err != nil {
		return state.Record{}, fmt.Errorf("encode session record: %w", err)
	}
	return rec, nil
}

// planOf reads the record back.
func planOf(rec state.Record) (plan, error) {
	var p plan
	var err error
	if p.manifest, err = manifest.Parse(rec.Manifest, manifest.Options{}); err != nil {
		return plan{}, badRecord(rec, err)
	}
	if len(rec.Policy) > 0 {
		if err := json.Unmarshal(rec.Policy, &p.policy); err != nil {
			return plan{}, badRecord(rec, err)
		}
	}
	if len(rec.Options) > 0 {
		if err := json.Unmarshal(rec.Options, &p.kept); err != nil {
			return plan{}, badRecord(rec, err)
		}
	}
	p.grants = slices.Clone(p.manifest.Grants)
	for _, g := range rec.Grants {
		p.grants = append(p.grants, manifest.Grant{Path: g.Path, ReadOnly: g.ReadOnly, Description: g.Description, HostPath: g.HostPath})
	}
	return p, nil
}

func badRecord(rec state.Record, cause error) error {
	return &fault.Error{Code: fault.StateCorrupt, Op: "load", Reason: "unreadable", Retry: fault.RetryNo, Err: cause,
		Message: "the record of session " + rec.ID.String() + " does not hold what this croft understands"}
}

func invalidOption(name string, cause error) error {
	return &fault.Error{Code: fault.InvalidArgument, Op: "create", Reason: name, Retry: fault.RetryNo, Err: cause,
		Message: "the option " + name + " is not valid"}
}

// mountNames returns the names clean, each once, deepest first, which is the order
// in which they are released.
func mountNames(names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		clean := filepath.Clean(name)
		if name == "" || filepath.IsAbs(clean) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") {
			return nil, invalidOption("mounts", fmt.Errorf("%q is not a name below the workspace", name))
		}
		if !slices.Contains(out, clean) {
			out = append(out, clean)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return out, nil
}

// callersRoot returns the canonical spelling-independent form of a root that the
// caller chose, and refuses places where a workspace would expose what it must not.
//
// This is a guard against a mistake of the caller and not against an attacker: the
// root is opened once at Start, and everything after that works by descriptor.
func (c *Client) callersRoot(name string, allowHome bool) (string, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", invalidOption("root", err)
	}
	// The last component may not exist yet; what exists of it is resolved.
	canonical := resolveExisting(abs)
	state := resolveExisting(c.dir.Path())
	refuse := func(why string) error {
		return &fault.Error{Code: fault.InvalidArgument, Op: "create", Path: name, Reason: "root_refused", Retry: fault.RetryNo,
			Message: "this directory may not be a workspace: " + why + "; choose a project directory, or allow it by name (--allow-home)"}
	}
	switch {
	case within(canonical, state):
		// No option allows this one: the agent could rewrite its own grants.
		return "", &fault.Error{Code: fault.InvalidArgument, Op: "create", Path: name, Reason: "root_refused", Retry: fault.RetryNo,
			Message: "this directory lies in croft's own state and can never be a workspace"}
	case allowHome:
		return abs, nil
	case canonical == "/":
		return "", refuse("it is the root of the file system")
	case within(state, canonical):
		return "", refuse("it contains croft's own state")
	}
	for _, home := range homes() {
		if within(resolveExisting(home), canonical) {
			return "", refuse("it is, or contains, a home directory")
		}
	}
	return abs, nil
}

// homes returns the home directories that a workspace must not be or contain: this
// user's, and root's.
func homes() []string {
	out := []string{"/root", "/home"}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		out = append(out, home)
	}
	return out
}

// resolveExisting returns path without links as far as it exists.
func resolveExisting(path string) string {
	rest := ""
	for p := path; ; {
		//nolint:forbidigo // a guard against mistakes: what is used is opened by root.Open, later
		if resolved, err := filepath.EvalSymlinks(p); err == nil {
			return filepath.Join(resolved, rest)
		}
		if p == "/" || p == "." {
			return filepath.Clean(path)
		}
		rest = filepath.Join(filepath.Base(p), rest)
		p = filepath.Dir(p)
	}
}

// within reports whether name is dir or lies below it; both are clean and absolute.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

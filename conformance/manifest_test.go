package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/croftdev/croft/internal/endpoint"
	"github.com/croftdev/croft/manifest"
)

func init() {
	register(area{
		name:  "manifest",
		makes: []string{"ROOT", "HOST"},
		calls: map[string]call{
			"parse":                       {fields: "manifest", match: map[string]match{"manifest": subset}, run: runParseManifest},
			"validate":                    {fields: "paths", run: runValidateManifest},
			"describe":                    {fields: "text", run: runDescribe},
			"truncate":                    {fields: "length unchanged max_chars omitted kept_prefix_length", run: runTruncate},
			"ephemeral_entry_paths":       {fields: "paths", run: runEphemeralEntries},
			"ephemeral_persistence_paths": {fields: "paths", run: runEphemeralPaths},
			"mount_targets":               {fields: "paths", run: runMountTargets},
			"environment":                 {fields: "resolved serialized", run: runEnvironment},
			"git_subpath":                 {fields: "subpath", run: runGitSubpath},
			"git_ref_is_commit":           {fields: "commit", run: runGitRef},
			"permissions_parse":           {fields: "text mode", run: runPermissionsParse},
			"permissions_mode":            {fields: "text", run: runPermissionsMode},
			"endpoint_url":                {fields: "url", run: runEndpointURL},
			"resolve_workspace_path":      {fields: "path", run: runResolveWorkspacePath},
			"apply":                       {fields: "files", match: map[string]match{"files": unordered(equal)}, run: runApply},
		},
	})
}

// parseManifest parses the manifest of a case, as a program does that trusts it.
func parseManifest(op *fields) (*manifest.Manifest, error) {
	return manifest.Parse(op.raw("manifest"), manifest.Options{Format: manifest.JSON})
}

func runParseManifest(_ *env, op *fields) (outcome, error) {
	m, err := parseManifest(op)
	return outcome{"manifest": m}, err
}

func runValidateManifest(_ *env, op *fields) (outcome, error) {
	m, err := parseManifest(op)
	if err != nil {
		return nil, err
	}
	paths := []string{}
	for path := range m.All() {
		paths = append(paths, path)
	}
	return outcome{"paths": paths}, nil
}

func runDescribe(_ *env, op *fields) (outcome, error) {
	depth, limit := 1, manifest.DescribeChars
	if op.has("depth") {
		var given bool
		if depth, given = op.optNum("depth"); !given {
			depth = manifest.AllLevels
		}
	}
	if op.has("max_chars") {
		var given bool
		if limit, given = op.optNum("max_chars"); !given {
			limit = manifest.NoLimit
		}
	}
	m, err := parseManifest(op)
	if err != nil {
		return nil, err
	}
	text, err := m.Describe(depth, limit)
	return outcome{"text": text}, err
}

func runTruncate(_ *env, op *fields) (outcome, error) {
	text := strings.Repeat(op.str("text_unit"), op.num("repeat"))
	limit, limited := op.optNum("max_chars")
	if !limited {
		limit = manifest.NoLimit
	}
	got := manifest.Truncate(text, limit)
	out := outcome{"length": utf8.RuneCountInString(got), "unchanged": got == text, "max_chars": nil}
	if limited {
		out["max_chars"] = limit
	}
	a, b := []rune(text), []rune(got)
	kept := 0
	for kept < len(b) && kept < len(a) && a[kept] == b[kept] {
		kept++
	}
	out["kept_prefix_length"] = kept
	// The number stands in the first line of the note.
	if _, note, ok := strings.Cut(got[len(string(b[:kept])):], "("); ok {
		digits, _, _ := strings.Cut(note, " ")
		if n, err := strconv.Atoi(digits); err == nil {
			out["omitted"] = n
		}
	}
	return out, nil
}

func runEphemeralEntries(_ *env, op *fields) (outcome, error) {
	m, err := parseManifest(op)
	if err != nil {
		return nil, err
	}
	return outcome{"paths": slices.Concat([]string{}, m.EphemeralEntries())}, nil
}

func runEphemeralPaths(_ *env, op *fields) (outcome, error) {
	m, err := parseManifest(op)
	if err != nil {
		return nil, err
	}
	paths, err := m.EphemeralPaths()
	return outcome{"paths": slices.Concat([]string{}, paths)}, err
}

func runMountTargets(_ *env, op *fields) (outcome, error) {
	m, err := parseManifest(op)
	if err != nil {
		return nil, err
	}
	targets, err := m.MountTargets()
	paths := []string{}
	for _, t := range targets {
		paths = append(paths, t.Path)
	}
	return outcome{"paths": paths}, err
}

func runEnvironment(e *env, op *fields) (outcome, error) {
	data, err := json.Marshal(map[string]json.RawMessage{"environment": op.raw("environment")})
	e.check(err)
	m, err := manifest.Parse(data, manifest.Options{Format: manifest.JSON})
	if err != nil {
		return nil, err
	}
	list, err := m.Environment.Resolve(context.Background(), manifest.Lookup{})
	if err != nil {
		return nil, err
	}
	resolved := map[string]string{}
	for _, v := range list {
		resolved[v.Name] = v.Value
	}
	var form struct {
		Environment struct{ Value json.RawMessage }
	}
	data, err = json.Marshal(m)
	e.check(err)
	e.check(json.Unmarshal(data, &form))
	return outcome{"resolved": resolved, "serialized": form.Environment.Value}, nil
}

func runGitSubpath(e *env, op *fields) (outcome, error) {
	entry := map[string]any{"type": "git_repo", "repo": "o/n", "ref": "main", "subpath": op.value("subpath")}
	data, err := json.Marshal(map[string]any{"entries": map[string]any{"r": entry}})
	e.check(err)
	m, err := manifest.Parse(data, manifest.Options{Format: manifest.JSON})
	if err != nil {
		return nil, err
	}
	repo, ok := m.Entries[0].Entry.(*manifest.GitRepo)
	if !ok || repo.Dir == "" {
		return outcome{"subpath": nil}, nil
	}
	return outcome{"subpath": repo.Dir}, nil
}

func runGitRef(_ *env, op *fields) (outcome, error) {
	return outcome{"commit": manifest.IsCommitRef(op.str("ref"))}, nil
}

func runPermissionsParse(_ *env, op *fields) (outcome, error) {
	p, err := manifest.ParsePermissions(op.str("text"))
	return outcome{"text": p.String(), "mode": fmt.Sprintf("%06o", p.Mode())}, err
}

func runPermissionsMode(e *env, op *fields) (outcome, error) {
	mode, err := strconv.ParseUint(op.str("mode"), 8, 32)
	e.check(err)
	return outcome{"text": manifest.PermissionsFromMode(uint32(mode)).String()}, nil
}

func runEndpointURL(_ *env, op *fields) (outcome, error) {
	o := op.object("endpoint")
	at := endpoint.Endpoint{Host: o.str("host"), Port: o.num("port"), TLS: o.flag("tls")}
	at.Query, _ = o.optStr("query")
	url, err := at.URL(op.str("scheme"))
	return outcome{"url": url}, err
}

func runResolveWorkspacePath(_ *env, op *fields) (outcome, error) {
	path, err := manifest.ResolvePath(op.str("root"), op.str("path"), op.flag("allow_absolute"))
	return outcome{"path": path}, err
}

package manifest

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/croftdev/croft/internal/fault"
)

// parseFile parses a manifest of testdata/good.
func parseFile(t *testing.T, name string) *Manifest {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/good", name))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Parse(data, Options{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestGood parses each manifest of testdata/good, and its normal form again, to the same
// value; that also in YAML, of which JSON is a part.
func TestGood(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d manifests, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := parseFile(t, filepath.Base(file))
			checkAccepted(t, m)
			form, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			for _, format := range []Format{JSON, YAML} {
				again, err := Parse(form, Options{Format: format})
				if err != nil {
					t.Fatalf("%s: %v", format, err)
				}
				if diff := cmp.Diff(m, again, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s: parsed twice (-once +twice):\n%s", format, diff)
				}
			}
		})
	}
}

// TestAll checks one manifest that has one of everything.
func TestAll(t *testing.T) {
	m := parseFile(t, "all.yaml")
	var names, types []string
	for name, e := range m.All() {
		names, types = append(names, name), append(types, e.Type())
	}
	wantNames := []string{
		"README.md", "bin/run", "data.bin", "10", "docs", "docs/guide.md", "docs/api", "vendor/lib", "cache",
		"s3", "gcs", "r2", "azure", "box", "files",
	}
	wantTypes := []string{
		"file", "file", "file", "dir", "dir", "local_file", "local_dir", "git_repo", "local_dir",
		"s3_mount", "gcs_mount", "r2_mount", "azure_blob_mount", "box_mount", "s3_files_mount",
	}
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantTypes, types); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	wantRun := &File{
		Meta:    Meta{Permissions: &Permissions{Owner: 7, Group: 5}},
		Content: []byte("#!/bin/sh\n"),
	}
	if diff := cmp.Diff(wantRun, m.Entries[1].Entry); diff != "" {
		t.Errorf("bin/run (-want +got):\n%s", diff)
	}
	if got := m.Entries[1].Entry.Common().Perm(); got != 0o750 {
		t.Errorf("bin/run has the mode %o, want 0750", got)
	}
	wantRepo := &GitRepo{
		Meta: Meta{Permissions: &Permissions{Owner: 7, Group: 5, Other: 5, Directory: true}},
		Host: "github.com", Repo: "owner/lib", Ref: "abc1234", Commit: true, Subpath: "./src", Dir: "src",
	}
	if diff := cmp.Diff(wantRepo, m.Entries[5].Entry); diff != "" {
		t.Errorf("vendor/lib (-want +got):\n%s", diff)
	}
	wantEnv := Environment{
		{Name: "CI", Value: Text{Text: "1"}},
		{Name: "GREETING", Value: Text{Text: "hi", Typed: true}},
		{Name: "MODE", Value: Text{Text: "dev", Typed: true}, Entry: true, Description: "what to build", Ephemeral: true},
		{Name: "TOKEN", Value: HostVariable{Name: "APP_TOKEN"}},
		{Name: "CERT", Value: HostFile{Path: "./cert.pem"}, Entry: true, Description: "certificate"},
	}
	if diff := cmp.Diff(wantEnv, m.Environment); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	wantGrants := []Grant{
		{Path: "/usr/share/dict", ReadOnly: true, Description: "words"},
		{Path: "/mnt/x", HostPath: "/data/x"},
	}
	if diff := cmp.Diff(wantGrants, m.Grants); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
	if got := []string{m.Skills[0].Name, m.Skills[1].Source.(*GitRepo).Dir}; !slices.Equal(got, []string{"pdf", "review"}) {
		t.Errorf("skills = %v", got)
	}
}

// TestUntrusted accepts from a stranger what does not reach for the host.
func TestUntrusted(t *testing.T) {
	const text = `{"entries": {"a": {"type": "file", "content": "x"}, "d": {"type": "local_dir"},
		"r": {"type": "git_repo", "repo": "o/n", "ref": "main"}}, "environment": {"A": "1"}, "extra_path_grants": []}`
	if _, err := Parse([]byte(text), Options{Untrusted: true}); err != nil {
		t.Error(err)
	}
}

func TestFormat(t *testing.T) {
	const json, yaml = `{"version": 1}`, "version: 1\n"
	for _, tt := range []struct {
		name, text string
		opts       Options
		ok         bool
	}{
		{"JSON by its first character", " \n" + json, Options{}, true},
		{"YAML by its first character", yaml, Options{}, true},
		{"YAML by its name", "{version: 1}", Options{Name: "a.YML"}, true},
		{"flow style of YAML is no JSON", "{version: 1}", Options{}, false},
		{"JSON by its name", yaml, Options{Name: "a.json"}, false},
		{"the format before the name", yaml, Options{Name: "a.json", Format: YAML}, true},
		{"unknown format", json, Options{Format: "toml"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.text), tt.opts)
			if (err == nil) != tt.ok {
				t.Errorf("Parse = %v, want success %t", err, tt.ok)
			}
			if err != nil && !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("Parse = %v, want %s", err, fault.InvalidArgument)
			}
		})
	}
}

// TestCRLF reads a file that a Windows editor wrote.
func TestCRLF(t *testing.T) {
	m, err := Parse([]byte("\ufeffversion: 1\r\nenvironment:\r\n  A: b\r\n"), Options{})
	if err != nil || m.Environment[0].Value != (Text{Text: "b"}) {
		t.Errorf("Parse = %v, %v", m, err)
	}
}

// TestChecked gives a manifest that a program built the checks of a parsed one.
func TestChecked(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    Manifest
		err  error
	}{
		{name: "empty"},
		{name: "defaults", m: Manifest{Entries: Entries{
			{"a", &File{Content: []byte("x")}}, {"d", &Dir{}}, {"l", &LocalDir{Src: "s"}}, {"g", &GitRepo{Repo: "o/n", Ref: "abcdef0"}},
		}}},
		{name: "escaping name", m: Manifest{Entries: Entries{{"../a", &Dir{}}}}, err: fault.InvalidManifestPath},
		{name: "name twice", m: Manifest{Entries: Entries{{"a", &Dir{}}, {"a", &Dir{}}}}, err: fault.InvalidArgument},
		{name: "nil entry", m: Manifest{Entries: Entries{{"a", nil}}}, err: fault.InvalidArgument},
		{name: "nil value", m: Manifest{Environment: Environment{{Name: "A"}}}, err: fault.InvalidArgument},
		{name: "mount without strategy", m: Manifest{Entries: Entries{{"m", &Mount{Kind: "s3_mount"}}}}, err: fault.InvalidArgument},
		{name: "skill that is a file", m: Manifest{Skills: []Skill{{"s", &File{}}}}, err: fault.InvalidArgument},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := tt.m.Checked()
			if !errors.Is(err, tt.err) {
				t.Fatalf("Checked = %v, want %v", err, tt.err)
			}
			if err != nil {
				return
			}
			checkAccepted(t, m)
			for name, e := range m.All() {
				if e.Common().Permissions == nil {
					t.Errorf("%s has no permissions", name)
				}
				if g, ok := e.(*GitRepo); ok && (!g.Commit || g.Host != "github.com") {
					t.Errorf("%s = %+v, want the derived fields", name, g)
				}
			}
		})
	}
}

// TestUnmarshal reads a manifest inside another JSON value.
func TestUnmarshal(t *testing.T) {
	var v struct{ Manifest *Manifest }
	if err := json.Unmarshal([]byte(`{"Manifest": {"root": "/w"}}`), &v); err != nil || v.Manifest.Root != "/w" {
		t.Errorf("Unmarshal = %+v, %v", v.Manifest, err)
	}
	if err := json.Unmarshal([]byte(`{"Manifest": {"bogus": 1}}`), &v); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("Unmarshal = %v, want %s", err, fault.InvalidArgument)
	}
}

// TestNoEscapes keeps the normal form readable: no <, > or & is escaped.
func TestNoEscapes(t *testing.T) {
	m, err := Parse([]byte(`{"environment": {"A": "<&>"}}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	form, err := m.MarshalJSON()
	if err != nil || !strings.Contains(string(form), `"<&>"`) {
		t.Errorf("MarshalJSON = %s, %v", form, err)
	}
}

func TestIsCommitRef(t *testing.T) {
	for ref, want := range map[string]bool{
		"abc1234": true, "ABCDEF0": true, strings.Repeat("a", 40): true, "abc123": false,
		strings.Repeat("a", 41): false, "main": false, "abc123g": false, "": false,
	} {
		if got := IsCommitRef(ref); got != want {
			t.Errorf("IsCommitRef(%q) = %t, want %t", ref, got, want)
		}
	}
}

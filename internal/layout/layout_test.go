package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/croftdev/croft"

// layers lists every package of the module from the lowest layer to the highest, by
// its path in the module; "" is package croft. A package may import those of lower
// layers, and of its own layer only what peers allows.
var layers = [][]string{
	{"internal/fault"},
	{"internal/document", "internal/durable", "internal/endpoint"},
	{"manifest", "policy", "event", "snapshot"},
	{
		"internal/tree", "internal/root", "internal/archive", "internal/fill",
		"internal/confine", "internal/process", "internal/outlog", "internal/state",
	},
	{""},
	{"internal/tool"},
	{"internal/mcpserver", "internal/httpserver", "internal/bridge"},
	{"cmd/croft"},
	{"bench", "conformance", "internal/layout"},
}

// peers are the imports allowed within one layer.
var peers = map[string][]string{
	"internal/root":    {"internal/tree"},
	"internal/archive": {"internal/tree"},
	"internal/fill":    {"internal/root", "internal/tree"},
	"internal/confine": {"internal/process"},
	"internal/process": {"internal/outlog"},
	"internal/state":   {"internal/tree"}, // what is in the trash is removed as a tree
}

// reserved restricts who may import a package from outside the module, with the
// reason. Test files are free.
var reserved = []struct {
	path, why string
	to        []string
}{
	{
		path: "os/exec",
		why:  "a command that croft starts is confined, or is croft's own helper; both are internal/confine's and internal/process's to start",
		to:   []string{"internal/confine", "internal/process", "bench"},
	},
	{
		path: "math/rand", why: "ids and temporary names must not be guessable by what runs in a workspace: use crypto/rand",
	},
	{
		path: "math/rand/v2", why: "ids and temporary names must not be guessable by what runs in a workspace: use crypto/rand",
	},
	{
		path: "github.com/spf13/cobra", why: "flags are the command line's",
		to: []string{"cmd/croft"},
	},
	{
		path: "net/http", why: "the library serves and calls nothing; front ends and the HTTP sink do",
		to: []string{"event", "internal/httpserver", "internal/mcpserver", "internal/bridge", "cmd/croft"},
	},
}

// pkg is what `go list` tells of a package.
type pkg struct {
	ImportPath string
	Imports    []string
	Error      *struct{ Err string }
}

func TestImportDirection(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		for _, wrong := range violations(list(t, goos)) {
			t.Errorf("%s: %s", goos, wrong)
		}
	}
}

// TestViolations shows that the rules can be broken.
func TestViolations(t *testing.T) {
	for _, tt := range []struct {
		name, from, to string
		ok             bool
	}{
		{"down", "cmd/croft", "", true},
		{"down to the bottom", "internal/root", "internal/fault", true},
		{"an allowed peer", "internal/root", "internal/tree", true},
		{"a peer", "internal/tree", "internal/root", false},
		{"a mechanism of sessions", "internal/confine", "", false},
		{"a value of a mechanism", "manifest", "internal/root", false},
		{"the library of a front end", "", "internal/httpserver", false},
		{"a new package", "internal/new", "internal/fault", false},
		{"randomness that can be guessed", "internal/state", "!math/rand/v2", false},
		{"commands from the library", "", "!os/exec", false},
		{"commands from where they start", "internal/confine", "!os/exec", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			to, outside := strings.CutPrefix(tt.to, "!")
			if !outside {
				to = strings.TrimSuffix(module+"/"+to, "/")
			}
			p := pkg{ImportPath: strings.TrimSuffix(module+"/"+tt.from, "/"), Imports: []string{"fmt", to}}
			if wrong := violations([]pkg{p}); (len(wrong) == 0) != tt.ok {
				t.Errorf("violations: %q, want none: %v", wrong, tt.ok)
			}
		})
	}
}

// violations returns what breaks the rules, one sentence each.
func violations(pkgs []pkg) []string {
	rank := map[string]int{}
	for i, layer := range layers {
		for _, p := range layer {
			rank[p] = i
		}
	}
	var wrong []string
	for _, p := range pkgs {
		from := inModule(p.ImportPath)
		at, ok := rank[from]
		if !ok {
			wrong = append(wrong, p.ImportPath+" is in no layer: say where it belongs in internal/layout")
			continue
		}
		for _, path := range p.Imports {
			if path != module && !strings.HasPrefix(path, module+"/") {
				continue
			}
			to := inModule(path)
			if rank[to] >= at && !slices.Contains(peers[from], to) {
				wrong = append(wrong, p.ImportPath+" imports "+path+", which lies no lower")
			}
		}
		for _, r := range reserved {
			if slices.Contains(p.Imports, r.path) && !slices.Contains(r.to, from) {
				wrong = append(wrong, p.ImportPath+" imports "+r.path+": "+r.why)
			}
		}
	}
	return wrong
}

// TestNames refuses packages named for nothing they provide: such a package grows
// until it holds everything.
func TestNames(t *testing.T) {
	for _, p := range list(t, "linux") {
		name := p.ImportPath[strings.LastIndex(p.ImportPath, "/")+1:]
		switch name {
		case "util", "utils", "common", "helper", "helpers", "misc", "types", "base", "shared":
			t.Errorf("%s: name the package for what it provides", p.ImportPath)
		}
	}
}

// list returns the packages of the module as built for goos.
func list(t *testing.T, goos string) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports,Error", module+"/...")
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	cmd.Stderr = &bytes.Buffer{}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, cmd.Stderr)
	}
	var pkgs []pkg
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p pkg
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			if len(pkgs) < 3 {
				t.Fatalf("go list knows only %d packages", len(pkgs))
			}
			return pkgs
		case err != nil:
			t.Fatalf("go list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

func inModule(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

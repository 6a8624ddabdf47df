package root

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
)

// The conformance suite runs the shared cases through the library. Here those on
// files and names run once more directly on a Tree, on the fast and on the slow
// way, which must not differ.

type sharedCase struct {
	ID    string `json:"id"`
	What  string `json:"what"`
	Setup []struct {
		Dir, File, Symlink, Fifo, To, Text, Hex, Mode, Owner string
	} `json:"setup"`
	Op struct {
		Call      string          `json:"call"`
		Root      *string         `json:"root"`
		Path      string          `json:"path"`
		Text      string          `json:"text"`
		User      string          `json:"user"`
		Recursive bool            `json:"recursive"`
		Parents   bool            `json:"parents"`
		ForWrite  bool            `json:"for_write"`
		Grant     json.RawMessage `json:"grant"`
		Grants    []sharedGrant   `json:"grants"`
	} `json:"op"`
	Expect    map[string]any `json:"expect"`
	Preferred map[string]any `json:"preferred"`
	Requires  []string       `json:"requires"`
}

type sharedGrant struct {
	Path     any    `json:"path"`
	ReadOnly bool   `json:"read_only"`
	HostPath string `json:"host_path"`
	Desc     string `json:"description"`
}

func sharedCases(t *testing.T, area string) []json.RawMessage {
	dir := os.Getenv("CROFT_CASES")
	for at := "."; dir == ""; at = filepath.Join("..", at) {
		if _, err := os.Stat(filepath.Join(at, "shared/conformance")); err == nil {
			dir = filepath.Join(at, "shared/conformance")
		} else if abs, _ := filepath.Abs(at); abs == "/" {
			t.Skip("missing: the folder of conformance cases")
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, area+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []json.RawMessage }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

func TestSharedCases(t *testing.T) {
	for _, area := range []string{"path_policy", "fs"} {
		for _, slow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/slow=%v", area, slow), func(t *testing.T) {
				for _, raw := range sharedCases(t, area) {
					runShared(t, raw, slow)
				}
			})
		}
	}
}

func runShared(t *testing.T, raw json.RawMessage, slow bool) {
	tmp := tempDir(t)
	text := string(raw)
	for from, to := range map[string]string{"${TMP}": tmp, "${ROOT}": tmp + "/ws", "${OUTSIDE}": tmp + "/outside", "${USER}": testUser} {
		text = strings.ReplaceAll(text, from, to)
	}
	var c sharedCase
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	t.Run(c.ID, func(t *testing.T) {
		if len(c.Requires) > 0 && os.Geteuid() != 0 {
			t.Skip("needs root")
		}
		switch c.Op.Call {
		case "normalize_cwd", "anchor", "model_path", "display", "resource_path":
			return // tools' names, not of this package
		}
		os.MkdirAll(tmp+"/ws", 0o755)
		c.set(t)
		want := c.Expect
		if c.Preferred != nil {
			want = c.Preferred
		}
		got, err := c.do(t, tmp, slow)
		c.check(t, tmp, want, got, err)
	})
}

func (c *sharedCase) set(t *testing.T) {
	defer unix.Umask(unix.Umask(0o022))
	for _, s := range c.Setup {
		p := s.Dir + s.File + s.Symlink + s.Fifo
		os.MkdirAll(filepath.Dir(p), 0o755)
		var err error
		switch {
		case s.Dir != "":
			err = os.MkdirAll(p, 0o755)
		case s.File != "":
			data, _ := hex.DecodeString(s.Hex)
			err = os.WriteFile(p, append(data, s.Text...), 0o644)
		case s.Symlink != "":
			err = os.Symlink(s.To, p)
		default:
			err = unix.Mkfifo(p, 0o644)
		}
		must(t, err)
		switch s.Owner {
		case "user":
			must(t, os.Lchown(p, nobody, nobody))
		case "other":
			must(t, os.Lchown(p, 12345, 12345))
		}
		if s.Mode != "" {
			var mode uint32
			fmt.Sscanf(s.Mode, "%o", &mode)
			must(t, unix.Chmod(p, mode))
		}
	}
}

// do runs the call and returns its result as the cases write it.
func (c *sharedCase) do(t *testing.T, tmp string, slow bool) (any, error) {
	var grants []Grant
	for _, g := range c.Op.Grants {
		grants = append(grants, Grant{Path: g.Path.(string), ReadOnly: g.ReadOnly})
	}
	rootPath := tmp + "/ws"
	if c.Op.Root != nil {
		rootPath = *c.Op.Root
	}
	switch c.Op.Call {
	case "absolute", "relative", "normalize", "new_policy":
		n, err := NewNames(rootPath, nil, grants)
		if err != nil {
			return nil, err
		}
		var p string
		switch c.Op.Call {
		case "absolute":
			p, err = n.Absolute(c.Op.Path)
		case "relative":
			p, err = n.Relative(c.Op.Path)
		default:
			p, err = n.Normalize(c.Op.Path, c.Op.ForWrite)
		}
		return p, err
	case "new_grant":
		var g sharedGrant
		must(t, json.Unmarshal(c.Op.Grant, &g))
		p, _ := g.Path.(string) // another type becomes no path
		parsed, err := ParseGrant(Grant{Path: p, ReadOnly: g.ReadOnly, HostPath: g.HostPath, Description: g.Desc})
		var desc any
		if parsed.Description != "" {
			desc = parsed.Description
		}
		return map[string]any{"path": parsed.Path, "read_only": parsed.ReadOnly, "description": desc}, err
	}
	tr, err := Open(Options{Path: rootPath, Grants: grants})
	if err != nil {
		return nil, err
	}
	defer tr.Close()
	tr.slowOnly = slow
	return c.onTree(t, tr)
}

func (c *sharedCase) onTree(t *testing.T, tr *Tree) (any, error) {
	var user *User
	if c.Op.User != "" {
		u, err := LookupUser(c.Op.User)
		must(t, err)
		user = u
	}
	defer unix.Umask(unix.Umask(0o022))
	ctx := t.Context()
	switch c.Op.Call {
	case "resolve":
		p, err := tr.Resolve(ctx, c.Op.Path, ResolveOptions{ForWrite: c.Op.ForWrite, User: user})
		return p, err
	case "rm_target":
		p, err := tr.RemovalTarget(ctx, c.Op.Path, user)
		return p, err
	case "read":
		data, err := tr.ReadFile(ctx, c.Op.Path, ReadOptions{User: user})
		return data, err
	case "write":
		_, err := tr.WriteFile(ctx, c.Op.Path, strings.NewReader(c.Op.Text), WriteOptions{User: user})
		return nil, err
	case "mkdir":
		return nil, tr.Mkdir(ctx, c.Op.Path, MkdirOptions{Parents: c.Op.Parents, User: user})
	case "rm":
		return nil, tr.Remove(ctx, c.Op.Path, RemoveOptions{Recursive: c.Op.Recursive, User: user})
	case "ls":
		entries, err := tr.List(ctx, c.Op.Path, user)
		return entries, err
	}
	t.Fatalf("unknown call %q", c.Op.Call)
	return nil, nil
}

func (c *sharedCase) check(t *testing.T, tmp string, want map[string]any, got any, err error) {
	for key, value := range want {
		switch key {
		case "ok":
			if (err == nil) != value.(bool) {
				t.Fatalf("%s: error = %v, want ok=%v", c.What, err, value)
			}
		case "error":
			c.checkError(t, tmp, value.(map[string]any), err)
		case "path", "grant":
			if !reflect.DeepEqual(got, value) {
				t.Errorf("%s: got %v, want %v", c.What, got, value)
			}
		case "text":
			if string(got.([]byte)) != value {
				t.Errorf("%s: got %q, want %q", c.What, got, value)
			}
		case "hex":
			if hex.EncodeToString(got.([]byte)) != value {
				t.Errorf("%s: got %x, want %s", c.What, got, value)
			}
		case "entries":
			checkEntries(t, tmp+"/ws", value.([]any), got.([]Info))
		case "tree":
			checkTree(t, tmp+"/ws", value)
		case "outside_tree":
			checkTree(t, tmp+"/outside", value)
		case "owners":
			for p := range value.(map[string]any) {
				var st unix.Stat_t
				if must(t, unix.Lstat(p, &st)); st.Uid != nobody {
					t.Errorf("%s belongs to %d", p, st.Uid)
				}
			}
		case "note", "quirk":
		default:
			t.Errorf("unknown field of expect: %s", key)
		}
	}
}

func (c *sharedCase) checkError(t *testing.T, tmp string, want map[string]any, err error) {
	e, ok := err.(*fault.Error)
	if !ok {
		t.Fatalf("%s: error = %v (%T), want a fault", c.What, err, err)
	}
	if c.Op.Root == nil && c.Op.Call != "new_grant" && e.Op == "" {
		t.Errorf("%s: error without an operation: %v", c.What, e)
	}
	for key, value := range want {
		have := e.Details[key]
		switch key {
		case "code":
			have = string(e.Code)
			if value == "any" {
				value = have
			}
			if value == "value_error" || value == "validation_error" {
				value = "invalid_argument"
			}
		case "reason":
			have = e.Reason
		case "path":
			if rel, err := filepath.Rel(tmp+"/ws", value.(string)); err == nil && filepath.IsLocal(rel) {
				value = rel
			}
		case "message":
			continue
		}
		if have != value {
			t.Errorf("%s: error's %s = %v, want %v (%v)", c.What, key, have, value, err)
		}
	}
}

func checkEntries(t *testing.T, dir string, want []any, got []Info) {
	if len(want) != len(got) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for _, w := range want {
		found := false
		for _, g := range got {
			have := map[string]any{"path": dir + "/" + g.Name, "kind": g.Kind.String(), "permissions": g.Permissions(), "size": float64(g.Size)}
			same := true
			for k, v := range w.(map[string]any) {
				same = same && have[k] == v
			}
			found = found || same
		}
		if !found {
			t.Errorf("no entry like %v in %v", w, got)
		}
	}
}

func checkTree(t *testing.T, dir string, want any) {
	entries, _ := want.(map[string]any)
	if _, err := os.Lstat(dir); want == nil || err != nil {
		if want != nil || err == nil {
			t.Errorf("%s: there = %v, want %v", dir, err == nil, want)
		}
		return
	}
	seen := 0
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if p == dir {
			return nil
		}
		seen++
		rel, _ := filepath.Rel(dir, p)
		w, ok := entries[rel].(map[string]any)
		if !ok {
			t.Errorf("%s is there, want not", rel)
			return nil
		}
		for k, v := range w {
			var have any
			switch k {
			case "dir":
				have = d.IsDir()
			case "link":
				have, _ = os.Readlink(p)
			case "text":
				b, _ := os.ReadFile(p)
				have = string(b)
			}
			if have != v {
				t.Errorf("%s: %s = %v, want %v", rel, k, have, v)
			}
		}
		return nil
	})
	if seen != len(entries) {
		t.Errorf("%s: %d entries, want %d", dir, seen, len(entries))
	}
}

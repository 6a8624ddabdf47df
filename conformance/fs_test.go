package conformance

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft"
)

func init() {
	register(area{
		name:  "fs",
		makes: []string{"ROOT"},
		calls: map[string]call{
			"read":  {fields: "text hex", run: runRead},
			"write": {fields: "owners", match: map[string]match{"owners": matchOwners}, run: runWrite},
			"mkdir": {fields: "owners", match: map[string]match{"owners": matchOwners}, run: runMkdir},
			"rm":    {fields: "owners", match: map[string]match{"owners": matchOwners}, run: runRemove},
			"ls":    {fields: "entries", match: map[string]match{"entries": unordered(matchEntry)}, run: runList},
		},
	})
}

func runRead(e *env, op *fields) (outcome, error) {
	path, user := op.str("path"), optional(op, "user")
	s := fileSession(e, op)
	data, err := s.ReadFile(e.ctx, path, croft.ReadOptions{User: user})
	out := outcome{"hex": hex.EncodeToString(data)}
	if utf8.Valid(data) {
		out["text"] = string(data)
	}
	return out, err
}

func runWrite(e *env, op *fields) (outcome, error) {
	path, text, user := op.str("path"), op.str("text"), optional(op, "user")
	s := fileSession(e, op)
	_, err := s.WriteFile(e.ctx, path, strings.NewReader(text), croft.WriteOptions{User: user})
	return outcome{"owners": lazy(owners)}, err
}

func runMkdir(e *env, op *fields) (outcome, error) {
	path, parents, user := op.str("path"), op.flag("parents"), optional(op, "user")
	s := fileSession(e, op)
	err := s.Mkdir(e.ctx, path, croft.MkdirOptions{Parents: parents, User: user})
	return outcome{"owners": lazy(owners)}, err
}

func runRemove(e *env, op *fields) (outcome, error) {
	path, recursive, user := op.str("path"), op.flag("recursive"), optional(op, "user")
	s := fileSession(e, op)
	err := s.Remove(e.ctx, path, croft.RemoveOptions{Recursive: recursive, User: user})
	return outcome{"owners": lazy(owners)}, err
}

func runList(e *env, op *fields) (outcome, error) {
	path, user := op.str("path"), optional(op, "user")
	s := fileSession(e, op)
	infos, err := s.List(e.ctx, path, croft.ReadOptions{User: user})
	dir := path
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(e.root, path)
	}
	entries := []any{}
	for _, i := range infos {
		entries = append(entries, map[string]any{
			"path": filepath.Join(dir, i.Name), "kind": i.Kind.String(), "permissions": i.Permissions(), "size": i.Size,
		})
	}
	return outcome{"entries": entries}, err
}

// matchEntry compares the listed properties of one entry. Its path is compared by what
// it names: a directory that was listed through a link has two spellings.
func matchEntry(want, got any) string {
	w, wok := want.(map[string]any)
	g, gok := got.(map[string]any)
	if !wok || !gok {
		return differ(want, got)
	}
	return subset(withPlace(w), withPlace(g))
}

func withPlace(entry map[string]any) map[string]any {
	path, ok := entry["path"].(string)
	if !ok {
		return entry
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return entry
	}
	return with(entry, "path", filepath.Join(dir, filepath.Base(path)))
}

// fileSession starts a session whose workspace is ${ROOT}, or what op names by
// root, with the grants of op.
func fileSession(e *env, op *fields) *croft.Session {
	workspace, given := op.optStr("root")
	if !given {
		workspace = e.root
	}
	var grants []croft.Grant
	for _, g := range rootGrants(op) {
		grants = append(grants, croft.Grant(g))
	}
	s, err := e.client(croft.Config{}).Create(e.ctx, croft.CreateOptions{Root: workspace, Grants: grants})
	e.check(err)
	e.check(s.Start(e.ctx))
	e.cleanup(func() { e.check(s.Close(e.ctx)) })
	return s
}

// client opens a client with a state directory of the case's own.
func (e *env) client(cfg croft.Config) *croft.Client {
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(e.tmp, "state")
	}
	c, err := croft.Open(cfg)
	e.check(err)
	e.cleanup(func() { e.check(c.Close()) })
	return c
}

// optional reads a text that may be absent, which is the empty one.
func optional(op *fields, key string) string {
	s, _ := op.optStr(key)
	return s
}

// owners looks up who owns each path, as a uid.
func owners(paths []string) any {
	out := map[string]any{}
	for _, p := range paths {
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			out[p] = err.Error()
			continue
		}
		out[p] = st.Uid
	}
	return out
}

// matchOwners wants each path to belong to the named account: those of a setup
// step, or 'sdk', the running process.
func matchOwners(want, got any) string {
	w, ok := want.(map[string]any)
	if !ok {
		return differ(want, got)
	}
	uids := map[string]any{}
	for path, name := range w {
		text, _ := name.(string)
		uid, err := ownerID(text)
		if text == "sdk" {
			uid, err = os.Geteuid(), nil
		}
		if err != nil {
			return differ(name, err.Error())
		}
		uids[path] = uid
	}
	v, err := asJSON(uids)
	if err != nil {
		return err.Error()
	}
	return equal(v, got)
}

package conformance

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// tree describes everything below dir as a case does: by name, {"dir": true},
// {"text": ...} or {"hex": ...}, {"link": ...}, {"fifo": true} or {"other": true}, and
// the mode of all but links. It is nil where dir is not there.
func (e *env) tree(dir string) map[string]any {
	if _, err := os.Lstat(dir); os.IsNotExist(err) {
		return nil
	}
	out := map[string]any{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		out[name], err = describe(path, d)
		return err
	})
	e.check(err)
	return out
}

func describe(path string, d fs.DirEntry) (map[string]any, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return nil, err
	}
	mode := fmt.Sprintf("%04o", st.Mode&0o7777)
	switch {
	case d.IsDir():
		return map[string]any{"dir": true, "mode": mode}, nil
	case d.Type()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		return map[string]any{"link": to}, err
	case d.Type()&fs.ModeNamedPipe != 0:
		return map[string]any{"fifo": true, "mode": mode}, nil
	case !d.Type().IsRegular():
		return map[string]any{"other": true, "mode": mode}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	entry := map[string]any{"mode": mode, "hex": hex.EncodeToString(data)}
	if utf8.Valid(data) {
		entry["text"] = string(data)
	}
	return entry, nil
}

// matchTree wants exactly the listed names; of each entry the listed properties.
// A wanted null is a tree that is not there at all.
func matchTree(want, got any) string {
	w, wok := want.(map[string]any)
	g, gok := got.(map[string]any)
	if !wok || !gok {
		return equal(want, got)
	}
	for name := range g {
		if _, ok := w[name]; !ok {
			return fmt.Sprintf(" %q: not wanted, got %s", name, show(g[name]))
		}
	}
	for name, entry := range w {
		have, ok := g[name]
		if !ok {
			return fmt.Sprintf(" %q: want %s, not there", name, show(entry))
		}
		if d := subset(entry, have); d != "" {
			return fmt.Sprintf(" %q%s", name, d)
		}
	}
	return ""
}

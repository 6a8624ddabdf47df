package process

import (
	"fmt"
	"slices"
	"strings"

	"github.com/croftdev/croft/internal/fault"
)

// DefaultPath is the PATH of a command when nothing else is known.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Base holds the variables that every command has. The environment is built from
// nothing: a variable of the host reaches a command only if it is named (see [Pass]), since
// the host's variables hold secrets (case SH-165). A zero field stands for its default.
type Base struct {
	Path   string // PATH; default: DefaultPath
	Home   string // HOME; default: /
	User   string // USER; default: user
	Lang   string // LANG; default: C.UTF-8
	Term   string // TERM; default: dumb
	TmpDir string // TMPDIR; default: /tmp
}

// Environ returns the environment of a command as KEY=VALUE, sorted by key, each
// key once: the base, then each layer over what came before. A layer may replace
// a variable of the base, also by an empty value.
//
// A key that is empty or holds '=' or NUL, or a value that holds NUL, cannot be
// passed to a process and is fault.InvalidArgument; the error names the key, never
// the value.
func (b Base) Environ(layers ...map[string]string) ([]string, error) {
	all := map[string]string{
		"PATH": or(b.Path, DefaultPath), "HOME": or(b.Home, "/"), "USER": or(b.User, "user"),
		"LANG": or(b.Lang, "C.UTF-8"), "TERM": or(b.Term, "dumb"), "TMPDIR": or(b.TmpDir, "/tmp"),
	}
	for _, layer := range layers {
		for k, v := range layer {
			if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
				return nil, &fault.Error{
					Code: fault.InvalidArgument, Op: "exec", Reason: "bad_variable", Retry: fault.RetryNo,
					Message: fmt.Sprintf("the environment variable %q has a name or value that cannot be passed to a process", k),
				}
			}
			all[k] = v
		}
	}
	env := make([]string, 0, len(all))
	for k, v := range all {
		env = append(env, k+"="+v)
	}
	slices.SortFunc(env, func(a, b string) int {
		ka, _, _ := strings.Cut(a, "=")
		kb, _, _ := strings.Cut(b, "=")
		return strings.Compare(ka, kb)
	})
	return env, nil
}

// Pass returns the host variables of the given names as a layer for Environ. A name
// that host does not know is left out, so that it stays unset for the command too.
func Pass(names []string, host func(string) (string, bool)) map[string]string {
	layer := make(map[string]string, len(names))
	for _, name := range names {
		if v, ok := host(name); ok {
			layer[name] = v
		}
	}
	return layer
}

func or(v, def string) string {
	if v == "" {
		return def
	}
	return v
}

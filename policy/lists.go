package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// list is one of the lists of a policy, by the name that it has in the file form.
type list struct {
	name   string
	values []string
	// check returns what is wrong with one value, or "".
	check func(string) string
}

// lists returns the lists of p in the order of the reference.
func (p *Policy) lists() []list {
	return []list{
		{"read_paths", p.ReadPaths, hostPathProblem},
		{"write_paths", p.WritePaths, hostPathProblem},
		{"hidden_paths", p.HiddenPaths, hiddenProblem},
		{"protected", p.Protected, protectedProblem},
		{"system_calls.deny", p.SystemCalls.Deny, callProblem},
		{"system_calls.allow", p.SystemCalls.Allow, callProblem},
	}
}

// hostPathProblem: a path is refused rather than cleaned, so that what a reader of the policy
// sees is what is shown.
func hostPathProblem(s string) string {
	if !path.IsAbs(s) || path.Clean(s) != s || s == "/" {
		return fmt.Sprintf("%q is not an absolute clean path below /", s)
	}
	return ""
}

func protectedProblem(s string) string {
	if !isNameBelow(s) {
		return fmt.Sprintf("%q is not a clean name below the workspace", s)
	}
	return ""
}

func hiddenProblem(s string) string {
	if path.IsAbs(s) {
		return hostPathProblem(s)
	}
	if !isNameBelow(s) {
		return fmt.Sprintf("%q is neither an absolute clean path below / nor a clean pattern below the workspace", s)
	}
	for name := range strings.SplitSeq(s, "/") {
		if _, err := path.Match(name, ""); errors.Is(err, path.ErrBadPattern) {
			return fmt.Sprintf("%q is no pattern: a [ is not closed, or a backslash stands at the end", s)
		}
		if name != "**" && strings.Contains(name, "**") {
			return fmt.Sprintf("%q: ** has to stand alone between slashes", s)
		}
	}
	return ""
}

// isNameBelow reports whether s is a clean name below a directory and not the directory.
func isNameBelow(s string) bool {
	return s != "." && s != ".." && !path.IsAbs(s) && path.Clean(s) == s && !strings.HasPrefix(s, "../")
}

func callProblem(s string) string {
	ok := s != "" && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
	if !ok {
		return fmt.Sprintf("%q is not the name of a system call, such as io_uring_setup", s)
	}
	return ""
}

// contradiction is a value that another one takes back.
type contradiction struct {
	list    string
	index   int
	problem string
}

// contradiction returns the first value of p that contradicts an earlier one, or nil. Which of
// two would hold is nothing that a reader of the policy should have to know.
func (p *Policy) contradiction() *contradiction {
	for i, w := range p.WritePaths {
		if slices.Contains(p.ReadPaths, w) {
			return &contradiction{"write_paths", i, fmt.Sprintf("%q is in read_paths too", w)}
		}
	}
	for i, h := range p.HiddenPaths {
		for _, shown := range slices.Concat(p.ReadPaths, p.WritePaths) {
			if shown == h || strings.HasPrefix(shown, h+"/") {
				return &contradiction{"hidden_paths", i, fmt.Sprintf("%q hides %q, which is to be shown", h, shown)}
			}
		}
	}
	for i, a := range p.SystemCalls.Allow {
		if slices.Contains(p.SystemCalls.Deny, a) {
			return &contradiction{"system_calls.allow", i, fmt.Sprintf("%q is in system_calls.deny too", a)}
		}
	}
	return nil
}

package archive

import (
	"errors"
	"path"
	"strings"
)

// RestoredMode tones down the permission bits of a file in a stranger's archive:
// no setuid, setgid or sticky bit, no writing for group and others, reading and
// writing for the owner, and executing for nobody if not for the owner.
func RestoredMode(mode uint32) uint32 {
	mode &= 0o755
	if mode&0o100 == 0 {
		mode &^= 0o111
	}
	return mode | 0o600
}

// restoredDirMode is RestoredMode for a directory, which its owner can always use.
func restoredDirMode(mode uint32) uint32 { return mode&0o755 | 0o700 }

// ShouldSkip reports whether the member is left out of a workspace archive: it
// equals a skip path or lies below one. Leading slashes do not count; an empty
// path or "." means the whole workspace.
func ShouldSkip(member string, skip []string) bool {
	m := cleanName(member)
	for _, s := range skip {
		s = cleanName(s)
		if s == "." || m == s || strings.HasPrefix(m, s+"/") {
			return true
		}
	}
	return false
}

func cleanName(s string) string { return path.Clean(strings.TrimLeft(s, "/")) }

// refusal is why a member is refused: a reason as the error shows it.
type refusal string

// components splits a member's name and refuses one that leads elsewhere. An
// empty result means the root itself.
//
// It stops names that escape (absolute, with a parent step, with a drive letter
// as Windows tools write them). It does not judge what stands at the name: that
// is done when the components are opened one by one.
func components(name string) ([]string, refusal) {
	if len(name) >= 3 && name[1] == ':' && (name[2] == '/' || name[2] == '\\') && isLetter(name[0]) {
		return nil, "windows drive path"
	}
	if strings.HasPrefix(name, "/") {
		return nil, "absolute path"
	}
	if strings.ContainsRune(name, 0) {
		return nil, "NUL in name"
	}
	parts := make([]string, 0, strings.Count(name, "/")+1)
	for part := range strings.SplitSeq(name, "/") {
		switch part {
		case "", ".":
		case "..":
			return nil, "parent traversal"
		default:
			parts = append(parts, part)
		}
	}
	return parts, ""
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// insideTarget refuses the target of a link at parts that leads outside, judged
// by its text: climbing out is refused even where it would come back. It does
// not stop a target that leads through a second link and from there out; that
// harms nobody, since nothing in croft follows a link out of the workspace.
func insideTarget(parts []string, target string) refusal {
	switch {
	case target == "":
		return "empty symlink target"
	case strings.HasPrefix(target, "/"):
		return refusal("absolute symlink target not allowed: " + target)
	}
	depth := len(parts) - 1
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return refusal("symlink target escapes archive root: " + target)
			}
		default:
			depth++
		}
	}
	return ""
}

// memberError is why the archive is refused, and at which member.
type memberError struct {
	member string
	reason refusal
	// limit and actual are set when a limit was exceeded.
	limit, actual int64
	err           error
}

func (e *memberError) Error() string {
	if e.err != nil {
		return e.member + ": " + e.err.Error()
	}
	return e.member + ": " + string(e.reason)
}

func (e *memberError) Unwrap() error { return e.err }

func refuse(member string, reason refusal) error {
	return &memberError{member: member, reason: reason}
}

func isMemberError(err error) bool {
	_, ok := errors.AsType[*memberError](err)
	return ok
}

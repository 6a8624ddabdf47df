package denial

import (
	"path"
	"regexp"
	"strings"
)

// The texts of strerror(3) and the names of errno(3), as programs print them.
var (
	missing  = regexp.MustCompile(`(?i)no such file or directory|directory nonexistent|\bENOENT\b`)
	readOnly = regexp.MustCompile(`(?i)read-only file system|\bEROFS\b`)
	refused  = regexp.MustCompile(`(?i)permission denied|\bEACCES\b`)
	// creates marks a line about something that was to be made.
	creates = regexp.MustCompile(`(?i)\b(cannot|can't|could not|couldn't|unable to|failed to) (create|touch|write|mkdir|make)\b|\bmkdir\b`)
)

// file explains a line about a path. Operation not permitted is not among what it looks for: for a
// file that is an immutable one or another's, and never the confinement.
func (e Evidence) file(line string, h Host) (Denial, bool) {
	if h.Look == nil {
		return Denial{}, false
	}
	for _, m := range []*regexp.Regexp{missing, readOnly, refused} {
		at := m.FindStringIndex(line)
		if at == nil {
			continue
		}
		name := pathIn(line[:at[0]], line[at[1]:])
		if name == "" {
			return Denial{}, false
		}
		if !path.IsAbs(name) {
			if e.Dir == "" {
				return Denial{}, false
			}
			// A word before the message may be any word ("error: Permission denied").
			word := !strings.Contains(name, "/")
			name = path.Join(e.Dir, name)
			if word && !h.Look(name).Exists {
				return Denial{}, false
			}
		}
		name = path.Clean(name)
		if m == missing {
			return hidden(name, creates.MatchString(line), h)
		}
		return unwritable(name, h)
	}
	return Denial{}, false
}

// hidden explains why something does not exist: the host has it and commands do not see it.
func hidden(name string, create bool, h Host) (Denial, bool) {
	s := h.Look(name)
	if s.Exists {
		if s.Visible || !s.Readable {
			return Denial{}, false
		}
		return Denial{File, name, "not in read_paths", Grant{"read_paths", name}, Likely}, true
	}
	// What was to be made needs the directory that would hold it.
	dir := path.Dir(name)
	if !create || dir == "/" {
		return Denial{}, false
	}
	if s := h.Look(dir); !s.Exists || s.Visible || !s.Writable {
		return Denial{}, false
	}
	return Denial{File, dir, "not in write_paths", Grant{"write_paths", dir}, Likely}, true
}

// unwritable explains why something cannot be changed: the host's permissions allow it, and commands see
// it read-only.
func unwritable(name string, h Host) (Denial, bool) {
	s := h.Look(name)
	if !s.ReadOnly || !s.Writable {
		return Denial{}, false
	}
	if s.Protected != "" {
		return Denial{File, name, "protected: " + s.Protected, Grant{"protected", s.Protected}, Likely}, true
	}
	return Denial{File, name, "not in write_paths", Grant{"write_paths", name}, Likely}, true
}

var (
	// quoted is a name in quotes of any kind that GNU, Python, Node and Go print.
	quoted = regexp.MustCompile("'([^'\n]+)'|\"([^\"\n]+)\"|[`‘]([^'’\n]+)['’]")
	// bare is a name without quotes between the colons of a message.
	bare = regexp.MustCompile(`(?:^|: |[ (])([^\s:'"]+)[,:]? *$`)
	// absolute is an absolute path after the message.
	absolute = regexp.MustCompile(`(?:^|[\s(:=])(/[^\s:'",()]+)`)
)

// pathIn returns the path that a message is about, by what stands before and after the words for
// the error, or "". Programs print it after those words in quotes (Python, Node), or just before
// them (most others).
func pathIn(before, after string) string {
	if m := quoted.FindStringSubmatch(after); m != nil {
		return m[1] + m[2] + m[3]
	}
	if m := absolute.FindStringSubmatch(after); m != nil {
		return m[1]
	}
	if all := quoted.FindAllStringSubmatch(before, -1); len(all) > 0 {
		m := all[len(all)-1]
		return m[1] + m[2] + m[3]
	}
	before = strings.TrimRight(before, " [(")
	if name, ok := strings.CutSuffix(before, ": connect:"); ok {
		before = name + ":" // Go names the operation that it tried at a socket between the two
	}
	m := bare.FindStringSubmatch(before)
	if m == nil || !strings.HasSuffix(before, ":") {
		return ""
	}
	return m[1]
}

package manifest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/croftdev/croft/internal/fault"
)

// DescribeChars is the length to which a description for an agent is cut.
const DescribeChars = 5000

// AllLevels and NoLimit ask [Manifest.Describe] for the whole tree.
const (
	AllLevels = math.MaxInt
	NoLimit   = math.MaxInt
)

// Describe returns the tree of the entries as text, names sorted bytewise:
//
//	/workspace
//	├── data/      # /workspace/data — shared
//	└── notes.txt  # /workspace/notes.txt
//
// It goes depth levels deep, at least one ([AllLevels] for all), and is cut to
// maxChars characters, as [Truncate] does ([DescribeChars] for an agent,
// [NoLimit] for none). A depth or limit below one is fault.InvalidArgument. Control
// characters in names and descriptions are shown as escapes, so that a name cannot
// forge a line of the tree.
func (m *Manifest) Describe(depth, maxChars int) (string, error) {
	if depth < 1 || maxChars < 1 {
		return "", &fault.Error{
			Code: fault.InvalidArgument, Op: "manifest", Reason: "value", Retry: fault.RetryNo,
			Message: "the depth and the length of a description are at least 1",
		}
	}
	root := posixPath(m.root())
	tree := &branch{}
	for name, e := range m.All() {
		tree.plant(components(name), e, depth)
	}
	for _, e := range m.Entries {
		// A mount at the top is shown where its storage appears (case MF-071),
		// one below a directory under its name (case MF-073).
		if mount, ok := e.Entry.(*Mount); ok && mount.Path != "" {
			path := posixPath(mount.Path)
			if !strings.HasPrefix(path, "/") {
				path = below(root, path)
			}
			tree.show(components(posixPath(e.Name)), path, depth)
		}
	}
	lines := tree.lines(nil, "", root)
	width := 0
	for _, l := range lines {
		width = max(width, utf8.RuneCountInString(l.name))
	}
	var b strings.Builder
	b.WriteString(visible(rootLine(m.root())) + "\n")
	for _, l := range lines {
		b.WriteString(l.name)
		b.WriteString(strings.Repeat(" ", width-utf8.RuneCountInString(l.name)))
		b.WriteString("  # " + l.path)
		if l.description != "" {
			b.WriteString(" — " + l.description)
		}
		b.WriteByte('\n')
	}
	return Truncate(b.String(), maxChars), nil
}

// rootLine returns the root as the first line shows it: as it was written, without
// a slash at its end.
func rootLine(root string) string {
	if trimmed := strings.TrimRight(root, "/"); trimmed != "" {
		return trimmed
	}
	return "/"
}

// branch is a node of the described tree.
type branch struct {
	children    map[string]*branch
	dir         bool
	shown       string // the path to show, if not the one of its place
	description string
}

// find returns the branch of a path, and makes it and those above it if need be.
func (b *branch) find(parts []string) *branch {
	for _, part := range parts {
		b.dir = true
		next := b.children[part]
		if next == nil {
			if b.children == nil {
				b.children = map[string]*branch{}
			}
			next = &branch{}
			b.children[part] = next
		}
		b = next
	}
	return b
}

// plant adds an entry; of one that lies deeper than depth, what is above it.
func (b *branch) plant(parts []string, e Entry, depth int) {
	if len(parts) > depth {
		b.find(parts[:depth]).dir = true
		return
	}
	at := b.find(parts)
	meta := e.Common()
	at.dir = at.dir || e.IsDir() || meta.Permissions != nil && meta.Permissions.Directory
	at.description = meta.Description
}

// show sets the path that is shown for an entry.
func (b *branch) show(parts []string, path string, depth int) {
	if len(parts) <= depth {
		b.find(parts).shown = path
	}
}

// line is one line of the description.
type line struct{ name, path, description string }

// lines appends the lines below b, whose own path is path.
func (b *branch) lines(out []line, prefix, path string) []line {
	names := make([]string, 0, len(b.children))
	for name := range b.children {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		child := b.children[name]
		joint, extension := "├── ", "│   "
		if i == len(names)-1 {
			joint, extension = "└── ", "    "
		}
		l := line{name: prefix + joint + visible(name), path: visible(below(path, name)), description: visible(child.description)}
		if child.dir {
			l.name += "/"
		}
		if child.shown != "" {
			l.path = visible(child.shown)
		}
		out = append(out, l)
		out = child.lines(out, prefix+extension, below(path, name))
	}
	return out
}

// visible returns s with its control characters escaped.
func visible(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\x%02x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Truncate cuts a description to at most maxChars characters. What is kept is the
// beginning, without the white space at its end, and then a note that names how many
// characters of the text were left out. Where there is no room for the whole note, the
// result is the beginning of the note.
func Truncate(text string, maxChars int) string {
	runes := []rune(text)
	if len(runes) <= maxChars {
		return text
	}
	if maxChars <= 0 {
		return ""
	}
	// The note's length depends on the number in it, and the number on the note's length.
	omitted, keep := len(runes)-maxChars, 0
	var note string
	for {
		note = truncationNote(omitted)
		keep = max(0, maxChars-len(note))
		if len(runes)-keep == omitted {
			break
		}
		omitted = len(runes) - keep
	}
	if len(note) >= maxChars {
		return note[:maxChars]
	}
	return strings.TrimRightFunc(string(runes[:keep]), unicode.IsSpace) + note
}

// truncationNote returns the note; all of it is ASCII. Its length is part of the
// format (cases MF-080 to MF-087).
func truncationNote(omitted int) string {
	const advice = "This listing was cut for length. Look with `ls` into a directory first, " +
		"before you rely on what the list leaves out.\n"
	return fmt.Sprintf("\n... (%d more characters)\n\n%s", omitted, advice)
}

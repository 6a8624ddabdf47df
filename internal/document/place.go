package document

import "strings"

// Place is where something stands in a text: the names that lead to it. Nil is
// the whole. It is turned into text only for a fault: a place of text for each
// value would cost its length for each, and a stranger chooses both.
type Place struct {
	up   *Place
	name string
}

// What a name and a place are cut to in messages, in bytes: a file's name and path have no more.
const (
	clipName  = 255
	clipPlace = 4095
)

// String returns the names, joined by dots; "." for the whole. The empty name is
// shown as "". A name longer than a file can have is cut, and so is a place
// longer than a path can be.
func (p *Place) String() string {
	if p == nil {
		return "."
	}
	var names []string
	for ; p != nil; p = p.up {
		name := clip(p.name, clipName)
		if name == "" {
			name = `""`
		}
		names = append(names, name)
	}
	var b strings.Builder
	for i := len(names) - 1; i >= 0; i-- {
		b.WriteString(names[i])
		if i > 0 {
			b.WriteByte('.')
		}
	}
	return clip(b.String(), clipPlace)
}

// clip cuts s to at most limit bytes, at the end of a character, and marks the cut.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

package document

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/croftdev/croft/internal/fault"
)

// Kind is what a node is.
type Kind int8

// The kinds.
const (
	Null Kind = iota
	Boolean
	Number
	Text
	List
	Object
)

// String returns the kind in words, to stand after "want" or "have".
func (k Kind) String() string {
	return [...]string{"null", "true or false", "a number", "text", "a list", "an object"}[k]
}

// Position is a place in the text: line and column from 1, columns in characters.
type Position struct{ Line, Column int }

// Node is one value.
type Node struct {
	Kind Kind
	At   Position
	// Text is the value of a text, and of a boolean or number as it was written.
	Text string
	// plain marks text that stands in YAML without quotes.
	plain bool
	// Items are those of a list.
	Items []*Node
	// Fields are those of an object, in written order.
	Fields []Field
	weight Weight
}

// Field is one field of an object; a doubled name makes two of them.
type Field struct {
	Name  string
	At    Position
	Value *Node
}

// Weight is what a node costs once its aliases are expanded.
type Weight struct{ Nodes, Bytes, Height int }

// Add makes w the weight of something that holds a value of the weight v.
func (w *Weight) Add(v Weight) {
	w.Nodes += v.Nodes
	w.Bytes += v.Bytes
	w.Height = max(w.Height, v.Height+1)
}

// problem is why a text has no tree.
type problem struct {
	at     Position
	code   fault.Code
	reason string
	text   string
}

func syntaxError(at Position, format string, args ...any) *problem {
	return &problem{at, fault.InvalidArgument, "syntax", fmt.Sprintf(format, args...)}
}

// cursor turns growing offsets into positions in one pass over the text.
type cursor struct {
	data   []byte
	offset int
	lines  int // newlines before offset
	chars  int // characters between the last of them and offset
}

// move moves the cursor forward to offset and returns the position there.
func (c *cursor) move(offset int) Position {
	passed := c.data[c.offset:offset]
	if n := bytes.Count(passed, []byte("\n")); n > 0 {
		c.lines += n
		c.chars = 0
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	c.chars += utf8.RuneCount(passed)
	c.offset = offset
	return Position{c.lines + 1, c.chars + 1}
}

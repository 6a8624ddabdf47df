package manifest

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/croftdev/croft/internal/fault"
)

// A manifest is read in two steps: text to a tree of nodes, the same for JSON and
// YAML, and nodes to checked values. Neither encoding/json nor a YAML library is
// asked to fill Go structs: both would take a doubled field without a word, and
// neither would say where a wrong value stands.

// kind is what a node is.
type kind int8

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

// String returns the kind in words, to stand after "want" or "have".
func (k kind) String() string {
	return [...]string{"null", "true or false", "a number", "text", "a list", "an object"}[k]
}

// position is a place in the text: line and column from 1, columns in characters.
type position struct{ line, column int }

// node is one value.
type node struct {
	kind kind
	at   position
	// text is the value of a text, and of a boolean or number as it was written.
	text string
	// plain marks text that stands in YAML without quotes.
	plain  bool
	items  []*node
	fields []field
	weight weight
}

// field is one field of an object; a doubled name makes two of them.
type field struct {
	name  string
	at    position
	value *node
}

// weight is what a node costs once its aliases are expanded.
type weight struct{ nodes, bytes, height int }

// add makes w the weight of something that holds a value of the weight v.
func (w *weight) add(v weight) {
	w.nodes += v.nodes
	w.bytes += v.bytes
	w.height = max(w.height, v.height+1)
}

// treeError is why a text has no tree.
type treeError struct {
	at      position
	code    fault.Code
	reason  string
	problem string
}

func syntaxError(at position, format string, args ...any) *treeError {
	return &treeError{at, fault.InvalidArgument, "syntax", fmt.Sprintf(format, args...)}
}

// check returns an error if something at a position passes a limit.
func (w weight) check(at position) *treeError {
	limit := ""
	switch {
	case w.nodes > MaxNodes:
		limit = fmt.Sprintf("%d values", MaxNodes)
	case w.bytes > MaxBytes:
		limit = fmt.Sprintf("%d bytes of text", MaxBytes)
	case w.height > MaxDepth:
		limit = fmt.Sprintf("a depth of %d", MaxDepth)
	default:
		return nil
	}
	return &treeError{at, fault.LimitExceeded, "limit", "the manifest has more than " + limit}
}

// parseTree parses text as the format that opts ask for.
func parseTree(data []byte, opts Options) (*node, *treeError) {
	if len(data) > MaxBytes {
		return nil, &treeError{
			position{1, 1}, fault.LimitExceeded, "limit",
			fmt.Sprintf("the manifest has %d bytes, the limit is %d", len(data), MaxBytes),
		}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return nil, syntaxError(invalidUTF8(data), "the text is not UTF-8")
	}
	switch format := chooseFormat(data, opts); format {
	case JSON:
		return parseJSON(data)
	case YAML:
		return parseYAML(data)
	default:
		return nil, syntaxError(position{1, 1}, "unknown format %q, want %q or %q", format, JSON, YAML)
	}
}

// chooseFormat resolves Auto.
func chooseFormat(data []byte, opts Options) Format {
	if opts.Format != Auto {
		return opts.Format
	}
	switch strings.ToLower(path.Ext(opts.Name)) {
	case ".json":
		return JSON
	case ".yaml", ".yml":
		return YAML
	}
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return JSON
	}
	return YAML
}

// invalidUTF8 returns the place of the first byte that is not UTF-8.
func invalidUTF8(data []byte) position {
	c := cursor{data: data}
	offset := 0
	for offset < len(data) {
		r, size := utf8.DecodeRune(data[offset:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		offset += size
	}
	return c.move(offset)
}

// cursor turns growing offsets into positions in one pass over the text.
type cursor struct {
	data   []byte
	offset int
	lines  int // newlines before offset
	chars  int // characters between the last of them and offset
}

// move moves the cursor forward to offset and returns the position there.
func (c *cursor) move(offset int) position {
	passed := c.data[c.offset:offset]
	if n := bytes.Count(passed, []byte("\n")); n > 0 {
		c.lines += n
		c.chars = 0
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	c.chars += utf8.RuneCount(passed)
	c.offset = offset
	return position{c.lines + 1, c.chars + 1}
}

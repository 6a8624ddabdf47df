package document

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/croftdev/croft/internal/fault"
)

// Format is the notation of a text.
type Format string

// The notations. Auto takes the one that the text's name ends in, else JSON where the
// first character is "{", else YAML.
const (
	Auto Format = ""
	JSON Format = "json"
	YAML Format = "yaml"
)

// Limits bound what a text from a stranger can cost.
type Limits struct {
	// Bytes is the longest text, and also the most that its YAML aliases may expand to.
	Bytes int
	// Nodes is the largest number of values after YAML aliases are expanded.
	Nodes int
	// Depth is the deepest nesting of objects and lists.
	Depth int
	// YAMLTokens is the largest number of tokens of a text in YAML.
	YAMLTokens int
}

// check returns a problem if something of the weight w at a position passes a limit.
func (o Source) check(w Weight, at Position) *problem {
	limit := ""
	switch {
	case w.Nodes > o.Limits.Nodes:
		limit = fmt.Sprintf("%d values", o.Limits.Nodes)
	case w.Bytes > o.Limits.Bytes:
		limit = fmt.Sprintf("%d bytes of text", o.Limits.Bytes)
	case w.Height > o.Limits.Depth:
		limit = fmt.Sprintf("a depth of %d", o.Limits.Depth)
	default:
		return nil
	}
	return &problem{at, fault.LimitExceeded, "limit", "the " + o.Noun + " has more than " + limit}
}

// Source says what a text is and how to read it.
type Source struct {
	// Noun is what the text is, as messages call it, and the Op of its faults: "manifest".
	Noun string
	// Name is the text's name in messages, such as its file's.
	Name string
	// Format is the notation.
	Format Format
	// Limits bound the text.
	Limits Limits
}

// parse parses data as the format that o asks for.
func parse(data []byte, o Source) (*Node, *problem) {
	if len(data) > o.Limits.Bytes {
		return nil, &problem{
			Position{1, 1}, fault.LimitExceeded, "limit",
			fmt.Sprintf("the %s has %d bytes, the limit is %d", o.Noun, len(data), o.Limits.Bytes),
		}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		return nil, syntaxError(invalidUTF8(data), "the text is not UTF-8")
	}
	switch format := chooseFormat(data, o); format {
	case JSON:
		return parseJSON(data, o)
	case YAML:
		return parseYAML(data, o)
	default:
		return nil, syntaxError(Position{1, 1}, "unknown format %q, want %q or %q", format, JSON, YAML)
	}
}

// chooseFormat resolves Auto.
func chooseFormat(data []byte, o Source) Format {
	if o.Format != Auto {
		return o.Format
	}
	switch strings.ToLower(path.Ext(o.Name)) {
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
func invalidUTF8(data []byte) Position {
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

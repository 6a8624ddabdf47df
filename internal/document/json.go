package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// jsonReader builds the tree of a JSON text from the tokens of encoding/json,
// which checks the grammar. It sees each field of an object, also a doubled one.
type jsonReader struct {
	data   []byte
	src    Source
	dec    *json.Decoder
	cursor cursor
	total  Weight
}

// parseJSON parses the one JSON value that data holds.
func parseJSON(data []byte, o Source) (*Node, *problem) {
	r := &jsonReader{data: data, src: o, dec: json.NewDecoder(bytes.NewReader(data)), cursor: cursor{data: data}}
	r.dec.UseNumber()
	root, err := r.value(1)
	if err != nil {
		return nil, err
	}
	at := r.next()
	if _, end := r.dec.Token(); end != io.EOF {
		return nil, syntaxError(at, "more text follows the %s", o.Noun)
	}
	return root, nil
}

// next returns the position of the next token.
func (r *jsonReader) next() Position {
	offset := int(r.dec.InputOffset())
	for offset < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[offset]) >= 0 {
		offset++
	}
	return r.cursor.move(offset)
}

// token returns the next token and where it begins.
func (r *jsonReader) token() (json.Token, Position, *problem) {
	at := r.next()
	start := r.cursor.offset
	tok, err := r.dec.Token()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, at, syntaxError(at, "the text ends in the middle of the %s", r.src.Noun)
	case err != nil:
		return nil, at, syntaxError(at, "not JSON: %v", err)
	}
	if s, ok := tok.(string); ok {
		r.total.Bytes += len(s)
		if loneSurrogate(s, r.data[start:r.dec.InputOffset()]) {
			return nil, at, syntaxError(at, "the text has half a character in it (a lone surrogate such as \\ud800)")
		}
	}
	return tok, at, nil
}

// loneSurrogate reports whether the JSON string raw, read as s, has an escape that
// is no character. encoding/json puts U+FFFD in its place: two different names
// would become one.
func loneSurrogate(s string, raw []byte) bool {
	const replacement = string(utf8.RuneError)
	have := strings.Count(s, replacement)
	if have == 0 {
		return false
	}
	written := bytes.Count(raw, []byte(replacement)) + bytes.Count(bytes.ToLower(raw), []byte(`\ufffd`))
	return have > written
}

// value reads the next value, which lies at the given depth.
func (r *jsonReader) value(depth int) (*Node, *problem) {
	tok, at, err := r.token()
	if err != nil {
		return nil, err
	}
	r.total.Nodes++
	r.total.Height = depth
	if err := r.src.check(r.total, at); err != nil {
		return nil, err
	}
	n := &Node{At: at}
	switch tok := tok.(type) {
	case nil:
	case bool:
		n.Kind, n.Text = Boolean, "false"
		if tok {
			n.Text = "true"
		}
	case json.Number:
		n.Kind, n.Text = Number, tok.String()
	case string:
		n.Kind, n.Text = Text, tok
	case json.Delim:
		if tok == '[' {
			n.Kind = List
			return n, r.list(n, depth)
		}
		n.Kind = Object
		return n, r.object(n, depth)
	}
	return n, nil
}

// list reads the items of a list up to its end.
func (r *jsonReader) list(n *Node, depth int) *problem {
	for r.dec.More() {
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.Items = append(n.Items, item)
	}
	_, _, err := r.token()
	return err
}

// object reads the fields of an object up to its end.
func (r *jsonReader) object(n *Node, depth int) *problem {
	for r.dec.More() {
		name, at, err := r.token()
		if err != nil {
			return err
		}
		value, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		// The decoder takes nothing but a string there.
		n.Fields = append(n.Fields, Field{name.(string), at, value})
	}
	_, _, err := r.token()
	return err
}

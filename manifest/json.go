package manifest

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
	dec    *json.Decoder
	cursor cursor
	total  weight
}

// parseJSON parses the one JSON value that data holds.
func parseJSON(data []byte) (*node, *treeError) {
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), cursor: cursor{data: data}}
	r.dec.UseNumber()
	root, err := r.value(1)
	if err != nil {
		return nil, err
	}
	at := r.next()
	if _, end := r.dec.Token(); end != io.EOF {
		return nil, syntaxError(at, "more text follows the manifest")
	}
	return root, nil
}

// next returns the position of the next token.
func (r *jsonReader) next() position {
	offset := int(r.dec.InputOffset())
	for offset < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[offset]) >= 0 {
		offset++
	}
	return r.cursor.move(offset)
}

// token returns the next token and where it begins.
func (r *jsonReader) token() (json.Token, position, *treeError) {
	at := r.next()
	start := r.cursor.offset
	tok, err := r.dec.Token()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, at, syntaxError(at, "the text ends in the middle of the manifest")
	case err != nil:
		return nil, at, syntaxError(at, "not JSON: %v", err)
	}
	if s, ok := tok.(string); ok {
		r.total.bytes += len(s)
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
func (r *jsonReader) value(depth int) (*node, *treeError) {
	tok, at, err := r.token()
	if err != nil {
		return nil, err
	}
	r.total.nodes++
	r.total.height = depth
	if err := r.total.check(at); err != nil {
		return nil, err
	}
	n := &node{at: at}
	switch tok := tok.(type) {
	case nil:
	case bool:
		n.kind, n.text = boolean, "false"
		if tok {
			n.text = "true"
		}
	case json.Number:
		n.kind, n.text = number, tok.String()
	case string:
		n.kind, n.text = text, tok
	case json.Delim:
		if tok == '[' {
			n.kind = list
			return n, r.list(n, depth)
		}
		n.kind = object
		return n, r.object(n, depth)
	}
	return n, nil
}

// list reads the items of a list up to its end.
func (r *jsonReader) list(n *node, depth int) *treeError {
	for r.dec.More() {
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, _, err := r.token()
	return err
}

// object reads the fields of an object up to its end.
func (r *jsonReader) object(n *node, depth int) *treeError {
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
		n.fields = append(n.fields, field{name.(string), at, value})
	}
	_, _, err := r.token()
	return err
}

package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// value is a JSON value whose objects keep the order of their members, which a
// manifest's entries need, and also doubled ones, which package manifest refuses.
type value struct {
	members []member // of an object
	items   []*value // of a list
	kind    byte     // '{', '[', or 0 for a scalar
	scalar  any      // nil, bool, string or json.Number
}

type member struct {
	name string
	v    *value
}

// maxNesting bounds the depth of a payload before package manifest looks at it.
const maxNesting = 200

var errNesting = errors.New("nested too deep")

// parseValue reads one JSON value that is the whole of data.
func parseValue(data []byte) (*value, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := readValue(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}

func readValue(dec *json.Decoder, depth int) (*value, error) {
	if depth > maxNesting {
		return nil, errNesting
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return &value{scalar: tok}, nil
	}
	v := &value{kind: byte(delim)}
	for dec.More() {
		var m member
		if v.kind == '{' {
			name, err := dec.Token()
			if err != nil {
				return nil, err
			}
			m.name = name.(string) // the decoder has checked that
		}
		if m.v, err = readValue(dec, depth+1); err != nil {
			return nil, err
		}
		if v.kind == '{' {
			v.members = append(v.members, m)
		} else {
			v.items = append(v.items, m.v)
		}
	}
	_, err = dec.Token() // the closing delimiter
	return v, err
}

// MarshalJSON writes the value in its order.
func (v *value) MarshalJSON() ([]byte, error) {
	switch v.kind {
	case '[':
		if v.items == nil {
			return []byte("[]"), nil
		}
		return json.Marshal(v.items)
	case '{':
		var b bytes.Buffer
		b.WriteByte('{')
		for i, m := range v.members {
			if i > 0 {
				b.WriteByte(',')
			}
			name, err := json.Marshal(m.name)
			if err != nil {
				return nil, err
			}
			text, err := m.v.MarshalJSON()
			if err != nil {
				return nil, err
			}
			b.Write(name)
			b.WriteByte(':')
			b.Write(text)
		}
		b.WriteByte('}')
		return b.Bytes(), nil
	default:
		return json.Marshal(v.scalar)
	}
}

// all calls f for each member of the object v that has the name. A nil v, or one
// that is no object, has none.
func (v *value) all(name string, f func(*value)) {
	if v == nil {
		return
	}
	for _, m := range v.members {
		if m.name == name {
			f(m.v)
		}
	}
}

// get returns the last member of the name, or nil.
func (v *value) get(name string) *value {
	var found *value
	v.all(name, func(m *value) { found = m })
	return found
}

// text returns v's string, and whether it is one.
func (v *value) text() (string, bool) {
	if v == nil {
		return "", false
	}
	s, ok := v.scalar.(string)
	return s, ok
}

// null reports whether v is absent or null.
func (v *value) null() bool { return v == nil || v.kind == 0 && v.scalar == nil }

// empty reports whether v is absent, null, "", {} or [].
func (v *value) empty() bool {
	return v.null() || v.kind != 0 && len(v.members)+len(v.items) == 0 || v.kind == 0 && v.scalar == ""
}

// set makes v the value to.
func (v *value) set(to value) { *v = to }

// orNull returns the JSON text of v, or null where it is absent.
func (v *value) orNull() ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	return v.MarshalJSON()
}

// textOrNull returns v's string, or "" where it is absent or null; ok is false for
// everything else.
func (v *value) textOrNull() (s string, ok bool) {
	if v.null() {
		return "", true
	}
	return v.text()
}

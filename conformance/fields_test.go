package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// fields is a JSON object of a case whose keys must all be read. Reading a key with
// the wrong method notes a fault, as a key that nobody read does; either fails the
// case.
type fields struct {
	at     string
	vals   map[string]json.RawMessage
	read   map[string]bool
	kids   []*fields
	faults *[]string
}

// newFields decodes the object raw, called at in messages.
func newFields(at string, raw json.RawMessage) (*fields, error) {
	f := &fields{at: at, read: map[string]bool{}, faults: new([]string)}
	if err := json.Unmarshal(raw, &f.vals); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if f.vals == nil {
		return nil, fmt.Errorf("%s: not an object", at)
	}
	return f, nil
}

// problems lists the faults noted so far and the keys that nobody read, here and below.
func (f *fields) problems() []string {
	out := slices.Clone(*f.faults)
	return append(out, f.unread()...)
}

func (f *fields) unread() []string {
	var out []string
	for k := range f.vals {
		if !f.read[k] {
			out = append(out, fmt.Sprintf("%s.%s: the runner does not know this field", f.at, k))
		}
	}
	for _, k := range f.kids {
		out = append(out, k.unread()...)
	}
	slices.Sort(out)
	return out
}

func (f *fields) faultf(key, format string, args ...any) {
	*f.faults = append(*f.faults, fmt.Sprintf("%s.%s: ", f.at, key)+fmt.Sprintf(format, args...))
}

// has reports whether key is present; it does not count as reading it.
func (f *fields) has(key string) bool { _, ok := f.vals[key]; return ok }

// null reports whether key is present and null.
func (f *fields) null(key string) bool {
	return bytes.Equal(bytes.TrimSpace(f.vals[key]), []byte("null"))
}

// decode reads key into dst and reports whether it was present.
func (f *fields) decode(key string, dst any) bool {
	raw, ok := f.vals[key]
	f.read[key] = true
	if !ok {
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(dst); err != nil {
		f.faultf(key, "%v", err)
	}
	return true
}

// str reads a string that must be there.
func (f *fields) str(key string) (s string) {
	if !f.decode(key, &s) {
		f.faultf(key, "missing")
	}
	return s
}

// optStr reads a string that may be absent or null, which ok=false tells.
func (f *fields) optStr(key string) (s string, ok bool) {
	var p *string
	f.decode(key, &p)
	if p == nil {
		return "", false
	}
	return *p, true
}

// flag reads a truth value; absent is false.
func (f *fields) flag(key string) (b bool) { f.decode(key, &b); return b }

// num reads a whole number that must be there.
func (f *fields) num(key string) (n int) {
	if !f.decode(key, &n) {
		f.faultf(key, "missing")
	}
	return n
}

// optNum reads a whole number that may be absent or null, which ok=false tells.
func (f *fields) optNum(key string) (n int, ok bool) {
	var p *int
	f.decode(key, &p)
	if p == nil {
		return 0, false
	}
	return *p, true
}

// strs reads a list of strings; absent is empty.
func (f *fields) strs(key string) (s []string) { f.decode(key, &s); return s }

// raw reads key as the JSON text of the case, with the order of its keys kept.
func (f *fields) raw(key string) json.RawMessage { f.read[key] = true; return f.vals[key] }

// value reads key as any JSON value; numbers are json.Number.
func (f *fields) value(key string) (v any) { f.decode(key, &v); return v }

// object reads key as an object whose keys must be read too. Absent or null is nil.
func (f *fields) object(key string) *fields {
	f.read[key] = true
	if !f.has(key) || f.null(key) {
		return nil
	}
	return f.child(key, f.at+"."+key, f.vals[key])
}

// objects reads key as a list of objects; absent is empty.
func (f *fields) objects(key string) []*fields {
	var raws []json.RawMessage
	f.decode(key, &raws)
	var out []*fields
	for i, raw := range raws {
		if c := f.child(key, fmt.Sprintf("%s.%s[%d]", f.at, key, i), raw); c != nil {
			out = append(out, c)
		}
	}
	return out
}

func (f *fields) child(key, at string, raw json.RawMessage) *fields {
	c, err := newFields(at, raw)
	if err != nil {
		f.faultf(key, "%v", err)
		return nil
	}
	c.faults = f.faults
	f.kids = append(f.kids, c)
	return c
}

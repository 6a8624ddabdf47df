package event

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// Data holds the values of a record that belong to its kind of operation, each
// under a key of its own, sorted by key.
//
// It is a slice of small values and not a map, because it is made twice for each
// operation and a map would cost more than reading a small file does.
type Data []Field

// Field is one value of a record's [Data]. Make one with [String], [Int] and
// their like.
type Field struct {
	Key   string
	Value Value
}

// Value is a JSON value. The zero Value is null.
type Value struct {
	kind kind
	num  uint64 // the bits of a bool, int64 or float64
	str  string
	// ext is a []string, or what [Decode] found: json.Number, []any, map[string]any.
	ext any
}

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindInt
	kindFloat
	kindString
	kindStrings
	kindJSON
)

// String returns a field that holds a text.
func String(key, v string) Field {
	return Field{key, Value{kind: kindString, str: v}}
}

// OptString returns a field that holds a text, or null where v is empty.
func OptString(key, v string) Field {
	if v == "" {
		return Null(key)
	}
	return String(key, v)
}

// Int returns a field that holds an integer.
func Int(key string, v int64) Field {
	return Field{key, Value{kind: kindInt, num: uint64(v)}}
}

// Float returns a field that holds a number; null where v is not finite, since
// JSON has no name for such a number.
func Float(key string, v float64) Field {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return Null(key)
	}
	return Field{key, Value{kind: kindFloat, num: math.Float64bits(v)}}
}

// Bool returns a field that holds a truth value.
func Bool(key string, v bool) Field {
	n := uint64(0)
	if v {
		n = 1
	}
	return Field{key, Value{kind: kindBool, num: n}}
}

// Strings returns a field that holds a list of texts. The field keeps v.
func Strings(key string, v []string) Field {
	return Field{key, Value{kind: kindStrings, ext: v}}
}

// Null returns a field that is there and holds nothing.
func Null(key string) Field { return Field{Key: key} }

// Any returns the value as nil, bool, int64, float64, string or []string; of a
// decoded record also as [json.Number], []any or map[string]any.
func (v Value) Any() any {
	switch v.kind {
	case kindBool:
		return v.num != 0
	case kindInt:
		return int64(v.num)
	case kindFloat:
		return math.Float64frombits(v.num)
	case kindString:
		return v.str
	case kindStrings, kindJSON:
		return v.ext
	default:
		return nil
	}
}

// MarshalJSON writes the value as records hold it.
func (v Value) MarshalJSON() ([]byte, error) { return appendValue(nil, v), nil }

// Get returns the value under key, and whether there is one.
func (d Data) Get(key string) (Value, bool) {
	for i := range d {
		if d[i].Key == key {
			return d[i].Value, true
		}
	}
	return Value{}, false
}

// set returns d with f in its place by key; a field of that key is replaced.
// It may change d's array.
func (d Data) set(f Field) Data {
	i := len(d)
	for i > 0 && d[i-1].Key > f.Key {
		i--
	}
	if i > 0 && d[i-1].Key == f.Key {
		d[i-1] = f
		return d
	}
	return slices.Insert(d, i, f)
}

// without returns a copy of d that has no field of that key.
func (d Data) without(key string) Data {
	return slices.DeleteFunc(slices.Clone(d), func(f Field) bool { return f.Key == key })
}

func (d Data) clone() Data {
	c := slices.Clone(d)
	for i := range c {
		c[i].Value.ext = cloneExt(c[i].Value.ext)
	}
	return c
}

func cloneExt(v any) any {
	switch v := v.(type) {
	case []string:
		return slices.Clone(v)
	case []any:
		c := slices.Clone(v)
		for i := range c {
			c[i] = cloneExt(c[i])
		}
		return c
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = cloneExt(e)
		}
		return c
	default:
		return v
	}
}

// dataOf turns a decoded JSON object into Data.
func dataOf(m map[string]any) Data {
	d := make(Data, 0, len(m))
	for k, v := range m {
		d = append(d, Field{k, valueOf(v)})
	}
	slices.SortFunc(d, func(a, b Field) int { return strings.Compare(a.Key, b.Key) })
	return d
}

func valueOf(v any) Value {
	switch v := v.(type) {
	case nil:
		return Value{}
	case bool:
		return Bool("", v).Value
	case string:
		return Value{kind: kindString, str: v}
	case json.Number:
		if n, err := v.Int64(); err == nil && v.String() != "-0" {
			return Int("", n).Value
		}
		return Value{kind: kindJSON, ext: v}
	default:
		return Value{kind: kindJSON, ext: v}
	}
}

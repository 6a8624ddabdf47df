package manifest

import (
	"slices"
	"strings"

	"github.com/croftdev/croft/internal/document"
)

// Fields of the environment.
var (
	environmentFields = []string{"value"}
	variableFields    = []string{"description", "ephemeral", "value"}
	valueFields       = map[string][]string{
		"str":       {"type", "value"},
		"host_env":  {"type", "name"},
		"host_file": {"type", "path"},
	}
)

// valueTypes are the types of values, in the order of the reference.
var valueTypes = []string{"str", "host_env", "host_file"}

// environment reads the environment: a map of variables, or an object that has
// this map as its one field "value". A map with a variable of the name "value"
// has to be written in the second form.
func (r *reader) environment(n *document.Node, place *document.Place) Environment {
	out := Environment{}
	o, ok := r.Object(n, place, nil)
	if !ok {
		return out
	}
	inner, innerPlace := o.Get("value")
	wrapped := inner != nil
	if wrapped {
		for _, f := range n.Fields {
			if !slices.Contains(environmentFields, f.Name) {
				r.Unknown(f, place, environmentFields)
			}
		}
		if o, ok = r.Object(inner, innerPlace, nil); !ok {
			return out
		}
	}
	o.Each(func(f document.Field, place *document.Place) {
		if f.Name == "" || strings.ContainsAny(f.Name, "=\x00") {
			r.Invalid(f.At, place, "value", "%q cannot be the name of a variable (environ(7))", f.Name)
		}
		v := r.variable(f.Value, place, wrapped)
		v.Name = f.Name
		out = append(out, v)
	})
	return out
}

// variable reads one variable: text, a value with a type, or an entry that holds a value.
//
// Text as the value of an entry is clear in the short form of the environment, and refused in the
// wrapped one, where {value: v, description: d} might as well be a value with a stray field (case MF-115).
func (r *reader) variable(n *document.Node, place *document.Place, wrapped bool) Variable {
	if n.Kind == document.Text {
		s, _ := r.Text(n, place)
		return Variable{Value: Text{Text: s}}
	}
	if n.Kind != document.Object {
		r.Want(n, place, document.Text)
		return Variable{Value: Text{}}
	}
	for _, f := range n.Fields {
		if f.Name == "type" {
			return Variable{Value: r.value(n, place)}
		}
	}
	o, _ := r.Object(n, place, variableFields)
	v := Variable{Entry: true, Description: o.Optional("description"), Ephemeral: o.Flag("ephemeral", false), Value: Text{}}
	inner, innerPlace := o.Get("value")
	switch {
	case inner == nil:
		o.Missing("value")
	case inner.Kind == document.Object:
		v.Value = r.value(inner, innerPlace)
	case inner.Kind == document.Text && len(n.Fields) > 1 && wrapped:
		r.Invalid(inner.At, innerPlace, "value", "text beside a description is ambiguous; write {type: str, value: ...}")
	default:
		s, _ := r.Text(inner, innerPlace)
		v.Value = Text{Text: s, Typed: true}
		v.Entry = len(n.Fields) > 1
	}
	return v
}

// value reads a value: {type: str, value: ...}, of which the type may be left out,
// {type: host_env, name: ...} or {type: host_file, path: ...}.
func (r *reader) value(n *document.Node, place *document.Place) Value {
	typ := "str"
	for _, f := range n.Fields {
		if f.Name == "type" {
			var ok bool
			if typ, ok = r.entryType(n, place, valueTypes); !ok {
				return Text{}
			}
		}
	}
	o, _ := r.Object(n, place, valueFields[typ])
	switch typ {
	case "host_env":
		if r.untrusted {
			r.refuseUntrusted(n.At, place, "a variable of the host")
		}
		return HostVariable{Name: o.Required("name")}
	case "host_file":
		if r.untrusted {
			r.refuseUntrusted(n.At, place, "a file of the host")
		}
		return HostFile{Path: o.Required("path")}
	}
	v, vPlace := o.Get("value")
	if v == nil {
		o.Missing("value")
		return Text{}
	}
	s, _ := r.Text(v, vPlace)
	return Text{Text: s, Typed: true}
}

package manifest

import (
	"strings"
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
func (r *reader) environment(n *node, place *trail) Environment {
	out := Environment{}
	o, ok := r.object(n, place, nil)
	if !ok {
		return out
	}
	inner, innerPlace := o.get("value")
	wrapped := inner != nil
	if wrapped {
		for _, f := range n.fields {
			if !contains(environmentFields, f.name) {
				r.unknown(f, place, environmentFields)
			}
		}
		if o, ok = r.object(inner, innerPlace, nil); !ok {
			return out
		}
	}
	o.each(func(f field, place *trail) {
		if f.name == "" || strings.ContainsAny(f.name, "=\x00") {
			r.invalid(f.at, place, "value", "%q cannot be the name of a variable (environ(7))", f.name)
		}
		v := r.variable(f.value, place, wrapped)
		v.Name = f.name
		out = append(out, v)
	})
	return out
}

// variable reads one variable: text, a value with a type, or an entry that holds a value.
//
// Text as the value of an entry is clear in the short form of the environment, and refused in the
// wrapped one, where {value: v, description: d} might as well be a value with a stray field (case MF-115).
func (r *reader) variable(n *node, place *trail, wrapped bool) Variable {
	if n.kind == text {
		s, _ := r.text(n, place)
		return Variable{Value: Text{Text: s}}
	}
	if n.kind != object {
		r.want(n, place, text)
		return Variable{Value: Text{}}
	}
	for _, f := range n.fields {
		if f.name == "type" {
			return Variable{Value: r.value(n, place)}
		}
	}
	o, _ := r.object(n, place, variableFields)
	v := Variable{Entry: true, Description: o.optional("description"), Ephemeral: o.flag("ephemeral", false), Value: Text{}}
	inner, innerPlace := o.get("value")
	switch {
	case inner == nil:
		o.missing("value")
	case inner.kind == object:
		v.Value = r.value(inner, innerPlace)
	case inner.kind == text && len(n.fields) > 1 && wrapped:
		r.invalid(inner.at, innerPlace, "value", "text beside a description is ambiguous; write {type: str, value: ...}")
	default:
		s, _ := r.text(inner, innerPlace)
		v.Value = Text{Text: s, Typed: true}
		v.Entry = len(n.fields) > 1
	}
	return v
}

// value reads a value: {type: str, value: ...}, of which the type may be left out,
// {type: host_env, name: ...} or {type: host_file, path: ...}.
func (r *reader) value(n *node, place *trail) Value {
	typ := "str"
	for _, f := range n.fields {
		if f.name == "type" {
			var ok bool
			if typ, ok = r.entryType(n, place, valueTypes); !ok {
				return Text{}
			}
		}
	}
	o, _ := r.object(n, place, valueFields[typ])
	switch typ {
	case "host_env":
		if r.untrusted {
			r.refuseUntrusted(n.at, place, "a variable of the host")
		}
		return HostVariable{Name: o.required("name")}
	case "host_file":
		if r.untrusted {
			r.refuseUntrusted(n.at, place, "a file of the host")
		}
		return HostFile{Path: o.required("path")}
	}
	v, vPlace := o.get("value")
	if v == nil {
		o.missing("value")
		return Text{}
	}
	s, _ := r.text(v, vPlace)
	return Text{Text: s, Typed: true}
}

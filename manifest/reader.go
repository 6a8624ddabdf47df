package manifest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/croftdev/croft/internal/fault"
)

// maxFaults bounds the list that Check returns; a text of nothing but faults
// should not cost more than the text.
const maxFaults = 1000

// reader turns nodes into checked values and collects what is wrong with them. Its
// methods go on after a fault, with a value that causes no further ones.
type reader struct {
	name      string
	untrusted bool
	faults    []*fault.Error
	paths     paths
}

// refuse adds a fault.
func (r *reader) refuse(at position, place *trail, code fault.Code, reason, problem string) {
	r.refusePath(at, place, code, reason, "", problem)
}

// refusePath adds a fault with the name that it is about.
func (r *reader) refusePath(at position, place *trail, code fault.Code, reason, path, problem string) {
	if len(r.faults) >= maxFaults {
		return
	}
	if len(r.faults) == maxFaults-1 {
		code, reason, path, problem = fault.LimitExceeded, "limit", "", "too many faults; those after this one are not listed"
	}
	name := place.String()
	r.faults = append(r.faults, &fault.Error{
		Code: code, Op: "manifest", Path: path, Reason: reason, Retry: fault.RetryNo,
		Message: fmt.Sprintf("%s:%d:%d: %s: %s", r.name, at.line, at.column, name, problem),
		Details: map[string]any{"place": name, "line": at.line, "column": at.column, "problem": problem},
	})
}

// invalid adds a fault of the code fault.InvalidArgument.
func (r *reader) invalid(at position, place *trail, reason, format string, args ...any) {
	r.refuse(at, place, fault.InvalidArgument, reason, fmt.Sprintf(format, args...))
}

// want adds the fault that a node is not of the kind that its place wants.
func (r *reader) want(n *node, place *trail, want kind) {
	hint := ""
	if want == text && (n.kind == number || n.kind == boolean) {
		hint = fmt.Sprintf("; put it in quotes: %q", n.text)
	}
	r.invalid(n.at, place, "type", "want %s, have %s%s", want, n.kind, hint)
}

// fieldsOf is an object with its fields by name.
type fieldsOf struct {
	r      *reader
	n      *node
	place  *trail
	byName map[string]*node
}

// child returns the place of something below place.
func child(p *trail, name string) *trail { return &trail{p, name} }

// object returns the fields of n, and false if it is no object. A doubled field is
// a fault, since parsers differ in which of the two they take: what one program
// checked would not be what another does. With known not nil, so is each field
// that it does not name.
func (r *reader) object(n *node, place *trail, known []string) (fieldsOf, bool) {
	o := fieldsOf{r: r, n: n, place: place, byName: map[string]*node{}}
	if n.kind != object {
		r.want(n, place, object)
		return o, false
	}
	lines := map[string]int{}
	for _, f := range n.fields {
		if first, doubled := lines[f.name]; doubled {
			r.invalid(f.at, child(place, f.name), "duplicate_field", "the name is there twice; the first is in line %d", first)
			continue
		}
		lines[f.name] = f.at.line
		o.byName[f.name] = f.value
		if known != nil && !contains(known, f.name) {
			r.unknown(f, place, known)
		}
	}
	return o, true
}

// unknown adds the fault that an object has a field that it cannot have.
func (r *reader) unknown(f field, place *trail, known []string) {
	r.invalid(f.at, child(place, f.name), "unknown_field", "unknown field; known here: %s", strings.Join(known, ", "))
}

// each calls fn for each field in written order, a doubled one once.
func (o fieldsOf) each(fn func(f field, place *trail)) {
	for _, f := range o.n.fields {
		if o.byName[f.name] == f.value {
			fn(f, child(o.place, f.name))
		}
	}
}

func contains(known []string, name string) bool {
	for _, k := range known {
		if k == name {
			return true
		}
	}
	return false
}

// get returns the named field's node and place; the node is nil if there is none.
func (o fieldsOf) get(name string) (*node, *trail) {
	return o.byName[name], child(o.place, name)
}

// missing adds the fault that a field has to be there.
func (o fieldsOf) missing(name string) {
	o.r.invalid(o.n.at, child(o.place, name), "missing_field", "the field %q has to be there", name)
}

// required returns the text of a field that has to be there and not be empty.
func (o fieldsOf) required(name string) string {
	n, place := o.get(name)
	if n == nil {
		o.missing(name)
		return ""
	}
	s, ok := o.r.text(n, place)
	if ok && s == "" {
		o.r.invalid(n.at, place, "value", "the text is empty")
	}
	return s
}

// optional returns the text of a field that may be missing or null.
func (o fieldsOf) optional(name string) string {
	n, place := o.get(name)
	if n == nil || n.kind == null {
		return ""
	}
	s, _ := o.r.text(n, place)
	return s
}

// flag returns the boolean of a field, or def if it is missing.
func (o fieldsOf) flag(name string, def bool) bool {
	n, place := o.get(name)
	if n == nil {
		return def
	}
	return o.r.boolean(n, place, def)
}

// yamlWords are words that stand for true and false in YAML 1.1 and are text in
// YAML 1.2. Without quotes, what they say depends on who reads them.
var yamlWords = []string{"y", "n", "yes", "no", "on", "off"}

// yamlWord reports whether n is one of yamlWords without quotes.
func yamlWord(n *node) bool { return n.plain && contains(yamlWords, strings.ToLower(n.text)) }

// text returns the text of n. It holds no NUL: nothing that a manifest has text for (names,
// paths, values of variables) can hold one, and C programs would see less of it than croft did.
func (r *reader) text(n *node, place *trail) (string, bool) {
	switch {
	case n.kind != text:
		r.want(n, place, text)
	case yamlWord(n):
		r.invalid(n.at, place, "type",
			"want text, have %s, which some versions of YAML take for true or false; put it in quotes", n.text)
	case strings.ContainsRune(n.text, 0):
		r.invalid(n.at, place, "value", "the text has a NUL character in it")
	default:
		return n.text, true
	}
	return "", false
}

// boolean returns the boolean of n, or def with a fault.
func (r *reader) boolean(n *node, place *trail, def bool) bool {
	switch {
	case n.kind == boolean:
		return strings.EqualFold(n.text, "true")
	case yamlWord(n):
		r.invalid(n.at, place, "type", "want true or false, have %s, which is text in YAML 1.2", n.text)
	default:
		r.want(n, place, boolean)
	}
	return def
}

// integer returns the integer of n between low and high.
func (r *reader) integer(n *node, place *trail, low, high int64) (int64, bool) {
	if n.kind != number {
		r.want(n, place, number)
		return low, false
	}
	i, err := strconv.ParseInt(n.text, 10, 64)
	// Only what every reader takes for the same number: not 010, 0x1f, 1_000, +1 or 1.0.
	if err != nil || strconv.FormatInt(i, 10) != n.text {
		r.invalid(n.at, place, "value", "want a whole number in plain decimal digits, have %s", n.text)
		return low, false
	}
	if i < low || i > high {
		if low == high {
			r.invalid(n.at, place, "value", "want %d, have %d", low, i)
			return low, false
		}
		r.invalid(n.at, place, "value", "want a number from %d to %d, have %d", low, high, i)
		return low, false
	}
	return i, true
}

// texts returns the items of a list of texts.
func (r *reader) texts(n *node, place *trail) []string {
	out := []string{}
	r.items(n, place, func(item *node, place *trail) {
		if s, ok := r.text(item, place); ok {
			out = append(out, s)
		}
	})
	return out
}

// items calls fn for each item of a list.
func (r *reader) items(n *node, place *trail, fn func(item *node, place *trail)) {
	if n.kind != list {
		r.want(n, place, list)
		return
	}
	for i, item := range n.items {
		fn(item, child(place, strconv.Itoa(i)))
	}
}

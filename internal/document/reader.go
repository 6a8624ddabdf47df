package document

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/croftdev/croft/internal/fault"
)

// MaxFaults bounds the list of faults; a text of nothing but faults
// should not cost more than the text.
const MaxFaults = 1000

// Reader turns nodes into checked values and collects what is wrong with them. Its
// methods go on after a fault, with a value that causes no further ones.
//
// Each fault has in its Details "place" (a [Place] as text), "line", "column" and "problem"
// (the message without them); its Op is the noun of the source.
type Reader struct {
	src    Source
	faults []*fault.Error
}

// NewReader returns the reader of one text.
func NewReader(src Source) *Reader { return &Reader{src: src} }

// Faults returns the faults in the order of their places in the text.
func (r *Reader) Faults() []*fault.Error {
	slices.SortStableFunc(r.faults, byPosition)
	return r.faults
}

// OK reports whether there is no fault so far.
func (r *Reader) OK() bool { return len(r.faults) == 0 }

// Parse parses data to a tree. Where the text is not well-formed or passes a limit, that becomes
// the only fault and the tree is nil.
func (r *Reader) Parse(data []byte) *Node {
	n, p := parse(data, r.src)
	if p != nil {
		r.Refuse(p.at, nil, p.code, p.reason, p.text)
		return nil
	}
	return n
}

// Weigh adds a fault if something of the weight w passes a limit; note ends its message.
func (r *Reader) Weigh(w Weight, note string) {
	if p := r.src.check(w, Position{1, 1}); p != nil {
		r.Refuse(p.at, nil, p.code, p.reason, p.text+note)
	}
}

// byPosition orders faults by line and column.
func byPosition(a, b *fault.Error) int {
	return cmp.Or(
		cmp.Compare(a.Details["line"].(int), b.Details["line"].(int)),
		cmp.Compare(a.Details["column"].(int), b.Details["column"].(int)),
	)
}

// Refuse adds a fault at a position and place.
func (r *Reader) Refuse(at Position, place *Place, code fault.Code, reason, problem string) {
	r.RefusePath(at, place, code, reason, "", problem)
}

// RefusePath adds a fault with the name that it is about.
func (r *Reader) RefusePath(at Position, place *Place, code fault.Code, reason, path, problem string) {
	if len(r.faults) >= MaxFaults {
		return
	}
	if len(r.faults) == MaxFaults-1 {
		code, reason, path, problem = fault.LimitExceeded, "limit", "", "too many faults; those after this one are not listed"
	}
	name := place.String()
	r.faults = append(r.faults, &fault.Error{
		Code: code, Op: r.src.Noun, Path: path, Reason: reason, Retry: fault.RetryNo,
		Message: fmt.Sprintf("%s:%d:%d: %s: %s", r.src.Name, at.Line, at.Column, name, problem),
		Details: map[string]any{"place": name, "line": at.Line, "column": at.Column, "problem": problem},
	})
}

// Invalid adds a fault of the code fault.InvalidArgument.
func (r *Reader) Invalid(at Position, place *Place, reason, format string, args ...any) {
	r.Refuse(at, place, fault.InvalidArgument, reason, fmt.Sprintf(format, args...))
}

// Want adds the fault that a node is not of the kind that its place wants.
func (r *Reader) Want(n *Node, place *Place, want Kind) {
	hint := ""
	if want == Text && (n.Kind == Number || n.Kind == Boolean) {
		hint = fmt.Sprintf("; put it in quotes: %q", n.Text)
	}
	r.Invalid(n.At, place, "type", "want %s, have %s%s", want, n.Kind, hint)
}

// Fields is an object with its fields by name.
type Fields struct {
	// Node is the object.
	Node   *Node
	r      *Reader
	place  *Place
	byName map[string]*Node
}

// Child returns the place of something below place.
func Child(p *Place, name string) *Place { return &Place{p, name} }

// Object returns the fields of n, and false if it is no object. A doubled field is
// a fault, since parsers differ in which of the two they take: what one program
// checked would not be what another does. With known not nil, so is each field
// that it does not name.
func (r *Reader) Object(n *Node, place *Place, known []string) (Fields, bool) {
	o := Fields{r: r, Node: n, place: place, byName: map[string]*Node{}}
	if n.Kind != Object {
		r.Want(n, place, Object)
		return o, false
	}
	lines := map[string]int{}
	for _, f := range n.Fields {
		if first, doubled := lines[f.Name]; doubled {
			r.Invalid(f.At, Child(place, f.Name), "duplicate_field", "the name is there twice; the first is in line %d", first)
			continue
		}
		lines[f.Name] = f.At.Line
		o.byName[f.Name] = f.Value
		if known != nil && !slices.Contains(known, f.Name) {
			r.Unknown(f, place, known)
		}
	}
	return o, true
}

// Unknown adds the fault that an object has a field that it cannot have.
func (r *Reader) Unknown(f Field, place *Place, known []string) {
	r.Invalid(f.At, Child(place, f.Name), "unknown_field", "unknown field; known here: %s", strings.Join(known, ", "))
}

// Each calls fn for each field in written order, a doubled one once.
func (o Fields) Each(fn func(f Field, place *Place)) {
	for _, f := range o.Node.Fields {
		if o.byName[f.Name] == f.Value {
			fn(f, Child(o.place, f.Name))
		}
	}
}

// Get returns the named field's node and place; the node is nil if there is none.
func (o Fields) Get(name string) (*Node, *Place) {
	return o.byName[name], Child(o.place, name)
}

// Empty returns an object at the same place that has no fields.
func (o Fields) Empty() Fields { return Fields{r: o.r, Node: o.Node, place: o.place} }

// Missing adds the fault that a field has to be there.
func (o Fields) Missing(name string) {
	o.r.Invalid(o.Node.At, Child(o.place, name), "missing_field", "the field %q has to be there", name)
}

// Required returns the text of a field that has to be there and not be empty.
func (o Fields) Required(name string) string {
	n, place := o.Get(name)
	if n == nil {
		o.Missing(name)
		return ""
	}
	s, ok := o.r.Text(n, place)
	if ok && s == "" {
		o.r.Invalid(n.At, place, "value", "the text is empty")
	}
	return s
}

// Optional returns the text of a field that may be missing or null.
func (o Fields) Optional(name string) string {
	n, place := o.Get(name)
	if n == nil || n.Kind == Null {
		return ""
	}
	s, _ := o.r.Text(n, place)
	return s
}

// Flag returns the boolean of a field, or def if it is missing.
func (o Fields) Flag(name string, def bool) bool {
	n, place := o.Get(name)
	if n == nil {
		return def
	}
	return o.r.Boolean(n, place, def)
}

// yamlWords are words that stand for true and false in YAML 1.1 and are text in
// YAML 1.2. Without quotes, what they say depends on who reads them.
var yamlWords = []string{"y", "n", "yes", "no", "on", "off"}

// YAMLWord reports whether n is one of yamlWords without quotes.
func YAMLWord(n *Node) bool { return n.plain && slices.Contains(yamlWords, strings.ToLower(n.Text)) }

// Text returns the text of n. It holds no NUL: nothing that croft takes text for (names,
// paths, values of variables) can hold one, and C programs would see less of it than croft did.
func (r *Reader) Text(n *Node, place *Place) (string, bool) {
	switch {
	case n.Kind != Text:
		r.Want(n, place, Text)
	case YAMLWord(n):
		r.Invalid(n.At, place, "type",
			"want text, have %s, which some versions of YAML take for true or false; put it in quotes", n.Text)
	case strings.ContainsRune(n.Text, 0):
		r.Invalid(n.At, place, "value", "the text has a NUL character in it")
	default:
		return n.Text, true
	}
	return "", false
}

// Boolean returns the boolean of n, or def with a fault.
func (r *Reader) Boolean(n *Node, place *Place, def bool) bool {
	switch {
	case n.Kind == Boolean:
		return strings.EqualFold(n.Text, "true")
	case YAMLWord(n):
		r.Invalid(n.At, place, "type", "want true or false, have %s, which is text in YAML 1.2", n.Text)
	default:
		r.Want(n, place, Boolean)
	}
	return def
}

// Integer returns the integer of n between low and high.
func (r *Reader) Integer(n *Node, place *Place, low, high int64) (int64, bool) {
	if n.Kind != Number {
		r.Want(n, place, Number)
		return low, false
	}
	i, err := strconv.ParseInt(n.Text, 10, 64)
	// Only what every reader takes for the same number: not 010, 0x1f, 1_000, +1 or 1.0.
	if err != nil || strconv.FormatInt(i, 10) != n.Text {
		r.Invalid(n.At, place, "value", "want a whole number in plain decimal digits, have %s", n.Text)
		return low, false
	}
	if i < low || i > high {
		if low == high {
			r.Invalid(n.At, place, "value", "want %d, have %d", low, i)
			return low, false
		}
		r.Invalid(n.At, place, "value", "want a number from %d to %d, have %d", low, high, i)
		return low, false
	}
	return i, true
}

// Texts returns the items of a list of texts.
func (r *Reader) Texts(n *Node, place *Place) []string {
	out := []string{}
	r.Items(n, place, func(item *Node, place *Place) {
		if s, ok := r.Text(item, place); ok {
			out = append(out, s)
		}
	})
	return out
}

// Items calls fn for each item of a list.
func (r *Reader) Items(n *Node, place *Place, fn func(item *Node, place *Place)) {
	if n.Kind != List {
		r.Want(n, place, List)
		return
	}
	for i, item := range n.Items {
		fn(item, Child(place, strconv.Itoa(i)))
	}
}

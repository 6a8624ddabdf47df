package policy

import (
	"cmp"
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"github.com/croftdev/croft/internal/document"
	"github.com/croftdev/croft/internal/fault"
)

// Schema is the JSON Schema (2020-12) of the file form, for editors and other programs. It has
// the fields that [Parse] knows, their types and the form of their values; what needs more than one field to
// see only Parse checks.
//
//go:embed schema.json
var Schema string

// MaxBytes is the longest policy file.
const MaxBytes = 1 << 20

var fileLimits = document.Limits{Bytes: MaxBytes, Nodes: 20_000, Depth: 10, YAMLTokens: 20_000}

// Format is the notation of a policy file.
type Format = document.Format

// The notations. Auto takes the one that Options.Name ends in, else JSON where the
// first character is "{", else YAML.
const (
	Auto = document.Auto
	JSON = document.JSON
	YAML = document.YAML
)

// Options says how to read a policy file. The zero value will do.
type Options struct {
	// Format is the notation; Auto by default.
	Format Format
	// Name is the file's name in messages; "policy" by default.
	Name string
}

// The fields of the file form, in the order of the reference.
var (
	policyFields = []string{
		"version", "tier", "floor", "network", "read_paths", "write_paths", "hidden_paths", "protected", "limits", "system_calls",
	}
	callFields = []string{"deny", "allow"}
)

// Parse reads and checks a policy file. The error is a [*fault.Error], the first of those that
// [Faults] returns.
func Parse(data []byte, opts Options) (Policy, error) {
	p, faults := Faults(data, opts)
	if len(faults) > 0 {
		return Policy{}, faults[0]
	}
	return p, nil
}

// Faults reads and checks a policy file and returns every fault in it, in the order of their
// places in the text; with one, the policy is the zero value. Where the text is not well-formed or passes
// a limit, that is the only fault.
//
// Each fault has in its Details "place" (the names that lead to it, joined by dots:
// "limits.memory"; "." for the whole), "line" and "column" (from 1, in characters) and "problem" (the message
// without them). Codes: fault.LimitExceeded, and fault.InvalidArgument with the Reason "syntax",
// "unknown_field", "duplicate_field", "type" or "value".
func Faults(data []byte, opts Options) (Policy, []*fault.Error) {
	r := &reader{document.NewReader(document.Source{
		Noun: "policy", Name: cmp.Or(opts.Name, "policy"), Format: opts.Format, Limits: fileLimits,
	})}
	var p Policy
	if tree := r.Parse(data); tree != nil {
		p = r.policy(tree)
	}
	if !r.OK() {
		return Policy{}, r.Faults()
	}
	return p, nil
}

// reader turns nodes into the checked values of a policy.
type reader struct{ *document.Reader }

func (r *reader) policy(n *document.Node) Policy {
	var p Policy
	o, ok := r.Object(n, nil, policyFields)
	if !ok {
		return p
	}
	if n, place := o.Get("version"); n != nil {
		r.Integer(n, place, Version, Version)
	}
	p.Tier = Tier(r.word(o, "tier", tierNames))
	p.Floor = Tier(r.word(o, "floor", tierNames))
	p.Network = Network(r.word(o, "network", networkNames))
	for _, to := range []struct {
		name string
		list *[]string
	}{
		{"read_paths", &p.ReadPaths}, {"write_paths", &p.WritePaths}, {"hidden_paths", &p.HiddenPaths}, {"protected", &p.Protected},
	} {
		if n, place := o.Get(to.name); n != nil {
			*to.list = r.Texts(n, place)
		}
	}
	if n, place := o.Get("limits"); n != nil {
		p.Limits = r.limits(n, place)
	}
	calls := o.Empty()
	if n, place := o.Get("system_calls"); n != nil {
		if calls, ok = r.Object(n, place, callFields); ok {
			if n, place := calls.Get("deny"); n != nil {
				p.SystemCalls.Deny = r.Texts(n, place)
			}
			if n, place := calls.Get("allow"); n != nil {
				p.SystemCalls.Allow = r.Texts(n, place)
			}
		}
	}
	if r.OK() { // else the items of a list are not where their nodes are
		r.checkLists(&p, o, calls)
	}
	return p
}

// checkLists checks what the lists hold, each value at its own place.
func (r *reader) checkLists(p *Policy, o, calls document.Fields) {
	item := func(list string, i int, problem string) {
		from := o
		if name, ok := strings.CutPrefix(list, "system_calls."); ok {
			list, from = name, calls
		}
		n, place := from.Get(list)
		r.Invalid(n.Items[i].At, document.Child(place, strconv.Itoa(i)), "value", "%s", problem)
	}
	for _, l := range p.lists() {
		for i, value := range l.values {
			switch problem := l.check(value); {
			case problem != "":
				item(l.name, i, problem)
			case slices.Contains(l.values[:i], value):
				item(l.name, i, strconv.Quote(value)+" is there twice")
			}
		}
	}
	if c := p.contradiction(); c != nil && r.OK() {
		item(c.list, c.index, c.problem)
	}
}

// word returns the text of a field that has to be one of known, or "" if it is not there.
func (r *reader) word(o document.Fields, name string, known []string) string {
	n, place := o.Get(name)
	if n == nil {
		return ""
	}
	s, ok := r.Text(n, place)
	if ok && !slices.Contains(known, s) {
		r.Invalid(n.At, place, "value", "want %s, have %q", strings.Join(known, ", "), s)
	}
	return s
}

// limits reads the object of the limits.
func (r *reader) limits(n *document.Node, place *document.Place) Limits {
	var l Limits
	o, ok := r.Object(n, place, LimitNames())
	if !ok {
		return l
	}
	for _, f := range limitFields {
		n, place := o.Get(f.name)
		if n == nil {
			continue
		}
		written := n.Text
		switch {
		case f.quantity == count && n.Kind != document.Number:
			r.Want(n, place, document.Number)
			continue
		case f.quantity == share || n.Kind != document.Number:
			if written, ok = r.Text(n, place); !ok {
				continue
			}
		}
		v, problem := f.parse(written)
		if problem != "" {
			r.Invalid(n.At, place, "value", "%s", problem)
			continue
		}
		*f.in(&l) = v
	}
	return l
}

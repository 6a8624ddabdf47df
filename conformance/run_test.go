package conformance

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
)

// result is what became of one case; it is also a line of the report.
type result struct {
	Area   string `json:"area"`
	ID     string `json:"id"`
	Call   string `json:"call"`
	Result string `json:"result"` // pass, fail, skip or pending
	Why    string `json:"why,omitempty"`

	mutants  int      // wanted values that were changed
	survived []string // changes that the comparison did not notice
}

// The values of result.Result.
const (
	passed  = "pass"
	failed  = "fail"
	skipped = "skip"
	waiting = "pending"
)

// outcomeOf runs the case once and returns what became of it, however often it is
// called. With strict set nothing is pending.
func (c *oneCase) outcomeOf(strict bool) result {
	c.once.Do(func() {
		c.res = c.run(strict)
		c.res.Area, c.res.ID, c.res.Call = c.area, c.ID, c.call
		record(c.res)
	})
	return c.res
}

func (c *oneCase) run(strict bool) (res result) {
	if why := pending(c.area, c.call); why != "" {
		if strict {
			return result{Result: failed, Why: "not built yet: " + why}
		}
		return result{Result: waiting, Why: why}
	}
	a, ok := areas[c.area]
	if !ok {
		return result{Result: failed, Why: "the runner does not know this area"}
	}
	cl, ok := a.calls[c.call]
	if !ok {
		if c.Optional {
			return result{Result: skipped, Why: "optional: another language's plumbing"}
		}
		return result{Result: failed, Why: "the runner does not know this call"}
	}
	why, err := missing(c.Requires)
	if err != nil {
		return result{Result: failed, Why: err.Error()}
	}
	if why != "" {
		return result{Result: skipped, Why: why}
	}
	return c.runCall(a, cl)
}

// runCall sets the case up, calls the library and compares.
func (c *oneCase) runCall(a area, cl call) (res result) {
	e, err := newEnv(a.makes)
	if e != nil {
		defer func() {
			if why := e.close(); why != "" && res.Result == passed {
				res = result{Result: failed, Why: why}
			}
		}()
	}
	if err != nil {
		return result{Result: failed, Why: "setup: " + err.Error()}
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stopCase:
			res = result{Result: failed, Why: p.why}
			if p.skip {
				res.Result = skipped
			}
		default:
			res = result{Result: failed, Why: fmt.Sprintf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	for i, raw := range c.Setup {
		step, err := newFields(fmt.Sprintf("setup[%d]", i), e.fill(raw))
		e.check(err)
		e.check(e.setup(step))
		if bad := step.problems(); len(bad) > 0 {
			e.fatalf("%s", strings.Join(bad, "; "))
		}
	}
	op, err := newFields("op", e.fill(c.Op))
	e.check(err)
	op.str("call")
	out, opErr := cl.run(e, op)
	if bad := op.problems(); len(bad) > 0 {
		e.fatalf("%s", strings.Join(bad, "; "))
	}
	got := &seen{env: e, call: cl, out: out, err: opErr}
	return c.compare(got)
}

// compare holds the outcome against the case, and then against every mutant of it.
func (c *oneCase) compare(got *seen) result {
	expect, err := got.wanted("expect", c.Expect)
	got.env.check(err)
	want := expect
	if len(c.Preferred) > 0 {
		want, err = got.wanted("preferred", c.Preferred)
		got.env.check(err)
	}
	if diff := got.against(want); diff != "" {
		return result{Result: failed, Why: diff}
	}
	res := result{Result: passed}
	for _, m := range mutants(want) {
		res.mutants++
		if got.against(m.want) == "" {
			res.survived = append(res.survived, m.at)
		}
	}
	return res
}

// seen is what came back from a call, ready to be compared.
type seen struct {
	env   *env
	call  call
	out   outcome
	err   error
	cache map[string]any
}

// wanted decodes an expect or a preferred and refuses fields that the call does not know.
func (s *seen) wanted(at string, raw json.RawMessage) (map[string]any, error) {
	v, err := decodeValue(s.env.fill(raw))
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", at)
	}
	for k := range m {
		base, _ := suffixed(k)
		if !s.call.knows(k) && !s.call.knows(base) {
			return nil, fmt.Errorf("%s.%s: the runner does not know this outcome", at, k)
		}
	}
	if _, ok := m["ok"].(bool); !ok {
		return nil, fmt.Errorf("%s says not whether the call succeeds", at)
	}
	return m, nil
}

// against returns the first difference between what is wanted and what came back.
func (s *seen) against(want map[string]any) string {
	if ok := s.err == nil; ok != want["ok"] {
		return fmt.Sprintf("ok: want %v, got %v, error %v", want["ok"], ok, s.err)
	}
	keys := make([]string, 0, len(want))
	for k := range want {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if d := s.field(k, want[k]); d != "" {
			return d
		}
	}
	return ""
}

// field compares one wanted field.
func (s *seen) field(name string, want any) string {
	switch name {
	case "ok", "note", "message":
		return ""
	case "error":
		if s.err != nil {
			raw, err := json.Marshal(want)
			s.env.check(err)
			return matchError(s.env, raw, s.err)
		}
	}
	m := s.call.match[name]
	base := name
	if _, ok := s.out[name]; !ok {
		var by match
		if base, by = suffixed(name); by != nil && m == nil {
			m = by
		}
	}
	if m == nil {
		m = equal
		if base == "tree" || base == "outside_tree" {
			m = matchTree
		}
	}
	got, ok := s.value(base, want)
	if !ok {
		return fmt.Sprintf("%s: want %s, but the call has no such outcome", name, show(want))
	}
	if d := m(want, got); d != "" {
		return name + d
	}
	return ""
}

// value returns the outcome field name. What lies on disk is read once, so that
// the mutants are compared with the very same outcome.
func (s *seen) value(name string, want any) (any, bool) {
	if v, ok := s.cache[name]; ok {
		return v, true
	}
	v, ok := s.out[name]
	switch {
	case ok:
		if l, isLazy := v.(lazy); isLazy {
			v = l(keysOf(want))
		}
	case name == "tree":
		v = s.env.tree(s.env.root)
	case name == "outside_tree":
		v = s.env.tree(s.env.outside)
	default:
		return nil, false
	}
	v, err := asJSON(v)
	s.env.check(err)
	if s.cache == nil {
		s.cache = map[string]any{}
	}
	s.cache[name] = v
	return v, true
}

func keysOf(v any) []string {
	m, _ := v.(map[string]any)
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

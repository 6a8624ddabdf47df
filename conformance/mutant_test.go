package conformance

import (
	"encoding/json"
	"fmt"
	"slices"
)

// A mutant is a wanted outcome with one value changed: a case that still passes with
// it would pass whatever the library did.
type mutant struct {
	at   string
	want map[string]any
}

// mutants changes every value of want in turn, once each. Informative fields are
// left alone, since no change of theirs can matter.
func mutants(want map[string]any) []mutant {
	var out []mutant
	for k, v := range want {
		if k == "note" || k == "message" {
			continue
		}
		_, atLeast := suffixed(k)
		changes(k, v, atLeast != nil, func(at string, changed any) {
			m := make(map[string]any, len(want))
			for k2, v2 := range want {
				m[k2] = v2
			}
			m[k] = changed
			out = append(out, mutant{at: at, want: m})
		})
	}
	return out
}

// changes calls yield with each one-value change of v. Where only a part is wanted
// (atLeast), wanting less of it is no change, so lists are not shortened there.
func changes(at string, v any, atLeast bool, yield func(at string, changed any)) {
	switch x := v.(type) {
	case nil:
		yield(at+" null replaced", "mutant")
	case bool:
		yield(at+" flipped", !x)
	case string:
		if atLeast && x == "" {
			return
		}
		yield(at+" altered", x+"~mutant")
	case json.Number:
		yield(at+" raised", json.Number(plusOne(x)))
	case []any:
		if !atLeast {
			if len(x) > 0 {
				yield(at+" shortened", slices.Clone(x[:len(x)-1]))
			} else {
				yield(at+" lengthened", []any{"mutant"})
			}
		}
		for i := range x {
			changes(fmt.Sprintf("%s[%d]", at, i), x[i], atLeast, func(at string, changed any) {
				c := slices.Clone(x)
				c[i] = changed
				yield(at, c)
			})
		}
	case map[string]any:
		yield(at+" grown", with(x, "mutant", "mutant"))
		for k := range x {
			if at == "error" && (k == "message" || k == "loc" || k == "kind") {
				continue
			}
			changes(at+"."+k, x[k], atLeast, func(at string, changed any) {
				yield(at, with(x, k, changed))
			})
		}
	}
}

func with(m map[string]any, key string, v any) map[string]any {
	out := make(map[string]any, len(m)+1)
	for k, x := range m {
		out[k] = x
	}
	out[key] = v
	return out
}

func plusOne(n json.Number) string {
	if i, err := n.Int64(); err == nil {
		return fmt.Sprint(i + 1)
	}
	return n.String() + "1"
}

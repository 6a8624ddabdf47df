package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// A match compares a wanted value with the one that came back and returns what
// differs, or "". Both are JSON values; numbers are json.Number.
type match func(want, got any) string

// equal wants the same value: numbers by value, objects key by key. ${CHUNK} in a
// wanted text stands for six hexadecimal digits.
func equal(want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return differ(want, got)
		}
		for k := range g {
			if _, ok := w[k]; !ok {
				return fmt.Sprintf(".%s: not wanted, got %s", k, show(g[k]))
			}
		}
		return eachKey(w, g, equal)
	case []any:
		return eachElement(w, got, equal)
	case json.Number:
		g, ok := got.(json.Number)
		if !ok || !sameNumber(w, g) {
			return differ(want, got)
		}
		return ""
	case string:
		g, ok := got.(string)
		if !ok || !sameText(w, g) {
			return differ(want, got)
		}
		return ""
	default:
		if want != got {
			return differ(want, got)
		}
		return ""
	}
}

// subset wants each listed key of an object to be equal, at every depth; the
// object that came back may have more. Lists have the same length.
func subset(want, got any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return differ(want, got)
		}
		return eachKey(w, g, subset)
	case []any:
		return eachElement(w, got, subset)
	default:
		return equal(want, got)
	}
}

// unordered wants the same elements in any order, each compared with equal or, where
// given, with m.
func unordered(m match) match {
	return func(want, got any) string {
		w, wok := want.([]any)
		g, gok := got.([]any)
		if !wok || !gok || len(w) != len(g) {
			return differ(want, got)
		}
		left := slices.Clone(g)
		for _, x := range w {
			i := slices.IndexFunc(left, func(y any) bool { return m(x, y) == "" })
			if i < 0 {
				return fmt.Sprintf(": want %s among %s", show(x), show(got))
			}
			left = slices.Delete(left, i, i+1)
		}
		return ""
	}
}

// contains wants at least what is listed: elements of a list, keys of an object, a
// text within a text, or each of several texts within one.
func contains(want, got any) string {
	switch g := got.(type) {
	case string:
		parts, ok := want.([]any)
		if !ok {
			parts = []any{want}
		}
		for _, p := range parts {
			s, ok := p.(string)
			if !ok || !strings.Contains(g, s) {
				return fmt.Sprintf(": want %s in %s", show(p), show(got))
			}
		}
		return ""
	case []any:
		w, ok := want.([]any)
		if !ok {
			return differ(want, got)
		}
		for _, x := range w {
			if !slices.ContainsFunc(g, func(y any) bool { return equal(x, y) == "" }) {
				return fmt.Sprintf(": want %s in %s", show(x), show(got))
			}
		}
		return ""
	default:
		return subset(want, got)
	}
}

// prefix wants a text that begins so.
func prefix(want, got any) string {
	w, wok := want.(string)
	g, gok := got.(string)
	if !wok || !gok || !strings.HasPrefix(g, w) {
		return differ(want, got)
	}
	return ""
}

// suffixed finds the outcome field and the comparison for a wanted field such as
// names_contain, text_contains or text_starts.
func suffixed(field string) (base string, m match) {
	for _, s := range []struct {
		suffix string
		m      match
	}{{"_contain", contains}, {"_contains", contains}, {"_starts", prefix}} {
		if b, ok := strings.CutSuffix(field, s.suffix); ok {
			return b, s.m
		}
	}
	return field, nil
}

func eachKey(want, got map[string]any, m match) string {
	for k, w := range want {
		g, ok := got[k]
		if !ok {
			return fmt.Sprintf(".%s: want %s, got nothing", k, show(w))
		}
		if d := m(w, g); d != "" {
			return "." + k + d
		}
	}
	return ""
}

func eachElement(want []any, got any, m match) string {
	g, ok := got.([]any)
	if !ok || len(want) != len(g) {
		return differ(want, got)
	}
	for i := range want {
		if d := m(want[i], g[i]); d != "" {
			return fmt.Sprintf("[%d]%s", i, d)
		}
	}
	return ""
}

func sameNumber(a, b json.Number) bool {
	x, ok1 := new(big.Rat).SetString(a.String())
	y, ok2 := new(big.Rat).SetString(b.String())
	return ok1 && ok2 && x.Cmp(y) == 0
}

func sameText(want, got string) bool {
	if !strings.Contains(want, "${CHUNK}") {
		return want == got
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(want), regexp.QuoteMeta("${CHUNK}"), "[0-9a-f]{6}")
	return regexp.MustCompile(`\A(?s:` + pattern + `)\z`).MatchString(got)
}

func differ(want, got any) string {
	return fmt.Sprintf(": want %s, got %s", show(want), show(got))
}

func show(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprintf("%#v", v)
	}
	s := strings.TrimSuffix(b.String(), "\n")
	if len(s) > 600 {
		s = s[:600] + "..."
	}
	return s
}

// decodeValue reads JSON text as the values that a match compares.
func decodeValue(raw []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

// asJSON turns a Go value of an outcome into the values that a match compares.
func asJSON(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return decodeValue(raw)
}

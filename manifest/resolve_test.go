package manifest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croftdev/croft/internal/fault"
)

func TestResolve(t *testing.T) {
	env := Environment{
		{Name: "Z", Value: Text{Text: "1"}},
		{Name: "A", Value: HostVariable{Name: "HOST"}},
		{Name: "M", Value: HostFile{Path: "f"}},
		{Name: "EMPTY", Value: HostVariable{Name: "NOTHING"}},
	}
	lookup := Lookup{
		Variable: func(name string) (string, bool) {
			v, ok := map[string]string{"HOST": "h", "NOTHING": ""}[name]
			return v, ok
		},
		File: func(_ context.Context, path string) ([]byte, error) { return []byte(path + "\n\n"), nil },
	}
	got, err := env.Resolve(t.Context(), lookup)
	want := []Resolved{{"Z", "1"}, {"A", "h"}, {"M", "f\n"}, {"EMPTY", ""}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Resolve = %v, %v (-want +got):\n%s", got, err, diff)
	}
}

// TestResolveAtOnce starts several lookups before any of them has ended.
func TestResolveAtOnce(t *testing.T) {
	var env Environment
	var together sync.WaitGroup
	together.Add(maxLookups)
	for i := range maxLookups {
		env = append(env, Variable{Name: fmt.Sprint("V", i), Value: HostVariable{Name: "X"}})
	}
	lookup := Lookup{Variable: func(string) (string, bool) {
		together.Done()
		together.Wait()
		return "x", true
	}}
	if _, err := env.Resolve(t.Context(), lookup); err != nil {
		t.Error(err)
	}
}

func TestResolveFails(t *testing.T) {
	const secret = "s3cret"
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	fails := func(err error) Lookup {
		return Lookup{File: func(context.Context, string) ([]byte, error) { return []byte(secret), err }}
	}
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		value  Value
		lookup Lookup
		want   error
	}{
		{"no such variable", t.Context(), HostVariable{Name: "X"}, Lookup{Variable: func(string) (string, bool) { return secret, false }}, fault.NotAvailable},
		{"no way to look", t.Context(), HostVariable{Name: "X"}, Lookup{}, fault.NotAvailable},
		{"no way to read", t.Context(), HostFile{Path: "f"}, Lookup{}, fault.Unsupported},
		{"the file's own error", t.Context(), HostFile{Path: "f"}, fails(fs.ErrNotExist), fs.ErrNotExist},
		{"NUL in the value", t.Context(), HostVariable{Name: "X"}, Lookup{Variable: func(string) (string, bool) { return secret + "\x00", true }}, fault.NotAvailable},
		{"cancelled", cancelled, HostVariable{Name: "X"}, Lookup{}, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := Environment{{Name: "V", Value: tt.value}}
			got, err := env.Resolve(tt.ctx, tt.lookup)
			if !errors.Is(err, tt.want) || got != nil {
				t.Errorf("Resolve = %v, %v; want %v", got, err, tt.want)
			}
			if text := fmt.Sprint(err); strings.Contains(text, secret) {
				t.Errorf("the error repeats the value: %v", err)
			}
		})
	}
}

package manifest

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/croftdev/croft/internal/fault"
)

// Lookup finds what a manifest's environment refers to. A nil function finds nothing.
type Lookup struct {
	// Variable returns a variable of the host's environment, as os.LookupEnv does.
	Variable func(name string) (string, bool)
	// File returns the content of a host file. The path is as the manifest has it:
	// the function decides what a relative one is relative to and what may be read.
	File func(ctx context.Context, path string) ([]byte, error)
}

// Resolved is a variable with its value, as commands get it.
type Resolved struct{ Name, Value string }

// maxLookups bounds how many lookups run at once.
const maxLookups = 8

// Resolve looks up what the environment refers to, several at once, and returns
// the variables in written order. It returns when no lookup runs any more.
//
// The first lookup that fails ends the others. Its error is of the code
// fault.NotAvailable, names the variable and wraps the cause; no error has a value in it. The caller keeps
// the result to the commands that it starts: it may hold secrets.
func (env Environment) Resolve(ctx context.Context, lookup Lookup) ([]Resolved, error) {
	out := make([]Resolved, len(env))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxLookups)
	for i, v := range env {
		out[i].Name = v.Name
		if text, ok := v.Value.(Text); ok {
			out[i].Value = text.Text
			continue
		}
		group.Go(func() error {
			value, err := lookup.find(ctx, v.Value)
			if err != nil {
				return lookupFault(v, err)
			}
			out[i].Value = value
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// find returns what a reference refers to.
func (l Lookup) find(ctx context.Context, v Value) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	var value string
	switch v := v.(type) {
	case HostVariable:
		found := false
		if l.Variable != nil {
			value, found = l.Variable(v.Name)
		}
		if !found {
			return "", fmt.Errorf("the host has no variable %s", v.Name)
		}
	case HostFile:
		if l.File == nil {
			return "", fmt.Errorf("read %s: %w", v.Path, fault.Unsupported)
		}
		data, err := l.File(ctx, v.Path)
		if err != nil {
			return "", fmt.Errorf("read %s: %w", v.Path, err)
		}
		value = strings.TrimSuffix(string(data), "\n")
	}
	if strings.ContainsRune(value, 0) {
		return "", fmt.Errorf("the value has a NUL character in it")
	}
	return value, nil
}

// lookupFault returns the error of a variable that has no value.
func lookupFault(v Variable, cause error) error {
	if fault.Canceled(cause) {
		return cause
	}
	return &fault.Error{
		Code: fault.NotAvailable, Op: "manifest", Reason: "environment", Retry: fault.RetryUnknown, Err: cause,
		Message: fmt.Sprintf("the environment's variable %s has no value", v.Name),
		Details: map[string]any{"variable": v.Name},
	}
}

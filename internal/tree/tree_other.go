//go:build !linux

package tree

import (
	"context"
	"errors"
	"fmt"
	"os"
)

var errOther = fmt.Errorf("tree: not on this system: %w", errors.ErrUnsupported)

type node struct{}

func (*node) join(name string) string { return name }

func openEntry(*Entry) (*os.File, error)   { return nil, errOther }
func readlinkEntry(*Entry) (string, error) { return "", errOther }

func walk(context.Context, *os.File, Options, func(*Entry) error) error    { return errOther }
func ordered(context.Context, *os.File, Options, func(*Entry) error) error { return errOther }

func remove(context.Context, *os.File, string, RemoveOptions) (Stats, error) {
	return Stats{}, errOther
}

func removeContents(context.Context, *os.File, RemoveOptions) (Stats, error) {
	return Stats{}, errOther
}

func copyTree(context.Context, *os.File, *os.File, CopyOptions) (Stats, error) {
	return Stats{}, errOther
}

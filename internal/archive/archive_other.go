//go:build !linux

package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

var errOther = fmt.Errorf("archive: not on this system: %w", errors.ErrUnsupported)

type dirNode struct{}

func pack(context.Context, *os.File, io.Writer, PackOptions) (Report, error) {
	return Report{}, errOther
}

func unpack(context.Context, io.Reader, *os.File, UnpackOptions) (*Unpacked, error) {
	return nil, errOther
}

func (u *Unpacked) merge(context.Context, *os.File, *os.File) error { return errOther }

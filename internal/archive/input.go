package archive

import (
	"context"
	"io"
)

// input is the archive as it is given: it counts, stops at the limit and at a
// cancellation, and remembers a failure of its own, which the readers above it
// would hide behind theirs.
type input struct {
	ctx   context.Context // as long as the call that reads
	r     io.Reader
	limit int64
	n     int64
	err   error
}

func (in *input) Read(b []byte) (int, error) {
	if err := in.ctx.Err(); err != nil {
		in.err = err
		return 0, err
	}
	n, err := in.r.Read(b)
	in.n += int64(n)
	if in.limit > 0 && in.n > in.limit {
		in.err = &memberError{reason: "archive input size exceeds limit", limit: in.limit, actual: in.n}
		return 0, in.err
	}
	if err != nil && err != io.EOF {
		in.err = err
	}
	return n, err
}

// or returns the input's own failure if there was one, else err.
func (in *input) or(err error) error {
	if in.err != nil {
		return in.err
	}
	return err
}

// trailer notices whether a tar ended by its own end marker or because there was
// no more input.
type trailer struct {
	r     io.Reader
	short bool
}

func (t *trailer) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	if err == io.EOF && n == 0 {
		t.short = true
	}
	return n, err
}

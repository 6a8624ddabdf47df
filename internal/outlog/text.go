package outlog

import (
	"context"
	"errors"
	"io"
	"unicode/utf8"
)

// TextReader reads a log as UTF-8: no piece begins or ends within a character that
// the command wrote whole, also where the log was cut or another stream's output came
// between the two halves. Bytes that are no UTF-8 pass as they are. It is for one
// goroutine. Close it.
type TextReader struct {
	r    *Reader
	rest *Piece // read but not yet looked at
	half *Piece // the beginning of a character that is not complete yet
	// ahead counts, for each stream, the bytes that completed a character and were
	// given away before their place was reached.
	ahead Counts
	// stray counts how many bytes of a stream may still be the end of a character
	// whose beginning is not here.
	stray  Counts
	gapped bool // it was a gap that left them
}

// TextReader is [Log.Reader] for text. A cursor from a Piece of a TextReader goes on
// exactly where that piece ended; any other is moved to the next character.
func (l *Log) TextReader(from int64, only ...Stream) (*TextReader, error) {
	r, err := l.Reader(from, only...)
	if err != nil {
		return nil, err
	}
	t := &TextReader{r: r}
	if from > 0 {
		t.expectStray(false)
	}
	return t, nil
}

// Close lets the open file go.
func (t *TextReader) Close() error { return t.r.Close() }

func (t *TextReader) expectStray(gapped bool) {
	for i := range t.stray {
		t.stray[i] = utf8.UTFMax - 1
	}
	t.ahead, t.gapped = Counts{}, gapped
}

// Next is [Reader.Next] for text; limit is taken to be at least four bytes. A character
// of which only the beginning was written is waited for, and with it what other
// streams wrote after it; it is given as it is when the log ends. The pieces of a
// character that was cut by a gap belong to the gap.
func (t *TextReader) Next(ctx context.Context, limit int) (Piece, error) {
	for {
		if t.half != nil {
			return t.complete(ctx)
		}
		p, err := t.raw(ctx, max(limit, utf8.UTFMax))
		if err != nil {
			return Piece{}, err
		}
		if p.Gap > 0 {
			t.expectStray(true)
			return p, nil
		}
		if gap := t.dropFront(&p); gap.Gap > 0 {
			t.rest = &p
			return gap, nil
		}
		if k := halfLen(p.Data); k > 0 {
			cut := len(p.Data) - k
			t.half = &Piece{Stream: p.Stream, Offset: p.Next - int64(k), Next: p.Next, Data: p.Data[cut:]}
			p.Data, p.Next = p.Data[:cut:cut], p.Next-int64(k)
		}
		if len(p.Data) > 0 {
			return p, nil
		}
	}
}

func (t *TextReader) raw(ctx context.Context, limit int) (Piece, error) {
	if p := t.rest; p != nil {
		t.rest = nil
		return *p, nil
	}
	return t.r.Next(ctx, limit)
}

// dropFront takes off what was given away already and the end of a character that
// has no beginning. If that is due to a gap, it is returned as one.
func (t *TextReader) dropFront(p *Piece) (gap Piece) {
	s := p.Stream
	n := min(t.ahead[s], int64(len(p.Data)))
	t.ahead[s] -= n
	p.Data, p.Offset = p.Data[n:], p.Offset+n
	n = 0
	for t.stray[s] > 0 && n < int64(len(p.Data)) {
		if utf8.RuneStart(p.Data[n]) {
			t.stray[s] = 0
			break
		}
		t.stray[s]--
		n++
	}
	if n > 0 && t.gapped {
		gap = Piece{Stream: s, Offset: p.Offset, Next: p.Offset + n, Gap: n}
	}
	p.Data, p.Offset = p.Data[n:], p.Offset+n
	return gap
}

// complete returns the character that half begins, with bytes from further on in
// its stream.
func (t *TextReader) complete(ctx context.Context) (Piece, error) {
	p := *t.half
	r, err := t.r.log.Reader(p.Next, p.Stream)
	if err != nil {
		return Piece{}, err
	}
	defer func() { _ = r.Close() }()
	took := int64(0)
	for !utf8.FullRune(p.Data) {
		q, err := r.Next(ctx, 1)
		switch {
		case errors.Is(err, io.EOF):
			t.half = nil
			t.ahead[p.Stream] += took
			return p, nil
		case err != nil:
			return Piece{}, err
		case q.Gap > 0:
			t.half = nil
			p.Data, p.Gap = nil, p.Next-p.Offset
			return p, nil
		}
		if utf8.RuneStart(q.Data[0]) {
			break // what began is no character
		}
		p.Data = append(p.Data, q.Data[0])
		took++
	}
	t.half = nil
	t.ahead[p.Stream] += took
	return p, nil
}

// halfLen returns how many bytes at the end of b begin a character without completing it.
func halfLen(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return i
			}
			return 0
		}
	}
	return 0
}

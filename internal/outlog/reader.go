package outlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/croftdev/croft/internal/durable"
)

// ErrCursor is the error for a cursor that is negative or lies behind all that was written.
var ErrCursor = errors.New("no such place in the log")

// ErrGone is the error of a reader whose log was removed while it was being read.
var ErrGone = errors.New("log was removed")

// Piece is a part of the output.
type Piece struct {
	// Stream is where Data came from.
	Stream Stream
	// Offset is the cursor of the first byte.
	Offset int64
	// Next is the cursor after the piece: a reader that begins there goes on without
	// a loss or a repetition.
	Next int64
	// Data is the output; never empty unless Gap is set. It is the caller's.
	Data []byte
	// Gap, if not 0, is how many bytes of all streams were dropped here; Data is nil.
	Gap int64
}

// Reader reads a log from a cursor on. It is for one goroutine; any number of readers
// may read one log. Close it.
type Reader struct {
	log  *Log
	off  int64
	only []Stream

	// The open segment, if f is not nil, and the place of off in it.
	f      *os.File
	seg    segment
	pos    int64 // in the file
	stream Stream
	left   int64 // of the record that pos lies in
	window []byte
	winPos int64
}

// Reader returns a reader that begins at the cursor from, and gives only the streams
// named, or all. The error is [ErrCursor].
func (l *Log) Reader(from int64, only ...Stream) (*Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from < 0 || from > l.total.Sum() {
		return nil, fmt.Errorf("%w: cursor %d, written are %d", ErrCursor, from, l.total.Sum())
	}
	return &Reader{log: l, off: from, only: only}, nil
}

// Cursor returns the cursor of what Next will give.
func (r *Reader) Cursor() int64 { return r.off }

// Close lets the open file go. The log is not affected.
func (r *Reader) Close() error {
	if r.f == nil {
		return nil
	}
	f := r.f
	r.f = nil
	return f.Close()
}

// Next returns the next piece, of at most limit bytes of one stream; it waits until there
// is one. It returns io.EOF when the log has ended and all was read, and ctx.Err()
// when ctx ends first. What is there already is returned also with a ctx that has
// ended, so that such a one polls.
func (r *Reader) Next(ctx context.Context, limit int) (Piece, error) {
	for {
		p, wake, err := r.poll(limit)
		if err != nil {
			return Piece{}, err
		}
		if wake == nil {
			if p.Gap == 0 && len(r.only) > 0 && !slices.Contains(r.only, p.Stream) {
				continue
			}
			return p, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return Piece{}, ctx.Err()
		}
	}
}

// poll returns what is there, else the channel that is closed when there is more.
func (r *Reader) poll(limit int) (Piece, <-chan struct{}, error) {
	gap, wake, err := r.locate()
	if err != nil || wake != nil {
		return Piece{}, wake, err
	}
	p := Piece{Offset: r.off}
	if gap > 0 {
		r.off += gap
		p.Gap, p.Next = gap, r.off
		return p, nil, nil
	}
	if r.pos == 0 {
		if err := r.seek(); err != nil {
			return Piece{}, nil, err
		}
	}
	if err := r.take(&p, max(limit, 1)); err != nil {
		return Piece{}, nil, err
	}
	p.Next = r.off
	return p, nil, nil
}

// locate opens the segment that holds the next byte, or reports how many bytes are
// missing before the next one that is there, or what to wait for.
func (r *Reader) locate() (gap int64, wake <-chan struct{}, err error) {
	l := r.log
	l.mu.Lock()
	defer l.mu.Unlock()
	total := l.total.Sum()
	// A segment that is open is read to its end even if it was removed meanwhile.
	if r.f != nil {
		if i := slices.IndexFunc(l.segs, func(s segment) bool { return s.seq == r.seg.seq }); i >= 0 {
			r.seg = l.segs[i]
		}
		if r.off < r.seg.end.Sum() {
			return 0, nil, nil
		}
	}
	for _, s := range l.segs {
		if r.off >= s.end.Sum() {
			continue
		}
		if start := s.start.Sum(); r.off < start {
			return start - r.off, nil, nil
		}
		// Opened under the lock, so that it cannot be removed before.
		return 0, nil, r.open(s)
	}
	switch {
	case r.off < total:
		return total - r.off, nil, nil
	case l.ended:
		return 0, nil, io.EOF
	}
	return 0, l.wake, nil
}

func (r *Reader) open(s segment) (err error) {
	_ = r.Close()
	// The log holds no descriptor of its directory once it has ended: thousands of
	// finished ones may be known.
	var d *durable.Dir
	if d, err = r.log.parent.OpenDir(r.log.name); err == nil {
		r.f, err = d.OpenFile(segmentName(s.seq))
		err = errors.Join(err, d.Close())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return ErrGone
	}
	r.seg, r.pos, r.left, r.window = s, 0, 0, r.window[:0]
	return err
}

// seek goes through the records of a segment that was just opened to the one with off.
func (r *Reader) seek() error {
	r.pos = int64(headerSize)
	for at := r.seg.start.Sum(); ; {
		if err := r.record(); err != nil {
			return err
		}
		if skip := r.off - at; skip < r.left {
			r.pos += skip
			r.left -= skip
			return nil
		}
		at += r.left
		r.pos += r.left
	}
}

// record reads the head of the record at pos, and goes over those that hold no output.
func (r *Reader) record() error {
	for {
		head, err := r.view(recordHead)
		if err == nil && len(head) < recordHead {
			err = io.ErrUnexpectedEOF // the counts in memory promised more
		}
		if err != nil {
			return fmt.Errorf("read the output log: %w", err)
		}
		tag, n := parseRecordHead(head)
		r.pos += recordHead
		s, ok := streamOf(tag)
		if ok {
			r.stream, r.left = s, min(n, r.seg.size-r.pos)
			return nil
		}
		r.pos += n
	}
}

// take moves up to limit bytes of one stream into p, from as many records as lie
// together.
func (r *Reader) take(p *Piece, limit int) error {
	for end := r.seg.end.Sum(); len(p.Data) < limit && r.off < end; {
		if r.left == 0 {
			if err := r.record(); err != nil {
				return err
			}
		}
		if len(p.Data) == 0 {
			p.Stream = r.stream
		} else if p.Stream != r.stream {
			return nil
		}
		b, err := r.view(int(min(r.left, int64(limit-len(p.Data)))))
		if err == nil && len(b) == 0 && r.left > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("read the output log: %w", err)
		}
		p.Data = append(p.Data, b...)
		r.pos += int64(len(b))
		r.left -= int64(len(b))
		r.off += int64(len(b))
	}
	return nil
}

// view returns up to n bytes at pos, fewer only at the end of what is written.
func (r *Reader) view(n int) ([]byte, error) {
	n = min(n, maxRecord)
	if in := r.pos - r.winPos; in >= 0 && in+int64(n) <= int64(len(r.window)) {
		return r.window[in : in+int64(n)], nil
	}
	size := min(maxRecord, r.seg.size-r.pos)
	if int64(cap(r.window)) < size {
		r.window = make([]byte, maxRecord)
	}
	r.window = r.window[:max(size, 0)]
	got, err := r.f.ReadAt(r.window, r.pos)
	r.window, r.winPos = r.window[:got], r.pos
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return r.window[:min(n, got)], nil
}

package outlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/durable"
)

// Open returns the log called name in parent, which nobody writes any more, for
// reading. parent stays the caller's, as with [Create].
//
// A log that was cut short, by a kill at any moment, holds everything up to then and has
// ended in an unknown way ([Stat.End] is nil). The errors are fs.ErrNotExist, [ErrLive]
// while something writes it, and [ErrFormat].
func Open(parent *durable.Dir, name string) (_ *Log, err error) {
	d, err := parent.OpenDir(name)
	if err != nil {
		return nil, err
	}
	// Closing the directory gives the lock back too.
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := shareLock(d.File()); err != nil {
		return nil, err
	}
	names, err := d.Names()
	if err != nil {
		return nil, err
	}
	l := &Log{parent: parent, name: name, ended: true, wake: make(chan struct{})}
	var seqs []int
	for _, n := range names {
		if seq, ok := parseSegmentName(n); ok {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	for i, seq := range seqs {
		err := l.load(d, seq)
		if errors.Is(err, errEmpty) && i == len(seqs)-1 {
			break // killed between making the segment and writing its header
		}
		if err != nil {
			return nil, fmt.Errorf("open log %s: %w", name, err)
		}
	}
	if len(l.segs) == 0 {
		return nil, &fs.PathError{Op: "open log", Path: name, Err: fs.ErrNotExist}
	}
	if last := l.segs[len(l.segs)-1].end; l.end == nil {
		l.total = last
	}
	return l, nil
}

// shareLock takes the lock that several readers may have at once, but none while
// a writer has his.
func shareLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLive
		default:
			return err
		}
	}
}

// errEmpty: the segment has no header yet.
var errEmpty = fmt.Errorf("%w: empty segment", ErrFormat)

// load reads one segment through and adds it to l.
func (l *Log) load(d *durable.Dir, seq int) error {
	f, err := d.OpenFile(segmentName(seq))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReaderSize(f, maxRecord)
	head := make([]byte, headerSize)
	n, err := io.ReadFull(r, head)
	if err = unlessEnd(err); err != nil {
		return err
	}
	if n == 0 {
		return errEmpty
	}
	start, err := parseHeader(head[:n])
	if err != nil {
		return err
	}
	if n := len(l.segs); n > 0 && l.segs[n-1].end.Sum() > start.Sum() {
		return fmt.Errorf("%w: segments overlap", ErrFormat)
	}
	s := segment{seq: seq, start: start, end: start, size: int64(headerSize)}
	for {
		more, err := l.loadRecord(r, &s)
		if err != nil {
			return err
		}
		if !more {
			l.segs = append(l.segs, s)
			return nil
		}
	}
}

// loadRecord reads over one record. It reports false at the end of the file and at
// what is no record, such as the zeros that a loss of power can leave: what
// follows cannot be told apart from output and is left out.
func (l *Log) loadRecord(r *bufio.Reader, s *segment) (bool, error) {
	head := make([]byte, recordHead)
	if _, err := io.ReadFull(r, head); err != nil {
		return false, unlessEnd(err)
	}
	tag, n := parseRecordHead(head)
	if stream, ok := streamOf(tag); ok {
		// The last record of a killed writer may be short; what is there was output.
		got, err := r.Discard(int(n))
		s.end[stream] += int64(got)
		s.size += recordHead + int64(got)
		return err == nil, unlessEnd(err)
	}
	if (tag != tagInfo && tag != tagEnd) || n > maxRecord {
		return false, nil
	}
	note := make([]byte, n)
	if _, err := io.ReadFull(r, note); err != nil {
		return false, unlessEnd(err)
	}
	s.size += recordHead + n
	switch {
	case tag == tagInfo:
		l.info = note
	case n >= 8*int64(streams):
		l.total, l.end = parseCounts(note), note[8*int(streams):]
	}
	return true, nil
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

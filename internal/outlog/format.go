package outlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Stream is where a byte came from.
type Stream uint8

// The streams. A command on a terminal has only Terminal, any other the first two.
const (
	Stdout Stream = iota
	Stderr
	Terminal
	streams
)

// String returns "stdout", "stderr" or "terminal".
func (s Stream) String() string {
	switch s {
	case Stdout:
		return "stdout"
	case Stderr:
		return "stderr"
	case Terminal:
		return "terminal"
	default:
		return fmt.Sprintf("stream %d", uint8(s))
	}
}

// Counts is a number of bytes for each stream, indexed by [Stream].
type Counts [streams]int64

// Sum returns the bytes of all streams together.
func (c Counts) Sum() int64 {
	n := int64(0)
	for _, v := range c {
		n += v
	}
	return n
}

func (c Counts) minus(d Counts) Counts {
	for i := range c {
		c[i] -= d[i]
	}
	return c
}

// Version is the version of the format that is written; see doc/state.md.
const Version = 1

// ErrFormat is wrapped by errors about a log that is not of a version that is known
// here, or whose first bytes are damaged.
var ErrFormat = errors.New("not a log of a known version")

const (
	magic      = "croftlog"
	headerSize = len(magic) + 1 + 3 + 8*int(streams)
	recordHead = 4
	// maxRecord is less than the three bytes of length could say, to bound what a
	// reader must hold.
	maxRecord = 64 << 10
	suffix    = ".log"
	seqDigits = 10
)

// The tags of records. Letters, so that a dump of a log explains itself.
const (
	tagInfo = 'I'
	tagEnd  = 'X'
)

// tags are those of the streams.
var tags = [streams]byte{Stdout: 'o', Stderr: 'e', Terminal: 't'}

func streamOf(tag byte) (Stream, bool) {
	i := bytes.IndexByte(tags[:], tag)
	return Stream(i), i >= 0
}

func appendCounts(b []byte, c Counts) []byte {
	for _, v := range c {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func parseCounts(b []byte) (c Counts) {
	for i := range c {
		c[i] = int64(binary.BigEndian.Uint64(b[8*i:]))
	}
	return c
}

// header is the beginning of a segment that continues after start.
func header(start Counts) []byte {
	b := append(make([]byte, 0, headerSize), magic...)
	b = append(b, Version, 0, 0, 0)
	return appendCounts(b, start)
}

func parseHeader(b []byte) (Counts, error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return Counts{}, fmt.Errorf("%w: no header", ErrFormat)
	}
	if v := b[len(magic)]; v != Version {
		return Counts{}, fmt.Errorf("%w: version %d", ErrFormat, v)
	}
	c := parseCounts(b[len(magic)+4:])
	for _, v := range c {
		if v < 0 {
			return Counts{}, fmt.Errorf("%w: damaged header", ErrFormat)
		}
	}
	return c, nil
}

// appendRecord appends a record of at most 16 MiB to b.
func appendRecord(b []byte, tag byte, data []byte) []byte {
	n := len(data)
	b = append(b, tag, byte(n>>16), byte(n>>8), byte(n))
	return append(b, data...)
}

func parseRecordHead(b []byte) (tag byte, n int64) {
	return b[0], int64(b[1])<<16 | int64(b[2])<<8 | int64(b[3])
}

func segmentName(seq int) string { return fmt.Sprintf("%0*d%s", seqDigits, seq, suffix) }

// parseSegmentName reports the number of a segment; other files are none of ours.
func parseSegmentName(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != seqDigits {
		return 0, false
	}
	seq, err := strconv.Atoi(digits)
	return seq, err == nil && seq >= 0 && segmentName(seq) == name
}

package process

import "unicode/utf8"

// capture keeps the first and the last bytes of a stream and counts what falls
// between. Memory grows with what was written, up to the limit. It is not safe for
// use by several goroutines.
type capture struct {
	headCap, tailCap int
	head             []byte
	tail             []byte // a ring once it has reached tailCap
	next             int    // where the ring is written next; its oldest byte
	dropped          int64
}

func newCapture(limit int64) *capture {
	if limit == 0 {
		limit = DefaultOutputLimit
	}
	if limit < 0 {
		return &capture{}
	}
	const most = 1 << 40 // beyond any memory; keeps the arithmetic within int
	n := int(min(limit, most))
	return &capture{headCap: n - n/2, tailCap: n / 2}
}

// Write takes all of p and never fails.
func (c *capture) Write(p []byte) (int, error) {
	n := len(p)
	if room := c.headCap - len(c.head); room > 0 {
		k := min(room, len(p))
		c.head = append(c.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > c.tailCap {
		// All that the tail holds is pushed out, and the start of p too.
		c.dropped += int64(len(c.tail) + len(p) - c.tailCap)
		c.tail = append(c.tail[:0], p[len(p)-c.tailCap:]...)
		c.next = 0
		return n, nil
	}
	if room := c.tailCap - len(c.tail); room > 0 {
		k := min(room, len(p))
		c.tail = append(c.tail, p[:k]...)
		p = p[k:]
	}
	c.dropped += int64(len(p))
	for len(p) > 0 {
		k := copy(c.tail[c.next:], p)
		c.next = (c.next + k) % c.tailCap
		p = p[k:]
	}
	return n, nil
}

// result returns what was kept, in order, and how many bytes are missing between
// head and tail. Where bytes are missing, the two edges of the gap are moved outwards
// to the border of a UTF-8 sequence, so that text stays text.
func (c *capture) result() ([]byte, int64) {
	tail := append(append(make([]byte, 0, len(c.tail)), c.tail[c.next:]...), c.tail[:c.next]...)
	if c.dropped == 0 {
		return append(c.head, tail...), 0
	}
	head := trimPartialRune(c.head)
	for i := 0; i < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	lost := len(c.head) - len(head) + len(c.tail) - len(tail)
	return append(head, tail...), c.dropped + int64(lost)
}

// trimPartialRune cuts a UTF-8 sequence off the end of b that has begun but is not complete.
func trimPartialRune(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if last := b[len(b)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

package event

import (
	"crypto/rand"
	"encoding/hex"

	"github.com/google/uuid"
)

var zeroID uuid.UUID

// idSource makes ids from a block of random bytes at a time: asking the kernel
// for each costs more than the rest of a record. Not safe for concurrent use.
type idSource struct {
	block [512]byte
	used  int // bytes of block that are spent; 0 before the first block
}

func (s *idSource) take(n int) []byte {
	if s.used == 0 || s.used+n > len(s.block) {
		rand.Read(s.block[:]) // never fails, by its contract
		s.used = 0
	}
	b := s.block[s.used : s.used+n]
	s.used += n
	return b
}

// event returns a random UUID (version 4, RFC 9562 section 5.4).
func (s *idSource) event() uuid.UUID {
	u := uuid.UUID(s.take(16))
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u
}

// newSpanID returns sixteen hexadecimal digits, the form that W3C trace context
// gives a span's id, so that spans can be joined to a larger trace.
func (r *Recorder) newSpanID() string {
	var dst [16]byte
	r.mu.Lock()
	hex.Encode(dst[:], r.ids.take(8))
	r.mu.Unlock()
	return string(dst[:])
}

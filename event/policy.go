package event

import (
	"strings"
	"unicode/utf8"
)

// Policy says how much of an operation a record may hold. A nil field says
// nothing, so that policies can be laid over one another: the recorder's own,
// then that of the operation, then that of the sink; the last one that says
// something wins (cases EV-022 to EV-024).
type Policy struct {
	// IncludeExecOutput adds the output of a command that was run to its end.
	// Unless something says otherwise it is left out: outputs hold secrets.
	IncludeExecOutput *bool
	// MaxStdoutChars and MaxStderrChars cut the outputs to so many characters
	// and an ellipsis; 8000 unless something says otherwise.
	MaxStdoutChars *int
	MaxStderrChars *int
	// IncludeWriteLen adds the number of bytes that were written, saved or
	// restored; true unless something says otherwise.
	IncludeWriteLen *bool
}

// effective is a Policy in which everything is decided.
type effective struct {
	execOutput           bool
	maxStdout, maxStderr int
	writeLen             bool
}

func defaultPolicy() effective {
	return effective{maxStdout: 8000, maxStderr: 8000, writeLen: true}
}

// over returns e as p changes it.
func (e effective) over(p Policy) effective {
	if p.IncludeExecOutput != nil {
		e.execOutput = *p.IncludeExecOutput
	}
	if p.MaxStdoutChars != nil {
		e.maxStdout = *p.MaxStdoutChars
	}
	if p.MaxStderrChars != nil {
		e.maxStderr = *p.MaxStderrChars
	}
	if p.IncludeWriteLen != nil {
		e.writeLen = *p.IncludeWriteLen
	}
	return e
}

func (p Policy) check() error {
	for _, n := range []*int{p.MaxStdoutChars, p.MaxStderrChars} {
		if n != nil && *n < 0 {
			return invalid("an event policy's limit of characters is below zero")
		}
	}
	return nil
}

// apply returns the record as a sink under e may see it; r itself where nothing
// has to change. It never changes r.
func (e effective) apply(r *Record, out *Output) *Record {
	hide := false
	if !e.writeLen {
		_, hide = r.Data.Get("bytes")
	}
	show := e.execOutput && r.Phase == PhaseFinish && out != nil
	if !hide && !show {
		return r
	}
	c := *r
	if hide {
		c.Data = r.Data.without("bytes")
	}
	if show {
		c.Stdout = new(Clip(out.Stdout, e.maxStdout))
		c.Stderr = new(Clip(out.Stderr, e.maxStderr))
	}
	return &c
}

// Clip returns b as text of at most limit characters, followed by an ellipsis
// where there were more (cases EV-040 to EV-045).
//
// Bytes that are no UTF-8 become U+FFFD, one for each longest run that could
// have begun a character, as the Unicode standard (section 3.9) recommends.
func Clip(b []byte, limit int) string {
	var s strings.Builder
	s.Grow(min(len(b), 4*limit) + len("…"))
	for n := 0; len(b) > 0; n++ {
		if n >= limit {
			s.WriteString("…")
			break
		}
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			size = subpart(b)
		}
		s.WriteRune(r)
		b = b[size:]
	}
	return s.String()
}

// subpart returns the length of the ill-formed start of b that counts as one
// fault: the longest prefix that some well-formed sequence begins with, or 1.
func subpart(b []byte) int {
	// The second byte's range depends on the first (Unicode, table 3-7).
	lo, hi, need := byte(0x80), byte(0xBF), 0
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	}
	n := 1
	for n <= need && n < len(b) && b[n] >= lo && b[n] <= hi {
		lo, hi = 0x80, 0xBF
		n++
	}
	return n
}

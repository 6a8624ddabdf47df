package confine

import (
	"encoding/binary"
	"errors"

	"github.com/croftdev/croft/internal/process"
)

// wireVersion is the version of everything that croft and its helpers say to each
// other. A helper of another version is not used.
const wireVersion = 1

// maxPacket bounds one packet. Longer content travels in a memory file whose
// descriptor the packet carries; the kernel's own bound (net.core.wmem_default) is
// higher everywhere.
const maxPacket = 64 << 10

// maxCommand bounds argv and environment of one command. The kernel's own bound for
// execve (3/4 of 8 MiB by default, see execve(2)) is the one that users meet.
const maxCommand = 16 << 20

// kind says what a packet is about.
type kind uint8

const (
	msgHello    kind = iota + 1 // both ways with the starter: version
	msgLaunch                   // to the starter: fork a warden; descriptors: control, setup, spawns, binds
	msgSetup                    // to a warden that was just forked; descriptors: control, setup, spawns, binds
	msgLaunched                 // from the starter: pid, start time; descriptor: pidfd
	msgGone                     // from the starter: the warden was reaped
	msgSpawn                    // to the confined thread: a command; descriptors: its stdio
	msgSpawnBig                 // the same, with the command in a memory file as first descriptor
	msgSignal                   // to the warden: signal a command's process group
	msgKill                     // to the warden: kill all of a command
	msgReady                    // from the warden: JSON of ready
	msgFailed                   // from starter or warden: JSON of failure
	msgStarted                  // from the warden: pid
	msgRefused                  // from the warden: step, errno
	msgExited                   // from the warden: 1 if by signal, code or signal
)

// errWire is returned for bytes that are no message. Messages of a warden are input
// from the other side of the confinement, so nothing in them is believed further
// than its bounds.
var errWire = errors.New("malformed message")

// packet is one message: a kind, the number of what it is about, two numbers and a
// body, where the kind has one.
type packet struct {
	kind kind
	id   uint32
	a, b uint64
	body []byte
}

const packetHead = 1 + 4 + 8 + 8

func (p packet) append(dst []byte) []byte {
	dst = append(dst, byte(p.kind))
	dst = binary.LittleEndian.AppendUint32(dst, p.id)
	dst = binary.LittleEndian.AppendUint64(dst, p.a)
	dst = binary.LittleEndian.AppendUint64(dst, p.b)
	return append(dst, p.body...)
}

// parsePacket returns the packet in b; its body aliases b.
func parsePacket(b []byte) (packet, error) {
	if len(b) < packetHead || b[0] < byte(msgHello) || b[0] > byte(msgExited) {
		return packet{}, errWire
	}
	return packet{
		kind: kind(b[0]),
		id:   binary.LittleEndian.Uint32(b[1:]),
		a:    binary.LittleEndian.Uint64(b[5:]),
		b:    binary.LittleEndian.Uint64(b[13:]),
		body: b[packetHead:],
	}, nil
}

// command is what the warden needs to know of a process.Spec.
type command struct {
	argv []string
	dir  string
	env  []string
}

func appendString(dst []byte, s string) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

func appendStrings(dst []byte, list []string) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(list)))
	for _, s := range list {
		dst = appendString(dst, s)
	}
	return dst
}

func appendCommand(dst []byte, spec process.Spec) []byte {
	dst = appendStrings(dst, spec.Argv)
	dst = appendString(dst, spec.Dir)
	return appendStrings(dst, spec.Env)
}

// reader takes values off a byte slice; after the first that is not there it is bad
// and returns zero values.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) length() int {
	if len(r.b) < 4 {
		r.bad, r.b = true, nil
		return 0
	}
	n := binary.LittleEndian.Uint32(r.b)
	r.b = r.b[4:]
	// Each string takes at least its own bytes, each list at least four bytes an
	// element, so a length beyond the rest is a lie and allocates nothing.
	if uint64(n) > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) str() string {
	n := r.length()
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) strs() []string {
	n := r.length()
	if n == 0 {
		return nil
	}
	list := make([]string, 0, min(n, len(r.b)/4))
	for range n {
		list = append(list, r.str())
		if r.bad {
			return nil
		}
	}
	return list
}

func parseCommand(b []byte) (command, error) {
	r := reader{b: b}
	c := command{argv: r.strs(), dir: r.str(), env: r.strs()}
	if r.bad || len(r.b) != 0 || len(c.argv) == 0 {
		return command{}, errWire
	}
	return c, nil
}

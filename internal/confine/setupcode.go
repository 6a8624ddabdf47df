package confine

import (
	"encoding/binary"

	"github.com/croftdev/croft/policy"
)

// The form of a setup between processes is its fields in their order: numbers as eight
// little-endian bytes, strings with their length before them, lists with their count. It
// is written by hand because a helper lives some milliseconds before the first command,
// and a general decoder would take one of them to get to know the types. Paths are bytes
// on Linux, and arrive as such.

func appendNumber[T ~int | ~uint32](dst []byte, n T) []byte {
	return binary.LittleEndian.AppendUint64(dst, uint64(n))
}

func appendFlags(dst []byte, flags ...bool) []byte {
	var b byte
	for i, f := range flags {
		if f {
			b |= 1 << i
		}
	}
	return append(dst, b)
}

// encode returns s in the form that decodeSetup takes.
func (s *setup) encode() []byte {
	b := appendNumber(make([]byte, 0, 16<<10), s.Version)
	for _, str := range []string{string(s.Tier), string(s.Floor), string(s.Network), s.Root, s.Home, s.SearchPath, s.User.Name} {
		b = appendString(b, str)
	}
	for _, n := range []int{s.User.HostUID, s.User.HostGID, s.User.InsideUID, s.User.InsideGID} {
		b = appendNumber(b, n)
	}
	b = appendFlags(b, s.Privileged, s.PrivateHome)
	b = appendStrings(b, s.Protected)
	b = appendNumber(b, len(s.NotEnforced))
	for _, n := range s.NotEnforced {
		b = appendString(appendString(b, n.Asked), n.Reason)
	}
	b = appendNumber(b, len(s.Items))
	for _, it := range s.Items {
		for _, str := range []string{string(it.Kind), it.Target, it.Source, it.Content, string(it.Access)} {
			b = appendString(b, str)
		}
		b = appendNumber(b, it.Mode)
		b = appendFlags(b, it.ReadOnly, it.Devices, it.Optional, it.Foreign, it.Workspace)
		b = appendNumber(appendNumber(b, it.Dir), it.Mount)
	}
	return b
}

// decodeSetup returns the setup in b, or [errWire] if b is no setup of this version.
func decodeSetup(b []byte) (setup, error) {
	r := reader{b: b}
	var s setup
	if s.Version = r.number(); s.Version != wireVersion {
		return setup{}, errWire
	}
	s.Tier, s.Floor, s.Network = policy.Tier(r.str()), policy.Tier(r.str()), policy.Network(r.str())
	s.Root, s.Home, s.SearchPath, s.User.Name = r.str(), r.str(), r.str(), r.str()
	s.User.HostUID, s.User.HostGID, s.User.InsideUID, s.User.InsideGID = r.number(), r.number(), r.number(), r.number()
	r.flags(&s.Privileged, &s.PrivateHome)
	s.Protected = r.strs()
	for n := r.number(); n > 0 && !r.bad; n-- {
		s.NotEnforced = append(s.NotEnforced, policy.NotEnforced{Asked: r.str(), Reason: r.str()})
	}
	for n := r.number(); n > 0 && !r.bad; n-- {
		it := item{
			Kind: itemKind(r.str()), Target: r.str(), Source: r.str(), Content: r.str(), Access: access(r.str()),
			Mode: uint32(r.number()),
		}
		r.flags(&it.ReadOnly, &it.Devices, &it.Optional, &it.Foreign, &it.Workspace)
		it.Dir, it.Mount = r.number(), r.number()
		s.Items = append(s.Items, it)
	}
	if r.bad || len(r.b) != 0 {
		return setup{}, errWire
	}
	return s, nil
}

// number takes a number that an int holds and that is not negative.
func (r *reader) number() int {
	if len(r.b) < 8 {
		r.bad, r.b = true, nil
		return 0
	}
	n := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	if n > 1<<40 {
		r.bad, r.b = true, nil
		return 0
	}
	return int(n)
}

func (r *reader) flags(flags ...*bool) {
	if len(r.b) < 1 {
		r.bad, r.b = true, nil
		return
	}
	for i, f := range flags {
		*f = r.b[0]&(1<<i) != 0
	}
	r.b = r.b[1:]
}

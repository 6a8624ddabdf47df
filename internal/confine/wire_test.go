package confine

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croftdev/croft/internal/process"
)

func FuzzParseCommand(f *testing.F) {
	f.Add(appendCommand(nil, process.Spec{Argv: []string{"a", ""}, Dir: "/", Env: []string{"K=V"}}))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseCommand(b)
		if err != nil {
			return
		}
		again := appendCommand(nil, process.Spec{Argv: c.argv, Dir: c.dir, Env: c.env})
		if diff := cmp.Diff(b, again); diff != "" {
			t.Errorf("command does not come back (-in +out):\n%s", diff)
		}
	})
}

func FuzzParsePacket(f *testing.F) {
	f.Add(packet{kind: msgExited, id: 7, a: 1, b: 9, body: []byte("x")}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePacket(b)
		if err != nil {
			return
		}
		if diff := cmp.Diff(b, p.append(nil)); diff != "" {
			t.Errorf("packet does not come back (-in +out):\n%s", diff)
		}
	})
}

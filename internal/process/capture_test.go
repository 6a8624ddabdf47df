package process

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCapture(t *testing.T) {
	for _, tt := range []struct {
		name    string
		limit   int64
		writes  []string
		want    string
		dropped int64
	}{
		{name: "below the limit", limit: 10, writes: []string{"abc", "def"}, want: "abcdef"},
		{name: "exactly the limit", limit: 6, writes: []string{"abc", "def"}, want: "abcdef"},
		{name: "one more", limit: 6, writes: []string{"abc", "def", "g"}, want: "abcefg", dropped: 1},
		{name: "an odd limit gives the start more", limit: 3, writes: []string{"abcdef"}, want: "abf", dropped: 3},
		{name: "a limit of one", limit: 1, writes: []string{"ab", "c"}, want: "a", dropped: 2},
		{name: "one long write", limit: 4, writes: []string{strings.Repeat("x", 100) + "yz"}, want: "xxyz", dropped: 98},
		{name: "long write into a ring that has turned", limit: 4, writes: []string{"abcd", "e", "123456"}, want: "ab56", dropped: 7},
		{name: "no room at all", limit: -1, writes: []string{"abc", "d"}, want: "", dropped: 4},
		{name: "cut at whole characters", limit: 6, writes: []string{"aé€€€€éa"}, want: "aééa", dropped: 12},
		{name: "bytes that are no text are cut anyway", limit: 2, writes: []string{"\xff\xfe\xfd"}, want: "\xff\xfd", dropped: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCapture(tt.limit)
			for _, w := range tt.writes {
				if n, err := c.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("Write(%q) = %d, %v", w, n, err)
				}
			}
			got, dropped := c.result()
			if string(got) != tt.want || dropped != tt.dropped {
				t.Errorf("kept %q and dropped %d, want %q and %d", got, dropped, tt.want, tt.dropped)
			}
		})
	}
}

// Kept and dropped bytes add up; what is kept is a start and an end of what was
// written, within the limit and at most a character short of it; text stays text.
func FuzzCapture(f *testing.F) {
	f.Add([]byte("hello wörld, this is more than fits"), uint8(7), uint8(3))
	f.Add([]byte("€€€€€€€€"), uint8(5), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, limit, chunk uint8) {
		if limit == 0 || chunk == 0 {
			return
		}
		c := newCapture(int64(limit))
		for rest := data; len(rest) > 0; {
			n := min(int(chunk), len(rest))
			_, _ = c.Write(rest[:n])
			rest = rest[n:]
		}
		got, dropped := c.result()
		switch {
		case int64(len(got))+dropped != int64(len(data)):
			t.Fatalf("%d kept and %d dropped of %d", len(got), dropped, len(data))
		case len(got) > int(limit):
			t.Fatalf("%d kept, the limit is %d", len(got), limit)
		case len(data) <= int(limit) && dropped != 0:
			t.Fatalf("%d dropped although all fits", dropped)
		case len(data) > int(limit) && len(got) < int(limit)-6:
			t.Fatalf("%d kept, the limit is %d", len(got), limit)
		case utf8.Valid(data) && !utf8.Valid(got):
			t.Fatalf("text became %q", got)
		}
		for cut := 0; ; cut++ {
			if cut > len(got) {
				t.Fatalf("%q is no start and end of %q", got, data)
			}
			if bytes.HasPrefix(data, got[:cut]) && bytes.HasSuffix(data, got[cut:]) {
				return
			}
		}
	})
}

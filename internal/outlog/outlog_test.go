package outlog_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/croftdev/croft/internal/durable"
	"github.com/croftdev/croft/internal/outlog"
)

func openDir(t testing.TB) (*durable.Dir, string) {
	t.Helper()
	path := t.TempDir()
	d, err := durable.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, path
}

func create(t testing.TB, d *durable.Dir, o outlog.Options) *outlog.Log {
	t.Helper()
	l, err := outlog.Create(d, "1000", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Abandon)
	return l
}

func write(t testing.TB, l *outlog.Log, s outlog.Stream, text string) {
	t.Helper()
	if err := l.Append(s, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

// ended is a context that makes Next poll.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// nexter is a Reader or a TextReader.
type nexter interface {
	Next(context.Context, int) (outlog.Piece, error)
	Close() error
}

// drain reads to the end, or to where a poll finds nothing, and checks the cursors.
func drain(t testing.TB, r nexter, from int64, limit int) []outlog.Piece {
	t.Helper()
	defer func() { _ = r.Close() }()
	var got []outlog.Piece
	for {
		p, err := r.Next(ended(), limit)
		if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		if (p.Gap == 0) == (len(p.Data) == 0) {
			t.Fatalf("piece with %d bytes and a gap of %d", len(p.Data), p.Gap)
		}
		if p.Offset < from {
			t.Fatalf("piece at %d after %d", p.Offset, from)
		}
		from = p.Next
		got = append(got, p)
	}
}

func reader(t testing.TB, l *outlog.Log, from int64, only ...outlog.Stream) *outlog.Reader {
	t.Helper()
	r, err := l.Reader(from, only...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func textReader(t testing.TB, l *outlog.Log, from int64) *outlog.TextReader {
	t.Helper()
	r, err := l.TextReader(from)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func show(pieces []outlog.Piece) string {
	var b strings.Builder
	for _, p := range pieces {
		switch {
		case p.Gap > 0:
			b.WriteString("[gap]")
		case p.Stream == outlog.Stderr:
			b.WriteString("<" + string(p.Data) + ">")
		default:
			b.Write(p.Data)
		}
	}
	return b.String()
}

func TestOrderAndStreams(t *testing.T) {
	d, _ := openDir(t)
	l := create(t, d, outlog.Options{Info: []byte("note")})
	write(t, l, outlog.Stdout, "one ")
	write(t, l, outlog.Stdout, "two ")
	write(t, l, outlog.Stderr, "bad")
	write(t, l, outlog.Stdout, "three")
	if err := l.End([]byte("done")); err != nil {
		t.Fatal(err)
	}
	again, err := outlog.Open(d, "1000")
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*outlog.Log{"written": l, "opened again": again} {
		t.Run(name, func(t *testing.T) {
			for _, tt := range []struct {
				name  string
				from  int64
				limit int
				only  []outlog.Stream
				want  string
			}{
				{"all, in order", 0, 100, nil, "one two <bad>three"},
				{"a byte at a time", 0, 1, nil, "one two <b><a><d>three"},
				{"from within a record", 2, 100, nil, "e two <bad>three"},
				{"from another stream", 9, 100, nil, "<ad>three"},
				{"stdout alone", 0, 100, []outlog.Stream{outlog.Stdout}, "one two three"},
				{"stderr alone", 0, 100, []outlog.Stream{outlog.Stderr}, "<bad>"},
				{"from the end", 16, 100, nil, ""},
			} {
				if got := show(drain(t, reader(t, l, tt.from, tt.only...), tt.from, tt.limit)); got != tt.want {
					t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
				}
			}
			st := l.Stat()
			if !st.Ended || string(st.End) != "done" || string(st.Info) != "note" || st.Dropped.Sum() != 0 {
				t.Errorf("stat is %+v", st)
			}
			if st.Written != (outlog.Counts{13, 3, 0}) {
				t.Errorf("written are %v", st.Written)
			}
			for _, from := range []int64{-1, 17} {
				if _, err := l.Reader(from); !errors.Is(err, outlog.ErrCursor) {
					t.Errorf("a reader from %d: %v", from, err)
				}
			}
			if err := l.Append(outlog.Stdout, []byte("x")); !errors.Is(err, outlog.ErrEnded) {
				t.Errorf("append after the end: %v", err)
			}
		})
	}
}

// One cut in the middle is told with its size, the disk is bounded, and the start and the
// end are the ones that were written.
func TestLimit(t *testing.T) {
	d, path := openDir(t)
	const limit = 64 << 10
	l := create(t, d, outlog.Options{Limit: limit})
	var all bytes.Buffer
	for i := 0; all.Len() < 40*limit; i++ {
		line := []byte(strings.Repeat(string(rune('a'+i%26)), 100+i%1000) + "\n")
		all.Write(line)
		if err := l.Append(outlog.Stdout, line); err != nil {
			t.Fatal(err)
		}
		if i%100 == 0 {
			if n := diskOf(t, path); n > limit {
				t.Fatalf("the log takes %d bytes, the limit is %d", n, limit)
			}
		}
	}
	if err := l.End(nil); err != nil {
		t.Fatal(err)
	}
	pieces := drain(t, reader(t, l, 0), 0, 1<<20)
	data, gap, gaps := join(pieces)
	if gaps != 1 || int64(len(data))+gap != int64(all.Len()) {
		t.Fatalf("%d gaps of %d bytes, %d kept of %d", gaps, gap, len(data), all.Len())
	}
	if len(data) < limit*7/8 {
		t.Errorf("only %d bytes were kept", len(data))
	}
	head := len(pieces[0].Data)
	if !bytes.HasPrefix(all.Bytes(), data[:head]) || !bytes.HasSuffix(all.Bytes(), data[head:]) {
		t.Error("what was kept is no start and end of what was written")
	}
	st := l.Stat()
	if st.Dropped.Sum() != gap || st.Disk > limit+4096 {
		t.Errorf("dropped are %d, told %d; on disk %d", st.Dropped.Sum(), gap, st.Disk)
	}
	// A cursor that lies in the gap, and one within a later segment.
	from := int64(head) + gap/2
	if p := drain(t, reader(t, l, from), from, 1<<20); p[0].Gap != gap-gap/2 {
		t.Errorf("gap from its middle is %d, want %d", p[0].Gap, gap-gap/2)
	}
	from = int64(all.Len()) - 5000
	if got, _, _ := join(drain(t, reader(t, l, from), from, 77)); !bytes.Equal(got, all.Bytes()[from:]) {
		t.Error("the last 5000 bytes are others")
	}
}

func join(pieces []outlog.Piece) (data []byte, gap int64, gaps int) {
	for _, p := range pieces {
		data = append(data, p.Data...)
		gap += p.Gap
		if p.Gap > 0 {
			gaps++
		}
	}
	return data, gap, gaps
}

func diskOf(t testing.TB, path string) int64 {
	t.Helper()
	n := int64(0)
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var fi fs.FileInfo
			if fi, err = e.Info(); err == nil {
				n += fi.Size()
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Readers that began at any time see the same, while it is being written.
func TestFollow(t *testing.T) {
	d, _ := openDir(t)
	l := create(t, d, outlog.Options{})
	var wg sync.WaitGroup
	results := make([]bytes.Buffer, 8)
	for i := range results {
		r := reader(t, l, 0)
		wg.Go(func() {
			defer func() { _ = r.Close() }()
			for {
				p, err := r.Next(t.Context(), 10+i*100)
				if err != nil {
					if !errors.Is(err, io.EOF) {
						t.Error(err)
					}
					return
				}
				results[i].Write(p.Data)
			}
		})
	}
	var want bytes.Buffer
	for i := range 2000 {
		line := strings.Repeat("x", i%50) + "\n"
		want.WriteString(line)
		write(t, l, outlog.Stdout, line)
	}
	if err := l.End(nil); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	for i := range results {
		if !bytes.Equal(results[i].Bytes(), want.Bytes()) {
			t.Errorf("reader %d read %d bytes, want %d", i, results[i].Len(), want.Len())
		}
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	d, _ := openDir(t)
	l := create(t, d, outlog.Options{})
	write(t, l, outlog.Stdout, "there")
	r := reader(t, l, 0)
	defer func() { _ = r.Close() }()
	if p, err := r.Next(ended(), 100); err != nil || string(p.Data) != "there" {
		t.Errorf("what is there: %q, %v", p.Data, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := r.Next(ctx, 1); done <- err }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}

func TestText(t *testing.T) {
	for _, tt := range []struct {
		name   string
		write  []string // what begins with '!' goes to stderr
		from   int64
		want   string
		polled string // before the end; "" if the same
	}{
		{name: "whole", write: []string{"aé€"}, want: "aé€"},
		{name: "cut between writes", write: []string{"a\xe2", "\x82", "\xacb"}, want: "a€b"},
		{name: "another stream between the halves", write: []string{"a\xe2", "!no", "\x82\xacb"}, want: "a€<no>b"},
		{name: "both streams cut", write: []string{"\xe2\x82", "!\xc3", "\xac", "!\xa9x"}, want: "€<é><x>"},
		{name: "incomplete waits, and comes at the end", write: []string{"a\xe2\x82"}, want: "a\xe2\x82", polled: "a"},
		{name: "no text passes", write: []string{"\xff\xe2", "a\x80b"}, want: "\xff\xe2a\x80b"},
		{name: "a cursor within a character", write: []string{"a€b"}, from: 2, want: "b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, _ := openDir(t)
			l := create(t, d, outlog.Options{})
			for _, w := range tt.write {
				if w, ok := strings.CutPrefix(w, "!"); ok {
					write(t, l, outlog.Stderr, w)
					continue
				}
				write(t, l, outlog.Stdout, w)
			}
			polled := tt.polled
			if polled == "" {
				polled = tt.want
			}
			if got := show(drain(t, textReader(t, l, tt.from), tt.from, 100)); got != polled {
				t.Errorf("polled %q, want %q", got, polled)
			}
			if err := l.End(nil); err != nil {
				t.Fatal(err)
			}
			if got := show(drain(t, textReader(t, l, tt.from), tt.from, 1)); got != tt.want {
				t.Errorf("read %q, want %q", got, tt.want)
			}
			// The cursor after each piece goes on without loss or repetition.
			var b []outlog.Piece
			for from := tt.from; ; {
				r := textReader(t, l, from)
				p, err := r.Next(t.Context(), 4)
				_ = r.Close()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				b = append(b, p)
				from = p.Next
			}
			if got := show(b); utf8.ValidString(tt.want) && got != tt.want {
				t.Errorf("read in turns %q, want %q", got, tt.want)
			}
		})
	}
}

// FuzzLog: whatever is written in whatever pieces and read in whatever pieces, what
// is read and what is told to be missing are together what was written, also after a
// restart; and text stays text.
func FuzzLog(f *testing.F) {
	f.Add([]byte("hello wörld"), uint16(300), uint16(7), uint16(5), uint8(3))
	f.Add([]byte("€€é"), uint16(9000), uint16(11), uint16(4), uint8(1))
	f.Add([]byte{0, 'o', 0, 0, 1, 0xff}, uint16(5000), uint16(500), uint16(999), uint8(2))
	f.Fuzz(func(t *testing.T, unit []byte, repeat, chunk, limit uint16, turn uint8) {
		if len(unit) == 0 || chunk == 0 || len(unit)*int(repeat) > 128<<10 || int(chunk)*4000 < len(unit)*int(repeat) {
			return
		}
		d, _ := openDir(t)
		l := create(t, d, outlog.Options{Limit: outlog.MinLimit})
		defer l.Abandon()
		all := bytes.Repeat(unit, int(repeat))
		var written [2][]byte
		for i, rest := 0, all; len(rest) > 0; i++ {
			n := min(int(chunk), len(rest))
			s := outlog.Stdout
			if turn > 0 && i%(int(turn)+1) == 0 {
				s = outlog.Stderr
			}
			if err := l.Append(s, rest[:n]); err != nil {
				t.Fatal(err)
			}
			written[s] = append(written[s], rest[:n]...)
			rest = rest[n:]
		}
		check(t, l, all, written, int(limit))
		l.Abandon()
		again, err := outlog.Open(d, "1000")
		if err != nil {
			t.Fatal(err)
		}
		if st := again.Stat(); !st.Ended || st.End != nil {
			t.Fatalf("a log without an end has the stat %+v", st)
		}
		check(t, again, all, written, int(limit))
	})
}

func check(t *testing.T, l *outlog.Log, all []byte, written [2][]byte, limit int) {
	t.Helper()
	at := int64(0)
	for _, p := range drain(t, reader(t, l, 0), 0, limit) {
		if p.Offset != at {
			t.Fatalf("piece at %d, want %d", p.Offset, at)
		}
		if p.Gap == 0 && !bytes.Equal(p.Data, all[at:p.Next]) {
			t.Fatalf("at %d: %q, want %q", at, p.Data, all[at:p.Next])
		}
		at = p.Next
	}
	if at != int64(len(all)) {
		t.Fatalf("read to %d of %d", at, len(all))
	}
	if utf8.Valid(written[0]) && utf8.Valid(written[1]) {
		n := int64(0)
		for _, p := range drain(t, textReader(t, l, 0), 0, limit) {
			n += int64(len(p.Data)) + p.Gap
			if !utf8.Valid(p.Data) {
				t.Fatalf("text became %q", p.Data)
			}
		}
		if n != int64(len(all)) {
			t.Fatalf("text and gaps are %d bytes of %d", n, len(all))
		}
	}
}

func TestRefusals(t *testing.T) {
	d, path := openDir(t)
	l := create(t, d, outlog.Options{})
	if _, err := outlog.Open(d, "1000"); !errors.Is(err, outlog.ErrLive) {
		t.Errorf("opened while it is written: %v", err)
	}
	if _, err := outlog.Create(d, "1000", outlog.Options{}); !errors.Is(err, outlog.ErrLive) {
		t.Errorf("created twice: %v", err)
	}
	l.Abandon()
	if _, err := outlog.Create(d, "1000", outlog.Options{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created over another: %v", err)
	}
	if _, err := outlog.Open(d, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened what is not there: %v", err)
	}
	if _, err := outlog.Create(d, "small", outlog.Options{Limit: 10}); err == nil {
		t.Error("a limit of 10 was taken")
	}
	if _, err := outlog.Create(d, "long", outlog.Options{Info: make([]byte, 1<<20)}); !errors.Is(err, outlog.ErrTooLong) {
		t.Errorf("a long note: %v", err)
	}
	empty := filepath.Join(path, "1000", "0000000001.log")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := outlog.Open(d, "1000"); err != nil {
		t.Errorf("a segment that has just been made: %v", err)
	}
	file := filepath.Join(path, "1000", "0000000000.log")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[8] = 2 // the version
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := outlog.Open(d, "1000"); !errors.Is(err, outlog.ErrFormat) {
		t.Errorf("a version of the future: %v", err)
	}
	if err := errors.Join(os.Remove(empty), os.Truncate(file, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := outlog.Open(d, "1000"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a log that never began: %v", err)
	}
}

// A disk that refuses costs output, which is told, and neither order nor cursors; when
// it takes bytes again the log goes on.
func TestDiskRefuses(t *testing.T) {
	d, path := openDir(t)
	l := create(t, d, outlog.Options{Limit: outlog.MinLimit})
	// A directory in the place of the next segment stands for any failure.
	block := filepath.Join(path, "1000", "0000000001.log")
	if err := os.Mkdir(block, 0o700); err != nil {
		t.Fatal(err)
	}
	head := strings.Repeat("h", outlog.MinLimit/2-100)
	write(t, l, outlog.Stdout, head)
	if err := l.Append(outlog.Stderr, make([]byte, 1000)); err == nil {
		t.Fatal("the failure was not reported")
	}
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	write(t, l, outlog.Stdout, "tail")
	if err := l.End(nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		data, gap, gaps := join(drain(t, reader(t, l, 0), 0, 1<<20))
		if int64(len(data))+gap != int64(len(head))+1004 || gaps != 1 || !bytes.HasSuffix(data, []byte("tail")) {
			t.Errorf("%d bytes and %d in %d gaps", len(data), gap, gaps)
		}
		if st := l.Stat(); st.Dropped != (outlog.Counts{0, gap, 0}) {
			t.Errorf("dropped are %v, the gap is %d", st.Dropped, gap)
		}
		var err error
		if l, err = outlog.Open(d, "1000"); err != nil {
			t.Fatal(err)
		}
	}
}

// A log cut at every length, as a kill may leave it, reads as what was written until then.
func TestCutAnywhere(t *testing.T) {
	d, path := openDir(t)
	l := create(t, d, outlog.Options{Info: []byte("info")})
	write(t, l, outlog.Stdout, "first")
	write(t, l, outlog.Stderr, "second")
	if err := l.End([]byte("end")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(path, "1000", "0000000000.log")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const want = "firstsecond"
	longest := 0
	for n := len(whole); n >= 36; n-- {
		if err := os.Truncate(file, int64(n)); err != nil {
			t.Fatal(err)
		}
		l, err := outlog.Open(d, "1000")
		if err != nil {
			t.Fatalf("cut to %d: %v", n, err)
		}
		data, gap, _ := join(drain(t, reader(t, l, 0), 0, math.MaxInt32))
		if gap != 0 || !strings.HasPrefix(want, string(data)) {
			t.Fatalf("cut to %d: %q and a gap of %d", n, data, gap)
		}
		if st := l.Stat(); (string(st.End) == "end") != (n == len(whole)) {
			t.Fatalf("cut to %d: end %q", n, st.End)
		}
		longest = max(longest, len(data))
	}
	if longest != len(want) {
		t.Errorf("the whole log gave %d bytes", longest)
	}
}

// The first version is read for ever: testdata/v1 is never edited.
func TestVersion1(t *testing.T) {
	d, err := durable.Open("testdata")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	l, err := outlog.Open(d, "v1")
	if err != nil {
		t.Fatal(err)
	}
	st := l.Stat()
	if got := show(drain(t, reader(t, l, 0), 0, 10000)); !strings.HasPrefix(got, "start<error>") || !strings.HasSuffix(got, "last") || !strings.Contains(got, "[gap]") {
		t.Errorf("read %q", got)
	}
	if string(st.Info) != `{"a":1}` || string(st.End) != `{"b":2}` || st.Written.Sum() != 30014 {
		t.Errorf("stat is %+v", st)
	}
}

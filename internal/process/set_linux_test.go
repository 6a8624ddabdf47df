package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/croftdev/croft/internal/durable"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/outlog"
	"github.com/croftdev/croft/internal/process"
)

func openLogs(t testing.TB, path string) *durable.Dir {
	t.Helper()
	d, err := durable.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func openSet(t testing.TB, d *durable.Dir, o process.SetOptions) *process.Set {
	t.Helper()
	s, err := process.OpenSet(plain{}, d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(ended()) })
	return s
}

func newSet(t testing.TB) *process.Set {
	t.Helper()
	return openSet(t, openLogs(t, t.TempDir()), process.SetOptions{})
}

// ended is a context that has ended: it makes readers poll and endings short.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func mustStart(t testing.TB, s *process.Set, c process.Command) *process.Process {
	t.Helper()
	if c.Env == nil {
		c.Env = environ
	}
	p, err := s.Start(t.Context(), c)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return p
}

func mustWait(t testing.TB, p *process.Process) process.Exit {
	t.Helper()
	e, err := p.Wait(t.Context())
	if err != nil {
		t.Fatalf("Wait: %v", err)
	}
	return e
}

func follow(t testing.TB, p *process.Process, only ...outlog.Stream) *outlog.Reader {
	t.Helper()
	l, err := p.Output()
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Reader(0, only...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// until reads from r until the text has come, and returns what was read.
func until(t testing.TB, r *outlog.Reader, text string) string {
	t.Helper()
	var b strings.Builder
	for !strings.Contains(b.String(), text) {
		piece, err := r.Next(t.Context(), 1<<20)
		if err != nil {
			t.Fatalf("waited for %q, read %q: %v", text, b.String(), err)
		}
		b.Write(piece.Data)
	}
	return b.String()
}

// all reads to the end of the log, waiting for it.
func all(t testing.TB, p *process.Process, only ...outlog.Stream) (string, int64) {
	t.Helper()
	var b strings.Builder
	gap := int64(0)
	for r := follow(t, p, only...); ; {
		piece, err := r.Next(t.Context(), 1<<20)
		if errors.Is(err, io.EOF) {
			return b.String(), gap
		}
		if err != nil {
			t.Fatal(err)
		}
		b.Write(piece.Data)
		gap += piece.Gap
	}
}

func wantReason(t testing.TB, err error, code fault.Code, reason string) {
	t.Helper()
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Code != code || e.Reason != reason {
		t.Errorf("error = %v, want %v (%s)", err, code, reason)
	}
}

func TestSetLife(t *testing.T) {
	s := newSet(t)
	p := mustStart(t, s, process.Command{Shell: "echo o; echo e >&2; exit 3"})
	if e := mustWait(t, p); e.ExitCode != 3 || e.By != "" || len(e.Ended) != 0 {
		t.Errorf("ended with %+v", e)
	}
	if out, _ := all(t, p, outlog.Stdout); out != "o\n" {
		t.Errorf("stdout is %q", out)
	}
	if out, _ := all(t, p, outlog.Stderr); out != "e\n" {
		t.Errorf("stderr is %q", out)
	}
	q := mustStart(t, s, process.Command{Argv: []string{"sleep", long}})
	if p.ID() != 1000 || q.ID() != 1001 {
		t.Errorf("ids are %d and %d", p.ID(), q.ID())
	}
	list := s.List()
	if len(list) != 2 || list[0].Exit == nil || list[0].Exit.ExitCode != 3 || list[1].Exit != nil || list[1].Argv[0] != "sleep" {
		t.Errorf("list is %+v", list)
	}
	if got, err := s.Get(1001); err != nil || got != q {
		t.Errorf("Get gave %v, %v", got, err)
	}
	if _, err := s.Get(9999); !errors.Is(err, fault.PTYSessionNotFound) {
		t.Errorf("an unknown id: %v", err)
	}
	_, err := q.Write(t.Context(), []byte("x"))
	wantReason(t, err, fault.NotAvailable, "no_stdin")
	wantReason(t, q.CloseStdin(t.Context()), fault.NotAvailable, "no_stdin")
	wantReason(t, q.Resize(process.Winsize{}), fault.NotAvailable, "no_terminal")
	wantReason(t, p.Signal(syscall.SIGTERM), fault.NotAvailable, "ended")
	if _, err := q.Wait(ended()); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was cancelled: %v", err)
	}
	if err := s.Remove(t.Context(), 1001); err != nil {
		t.Fatal(err)
	}
	if e := mustWait(t, q); e.Signal != "SIGTERM" || e.By != process.ByRequest || e.Ended[0] != "SIGTERM" {
		t.Errorf("ended with %+v", e)
	}
	if _, err := s.Get(1001); !errors.Is(err, fault.PTYSessionNotFound) {
		t.Errorf("a removed id: %v", err)
	}
}

func TestSetStdin(t *testing.T) {
	s := newSet(t)
	p := mustStart(t, s, process.Command{Argv: []string{"cat"}, OpenStdin: true})
	r := follow(t, p)
	for _, text := range []string{"one\n", "two\n"} {
		if _, err := p.Write(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
		until(t, r, text)
	}
	if err := p.CloseStdin(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustWait(t, p)
	_, err := p.Write(t.Context(), []byte("x"))
	wantReason(t, err, fault.NotAvailable, "ended")

	// A command that does not read holds a write up no longer than its context, or its life.
	q := mustStart(t, s, process.Command{Argv: []string{"sleep", long}, OpenStdin: true})
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	go func() { _, err := q.Write(ctx, make([]byte, 1<<20)); results <- err }()
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("a write that was cancelled: %v", err)
	}
	go func() { _, err := q.Write(t.Context(), make([]byte, 1<<20)); results <- err }()
	if _, err := q.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-results; !errors.Is(err, fault.NotAvailable) {
		t.Errorf("a write whose reader has ended: %v", err)
	}
}

func TestSetEndings(t *testing.T) {
	s := newSet(t)
	ignore := "trap '' TERM; echo ready; while :; do sleep " + long + "; done"
	for _, tt := range []struct {
		name string
		c    process.Command
		end  func(p *process.Process)
		want process.Exit
	}{
		{name: "timeout", c: process.Command{Shell: "echo ready; exec sleep " + long, Timeout: 200 * time.Millisecond},
			want: process.Exit{ExitCode: -15, Signal: "SIGTERM", By: process.ByTimeout, Ended: []string{"SIGTERM"}}},
		{name: "grace ends", c: process.Command{Shell: ignore, KillGrace: 50 * time.Millisecond},
			end:  func(p *process.Process) { _, _ = p.End(t.Context()) },
			want: process.Exit{ExitCode: -9, Signal: "SIGKILL", By: process.ByRequest, Ended: []string{"SIGTERM", "SIGKILL"}}},
		{name: "signal", c: process.Command{Shell: "echo ready; exec sleep " + long},
			end:  func(p *process.Process) { _ = p.Signal(syscall.SIGINT) },
			want: process.Exit{ExitCode: -2, Signal: "SIGINT"}},
		{name: "its handler runs", c: process.Command{Shell: "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"},
			end:  func(p *process.Process) { _, _ = p.End(t.Context()) },
			want: process.Exit{ExitCode: 5, By: process.ByRequest, Ended: []string{"SIGTERM"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := mustStart(t, s, tt.c)
			until(t, follow(t, p), "ready\n")
			if tt.end != nil {
				tt.end(p)
			}
			e := mustWait(t, p)
			if fmt.Sprint(e.Ended) != fmt.Sprint(tt.want.Ended) || e.ExitCode != tt.want.ExitCode || e.Signal != tt.want.Signal || e.By != tt.want.By {
				t.Errorf("ended with %+v, want %+v", e, tt.want)
			}
		})
	}
	t.Run("no grace when the context has ended", func(t *testing.T) {
		p := mustStart(t, s, process.Command{Shell: ignore, KillGrace: time.Hour})
		until(t, follow(t, p), "ready\n")
		e, err := p.End(ended())
		if err != nil || e.Signal != "SIGKILL" || e.By != process.ByRequest {
			t.Errorf("ended with %+v, %v", e, err)
		}
	})
}

func TestSetCannotStart(t *testing.T) {
	s := newSet(t)
	for _, tt := range []struct {
		name   string
		c      process.Command
		code   fault.Code
		reason string
	}{
		{"no command", process.Command{}, fault.InvalidArgument, "no_command"},
		{"own stream", process.Command{Argv: []string{"true"}, Stdout: io.Discard}, fault.InvalidArgument, "streams"},
		{"small log", process.Command{Argv: []string{"true"}, OutputLimit: 1}, fault.InvalidArgument, "output_limit"},
		{"unknown program", process.Command{Argv: []string{"no-such-program-cf"}}, fault.ExecTransportError, "not_found"},
		{"no directory", process.Command{Argv: []string{"true"}, Dir: "/none", OpenStdin: true}, fault.ExecTransportError, "working_directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.c.Env = environ
			_, err := s.Start(t.Context(), tt.c)
			wantReason(t, err, tt.code, tt.reason)
		})
	}
	if _, err := s.Start(ended(), process.Command{Argv: []string{"true"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled start: %v", err)
	}
	if list := s.List(); len(list) != 0 {
		t.Errorf("what never ran is listed: %+v", list)
	}
	_, err := process.Run(t.Context(), plain{}, process.Command{Argv: []string{"true"}, OpenStdin: true})
	wantReason(t, err, fault.InvalidArgument, "not_interactive")
	s.Close(t.Context())
	_, err = s.Start(t.Context(), process.Command{Argv: []string{"true"}})
	wantReason(t, err, fault.NotAvailable, "closed")
}

// cancelling ends the start's context once the command runs.
type cancelling struct{ cancel func() }

func (c cancelling) Spawn(ctx context.Context, spec process.Spec) (process.Child, error) {
	child, err := plain{}.Spawn(ctx, spec)
	c.cancel()
	return child, err
}

// Cancelling a start leaves no command behind under an id that nobody knows (case SH-168).
func TestSetStartCancelled(t *testing.T) {
	path := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := process.OpenSet(cancelling{cancel}, openLogs(t, path), process.SetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	if _, err := s.Start(ctx, process.Command{Argv: []string{"sleep", long}, Env: environ}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != 0 || len(s.List()) != 0 {
		t.Errorf("left are %v and %v, %v", entries, s.List(), err)
	}
}

// A later set finds what an earlier one left, and what was cut short has an unknown end.
func TestSetAfterRestart(t *testing.T) {
	path := t.TempDir()
	s := openSet(t, openLogs(t, path), process.SetOptions{})
	p := mustStart(t, s, process.Command{Shell: "echo kept; exit 4", Dir: "/"})
	mustWait(t, p)
	s.Close(t.Context())
	// What a kill leaves: a log without an end, and a directory without a log.
	d := openLogs(t, path)
	l, err := outlog.Create(d, "1007", outlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(outlog.Stdout, []byte("part")); err != nil {
		t.Fatal(err)
	}
	l.Abandon()
	for _, name := range []string{"1008", "1009"} {
		if err := os.Mkdir(filepath.Join(path, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(path, "1009", "0000000000.log"), []byte("of another version, or damaged"), 0o600); err != nil {
		t.Fatal(err)
	}

	s = openSet(t, openLogs(t, path), process.SetOptions{})
	first, err := s.Get(1000)
	if err != nil {
		t.Fatal(err)
	}
	if e := mustWait(t, first); e.ExitCode != 4 {
		t.Errorf("ended with %+v", e)
	}
	if i := first.Info(); i.Argv[2] != "echo kept; exit 4" || i.Dir != "/" || i.Started.IsZero() {
		t.Errorf("info is %+v", i)
	}
	if out, _ := all(t, first); out != "kept\n" {
		t.Errorf("output is %q", out)
	}
	cut, err := s.Get(1007)
	if err != nil {
		t.Fatal(err)
	}
	_, err = cut.Wait(t.Context())
	wantReason(t, err, fault.ExecTransportError, "unknown")
	if out, _ := all(t, cut); out != "part" {
		t.Errorf("output is %q", out)
	}
	wantReason(t, cut.Signal(syscall.SIGTERM), fault.NotAvailable, "ended")
	if _, err := s.Get(1008); !errors.Is(err, fault.PTYSessionNotFound) {
		t.Errorf("a log that never began: %v", err)
	}
	damaged, err := s.Get(1009)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := damaged.Output(); !errors.Is(err, fault.StateCorrupt) {
		t.Errorf("a damaged log: %v", err)
	}
	if p := mustStart(t, s, process.Command{Argv: []string{"true"}}); p.ID() != 1010 {
		t.Errorf("the next id is %d", p.ID())
	}
}

// Finished commands are bounded: those not used for longest go, with their logs.
func TestSetPrunes(t *testing.T) {
	path := t.TempDir()
	s := openSet(t, openLogs(t, path), process.SetOptions{Keep: 2})
	live := mustStart(t, s, process.Command{Argv: []string{"sleep", long}})
	for range 3 {
		mustWait(t, mustStart(t, s, process.Command{Argv: []string{"true"}}))
	}
	if _, err := s.Get(1001); err != nil { // now 1002 is the one
		t.Fatal(err)
	}
	last := mustStart(t, s, process.Command{Argv: []string{"true"}})
	mustWait(t, last)
	var ids []int
	for _, i := range s.List() {
		ids = append(ids, i.ID)
	}
	if fmt.Sprint(ids) != fmt.Sprint([]int{live.ID(), 1001, 1003, last.ID()}) {
		t.Errorf("kept are %v", ids)
	}
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) != len(ids) {
		t.Errorf("on disk are %v, %v", entries, err)
	}
}

// More output than anybody would keep costs the limit, and what is missing is told.
func TestSetBoundedOutput(t *testing.T) {
	path := t.TempDir()
	s := openSet(t, openLogs(t, path), process.SetOptions{})
	const size = 150 << 20
	p := mustStart(t, s, process.Command{Shell: fmt.Sprintf("yes | head -c %d; echo; echo end", size)})
	mustWait(t, p)
	disk := int64(0)
	entries, err := filepath.Glob(filepath.Join(path, "1000", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range entries {
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		disk += fi.Size()
	}
	if disk > outlog.DefaultLimit+4096 {
		t.Errorf("the log takes %d bytes", disk)
	}
	out, gap := all(t, p)
	if int64(len(out))+gap != size+5 {
		t.Errorf("%d bytes and a gap of %d, written were %d", len(out), gap, size+5)
	}
	if !strings.HasPrefix(out, "y\ny\n") || !strings.HasSuffix(out, "y\n\nend\n") {
		t.Error("what was kept is no start and end")
	}
}

// Many commands at once, each with several readers; then nothing is left of the set.
func TestSetManyAtOnce(t *testing.T) {
	round := func() {
		path := t.TempDir()
		d, err := durable.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = d.Close() }()
		s, err := process.OpenSet(plain{}, d, process.SetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				p, err := s.Start(t.Context(), process.Command{
					Shell: fmt.Sprintf("read x; echo $x; echo %d >&2; seq 1 2000; exit %d", i, i), OpenStdin: true, Env: environ})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := p.Write(t.Context(), []byte("hello\n")); err != nil {
					t.Error(err)
				}
				var readers sync.WaitGroup
				for range 3 {
					readers.Go(func() { checkOutput(t, p, i) })
				}
				readers.Wait()
				if e, err := p.Wait(t.Context()); err != nil || e.ExitCode != i {
					t.Errorf("command %d ended with %+v, %v", i, e, err)
				}
			})
		}
		wg.Wait()
		for _, c := range []process.Command{
			{Argv: []string{"sleep", long}, OpenStdin: true},
			{Argv: []string{"sleep", long}, TTY: &process.Winsize{Rows: 1, Cols: 1}},
			{Shell: "sleep " + long + " & sleep " + long},
		} {
			c.Env = environ
			if _, err := s.Start(t.Context(), c); err != nil {
				t.Error(err)
			}
		}
		s.Close(t.Context())
		for _, i := range s.List() {
			if i.Exit == nil {
				t.Errorf("process %d has outlived the set", i.ID)
			}
		}
	}
	round()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	round()
	for until := time.Now().Add(20 * time.Second); runtime.NumGoroutine() > goroutines && time.Now().Before(until); {
		runtime.Gosched() // a goroutine that was waited for may still be returning
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d open descriptors, %d before", n, files)
	}
}

func checkOutput(t *testing.T, p *process.Process, i int) {
	l, err := p.Output()
	if err != nil {
		t.Error(err)
		return
	}
	r, err := l.Reader(0)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = r.Close() }()
	var out [2]bytes.Buffer
	for {
		piece, err := r.Next(t.Context(), 1000)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Error(err)
			return
		}
		out[piece.Stream].Write(piece.Data)
	}
	if o, e := out[0].String(), out[1].String(); !strings.HasPrefix(o, "hello\n1\n") || !strings.HasSuffix(o, "\n2000\n") || e != fmt.Sprintln(i) {
		t.Errorf("command %d wrote %d bytes and %q", i, len(o), e)
	}
}

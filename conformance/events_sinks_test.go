package conformance

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
)

const eventsSession = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"

// errSink is the own error of a sink that cases have fail.
var errSink = errors.New("the sink fails, as the case wants")

// noWorkspace is bound where no sink of the case writes in a workspace.
type noWorkspace struct{}

func (noWorkspace) Running() bool                                    { return false }
func (noWorkspace) AppendFile(context.Context, string, []byte) error { return errors.ErrUnsupported }
func (noWorkspace) ExcludeFromSnapshots(string) error                { return errors.ErrUnsupported }
func readRecord() *event.Record                                      { return &event.Record{Op: event.OpRead, Phase: event.PhaseStart} }
func newRecorder(e *env, log *slog.Logger, s ...event.Sink) *event.Recorder {
	rec, err := event.NewRecorder(event.Config{SessionID: eventsSession, Sinks: s, Logger: log})
	e.check(err)
	return rec
}

// emitted names what came of handing a record over.
func emitted(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, fault.EventSinkError) && errors.Is(err, errSink):
		return "wrapped_sink_error"
	case errors.Is(err, errSink):
		return "sink_error_unwrapped"
	default:
		return err.Error()
	}
}

type waitsKey struct{}

// runDeliver emits one record. A sink that the operation waits for is called with
// the operation's context; any other one is held back here until Emit has returned,
// so that the outcome does not hang on who is faster.
func runDeliver(e *env, op *fields) (outcome, error) {
	fails, chained := op.flag("sink_fails"), op.flag("chained")
	d := event.Delivery{Mode: event.Mode(op.str("mode")), OnError: event.OnError(op.str("on_error"))}
	var mu sync.Mutex
	delivered := false
	returned := make(chan struct{})
	sink := event.Callback(func(ctx context.Context, _ event.Record, _ event.Workspace) error {
		if ctx.Value(waitsKey{}) == nil {
			<-returned
		}
		mu.Lock()
		defer mu.Unlock()
		delivered = true
		if fails {
			return errSink
		}
		return nil
	}, d)
	if chained {
		sink = event.Chain(sink)
	}
	var log bytes.Buffer
	rec := newRecorder(e, slog.New(slog.NewTextHandler(&log, nil)), sink)
	e.check(rec.Bind(noWorkspace{}))
	out := outcome{}
	out["emit"] = emitted(rec.Emit(context.WithValue(e.ctx, waitsKey{}, true), readRecord(), nil))
	mu.Lock()
	out["delivered_before_emit_returned"] = delivered
	mu.Unlock()
	close(returned)
	closeErr := rec.Close(e.ctx)
	out["close_error"] = fault.CodeOf(closeErr)
	out["logged"] = log.Len() > 0
	if !delivered {
		e.fatalf("Close did not wait for the delivery")
	}
	return out, nil
}

// runChainOrder chains sinks that are named after what they do.
func runChainOrder(e *env, op *fields) (outcome, error) {
	order := []string{}
	var sinks []event.Sink
	for _, name := range op.strs("sinks") {
		var d event.Delivery
		rest := name
		for _, m := range []event.Mode{event.BestEffort, event.Async, event.Sync} {
			if r, ok := strings.CutPrefix(rest, string(m)+"_"); ok {
				d.Mode, rest = m, r
			}
		}
		var slow bool
		var err error
		for word := range strings.SplitSeq(rest, "_") {
			switch word {
			case "slow":
				slow = true
			case "failing":
				err = errSink
			case "ok":
			case "raise", "log", "ignore":
				d.OnError = event.OnError(word)
			default:
				e.fatalf("op.sinks: the runner does not know %q in %q", word, name)
			}
		}
		sinks = append(sinks, event.Callback(func(context.Context, event.Record, event.Workspace) error {
			if slow {
				time.Sleep(20 * time.Millisecond) //nolint:forbidigo // being slow is what this sink is for
			}
			order = append(order, name)
			return err
		}, d))
	}
	rec := newRecorder(e, nil, event.Chain(sinks...))
	e.check(rec.Bind(noWorkspace{}))
	err := rec.Emit(e.ctx, readRecord(), nil)
	e.check(rec.Close(e.ctx))
	return outcome{"order": order, "emit": emitted(err)}, nil
}

// runCopiesPerSink has one sink see everything and change it, between two sinks
// whose policies hide different things.
func runCopiesPerSink(e *env, _ *fields) (outcome, error) {
	keep := func(r *event.Record) event.CallbackFunc {
		return func(_ context.Context, got event.Record, _ event.Workspace) error { *r = got; return nil }
	}
	var first, last event.Record
	rec := newRecorder(e, nil,
		event.Callback(keep(&first), event.Delivery{Policy: event.Policy{IncludeWriteLen: new(false)}}),
		event.Callback(func(_ context.Context, r event.Record, _ event.Workspace) error {
			*r.Stdout = "changed"
			for i := range r.Data {
				r.Data[i] = event.Null("changed")
			}
			return nil
		}, event.Delivery{Policy: event.Policy{IncludeExecOutput: new(true)}}),
		event.Callback(keep(&last), event.Delivery{Policy: event.Policy{IncludeExecOutput: new(true), MaxStdoutChars: new(1)}}))
	e.check(rec.Bind(noWorkspace{}))
	r := &event.Record{Op: event.OpExec, Phase: event.PhaseFinish, Data: event.Data{event.Int("bytes", 3)}}
	e.check(rec.Emit(e.ctx, r, &event.Output{Stdout: []byte("out")}))
	e.check(rec.Close(e.ctx))
	_, hidden := first.Data.Get("bytes")
	n, shown := last.Data.Get("bytes")
	if hidden || !shown || n.Any() != int64(3) || first.Stdout != nil || last.Stdout == nil || *last.Stdout != "o…" {
		return nil, &fault.Error{Code: fault.EventSinkError, Message: "one sink's record shows what another sink did"}
	}
	return nil, nil
}

// caseWorkspace is a session's workspace, as far as a sink knows it, at ${ROOT}.
type caseWorkspace struct {
	root    string
	running bool
	skipped []string
}

func (w *caseWorkspace) Running() bool { return w.running }

func (w *caseWorkspace) AppendFile(_ context.Context, name string, data []byte) error {
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func (w *caseWorkspace) ExcludeFromSnapshots(name string) error {
	w.skipped = append(w.skipped, name)
	return nil
}

// files returns the names of all files, and the numbers of the records in them.
func (w *caseWorkspace) files(e *env) (names []string, numbers []uint64) {
	names, numbers = []string{}, []uint64{}
	e.check(filepath.WalkDir(w.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(w.root, path)
		e.check(err)
		names = append(names, name)
		data, err := os.ReadFile(path)
		e.check(err)
		for line := range bytes.Lines(data) {
			r, err := event.Decode(line)
			e.check(err)
			numbers = append(numbers, r.Seq)
		}
		return nil
	}))
	return names, numbers
}

func runWorkspaceSink(e *env, op *fields) (outcome, error) {
	var o event.WorkspaceOptions
	if opts := op.object("options"); opts != nil {
		o.File, _ = opts.optStr("workspace_relpath")
		o.Ephemeral = opts.flag("ephemeral")
		if n, ok := opts.optNum("flush_every"); ok {
			o.FlushEvery = n
		}
	}
	rec, err := event.NewRecorder(event.Config{SessionID: op.str("session_id"), Sinks: []event.Sink{event.InWorkspace(o)}})
	e.check(err)
	w := &caseWorkspace{root: e.root, skipped: []string{}}
	after := [][]uint64{}
	for _, s := range op.objects("steps") {
		switch do := s.str("do"); do {
		case "bind":
			e.check(rec.Bind(w))
		case "running":
			w.running = s.flag("value")
		case "event":
			r := &event.Record{Seq: uint64(s.num("seq")), Op: event.Op(s.str("op")), Phase: event.Phase(s.str("phase"))}
			e.check(rec.Emit(e.ctx, r, nil))
			e.check(rec.Flush(e.ctx))
			_, numbers := w.files(e)
			after = append(after, numbers)
		default:
			e.fatalf("op.steps: the runner does not know %q", do)
		}
	}
	names, _ := w.files(e)
	e.check(rec.Close(e.ctx))
	return outcome{"files": names, "seqs_in_file_after_each_event": after, "skip_paths": w.skipped}, nil
}

func runFileSink(e *env, op *fields) (outcome, error) {
	path := filepath.Join(e.tmp, "new", "events.jsonl")
	sink := event.File(path, event.FileOptions{})
	rec := newRecorder(e, nil, sink)
	for range op.num("records") {
		e.check(rec.Emit(e.ctx, readRecord(), nil))
	}
	e.check(rec.Close(e.ctx))
	data, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) { // without records there is no file
		e.check(err)
	}
	d := sink.Delivery()
	return outcome{"lines": linesIn(e, data), "mode_default": d.Mode, "on_error_default": d.OnError}, nil
}

func runSinkDefaults(e *env, op *fields) (outcome, error) {
	var sink event.Sink
	switch kind := op.str("kind"); kind {
	case "callback":
		sink = event.Callback(func(context.Context, event.Record, event.Workspace) error { return nil }, event.Delivery{})
	case "file":
		sink = event.File(filepath.Join(e.tmp, "events.jsonl"), event.FileOptions{})
	case "http":
		sink = event.HTTP("http://127.0.0.1/", event.HTTPOptions{})
	case "workspace":
		sink = event.InWorkspace(event.WorkspaceOptions{})
	case "chain", "chained":
		sink = event.Chain()
	default:
		e.fatalf("op.kind: the runner does not know %q", kind)
	}
	d := sink.Delivery()
	return outcome{"mode": d.Mode, "on_error": d.OnError}, nil
}

func runCallbackUnbound(e *env, _ *fields) (outcome, error) {
	rec := newRecorder(e, nil, event.Callback(func(context.Context, event.Record, event.Workspace) error { return nil }, event.Delivery{}))
	return nil, rec.Emit(e.ctx, readRecord(), nil)
}

func runHTTPSink(e *env, op *fields) (outcome, error) {
	fails, spools := op.flag("post_fails"), op.flag("spool")
	var posted [][]byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if fails || err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		posted = append(posted, body)
	}))
	defer srv.Close()
	o := event.HTTPOptions{Delivery: event.Delivery{Mode: event.Sync, OnError: event.Raise}}
	spool := filepath.Join(e.tmp, "spool", "events.jsonl")
	if spools {
		o.SpoolPath = spool
	}
	rec := newRecorder(e, nil, event.HTTP(srv.URL, o))
	err := rec.Emit(e.ctx, readRecord(), nil)
	e.check(rec.Close(e.ctx))
	srv.Close()
	if !fails && len(posted) != 1 {
		e.fatalf("%d records reached the server", len(posted))
	}
	data, readErr := os.ReadFile(spool)
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
		e.check(readErr)
	}
	return outcome{"spooled_lines": linesIn(e, data), "reported": errors.Is(err, fault.EventSinkError)}, nil
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func runHTTPSinkDefaults(e *env, _ *fields) (outcome, error) {
	out := outcome{}
	h := http.Header{"X-Token": {"one"}}
	sink := event.HTTP("http://127.0.0.1/", event.HTTPOptions{Header: h, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		// The limit is read off the request: nothing has been waited for, so what
		// is left of it rounds to the whole.
		if until, ok := r.Context().Deadline(); ok {
			out["timeout_s"] = time.Until(until).Round(time.Second).Seconds()
		}
		out["content_type"] = r.Header.Get("Content-Type")
		out["headers_copied"] = r.Header.Get("X-Token") == "one"
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
	})})
	h.Set("X-Token", "two")
	rec := newRecorder(e, nil, sink)
	e.check(rec.Emit(e.ctx, readRecord(), nil))
	e.check(rec.Close(e.ctx))
	out["mode"], out["on_error"] = sink.Delivery().Mode, sink.Delivery().OnError
	return out, nil
}

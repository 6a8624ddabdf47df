package event_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
)

// dataOf returns a record's data as JSON.
func dataOf(t *testing.T, r event.Record) string {
	t.Helper()
	line := event.AppendLine(nil, &event.Record{Data: r.Data})
	data, _, ok := bytes.Cut(bytes.TrimPrefix(line, []byte(`{"data":`)), []byte(`,"event_id":`))
	if !ok {
		t.Fatalf("no data in %s", line)
	}
	return string(data)
}

func TestSpan(t *testing.T) {
	start := []event.Field{event.OptString("user", ""), event.String("path", "x.txt")}
	for _, tt := range []struct {
		name  string
		res   event.Result
		err   error
		want  event.Record // only the fields that tell an outcome
		data  string
		start string
	}{
		{name: "done", want: event.Record{OK: true}, data: `{"path":"x.txt","user":null}`},
		{name: "more is known at the end", res: event.Result{Data: []event.Field{event.Int("bytes", 5), event.String("path", "y"), event.Null("a")}},
			want: event.Record{OK: true}, data: `{"a":null,"bytes":5,"path":"y","user":null}`},
		{name: "something else is known at the end (EV-010)", res: event.Result{Replace: true, Data: []event.Field{event.Bool("alive", false)}},
			want: event.Record{OK: true}, data: `{"alive":false}`},
		{name: "more fields than a span holds itself", res: event.Result{Data: []event.Field{event.Null("1"), event.Null("2"), event.Null("3"),
			event.Null("4"), event.Null("5"), event.Null("6")}}, want: event.Record{OK: true},
			data: `{"1":null,"2":null,"3":null,"4":null,"5":null,"6":null,"path":"x.txt","user":null}`},
		{name: "not done, without an error (EV-004)", res: event.Result{Failed: true}, data: `{"path":"x.txt","user":null}`},
		{name: "failed: the result is not looked at (EV-026)",
			res:  event.Result{Data: []event.Field{event.Int("exit_code", 0)}, Output: &event.Output{Stdout: []byte("abc")}},
			err:  &fault.Error{Code: fault.WorkspaceReadNotFound, Message: "there is none", Retry: fault.RetryNo, Err: errors.New("/host/path")},
			want: event.Record{ErrorCode: fault.WorkspaceReadNotFound, ErrorType: "croft.Error", ErrorMessage: "there is none", ErrorRetryable: fault.RetryNo},
			data: `{"path":"x.txt","user":null}`},
		{name: "failed, and the code says it all", err: fmt.Errorf("wrapped: %w", &fault.Error{Code: fault.SessionBusy, Retry: fault.RetryYes}),
			want: event.Record{ErrorCode: fault.SessionBusy, ErrorType: "croft.Error", ErrorMessage: "session_busy", ErrorRetryable: fault.RetryYes},
			data: `{"path":"x.txt","user":null}`},
		{name: "failed for a reason", err: &fault.Error{Code: fault.InvalidManifestPath, Reason: "escape_root"},
			want: event.Record{ErrorCode: fault.InvalidManifestPath, ErrorType: "croft.Error", ErrorMessage: "escape_root"},
			data: `{"path":"x.txt","user":null}`},
		{name: "cancelled (EV-087)", err: context.Canceled,
			want: event.Record{ErrorType: "cancelled", ErrorMessage: "the operation was cancelled"}, data: `{"path":"x.txt","user":null}`},
		{name: "out of time, with a code", err: &fault.Error{Code: fault.ExecTimeout, Message: "too slow", Err: context.DeadlineExceeded},
			want: event.Record{ErrorCode: fault.ExecTimeout, ErrorType: "deadline_exceeded", ErrorMessage: "too slow"},
			data: `{"path":"x.txt","user":null}`},
		{name: "an error without a code keeps its text to itself", err: errors.New("/host/path"),
			want: event.Record{ErrorType: "*errors.errorString", ErrorMessage: "unexpected error"}, data: `{"path":"x.txt","user":null}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got collector
			rec := newRecorder(t, event.Config{LastSeq: 40, Policy: event.Policy{IncludeExecOutput: new(true)}, Sinks: []event.Sink{got.sink(event.Delivery{})}})
			ctx, cancel := context.WithCancel(t.Context())
			span, err := rec.Start(ctx, event.OpRead, start...)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if err := span.Finish(ctx, tt.res, tt.err); err != tt.err {
				t.Errorf("Finish = %v, want the operation's error %v itself", err, tt.err)
			}
			records := got.all()
			if len(records) != 2 {
				t.Fatalf("%d records, want 2", len(records))
			}
			s, f := records[0], records[1]
			if s.Phase != event.PhaseStart || f.Phase != event.PhaseFinish || s.Seq != 41 || f.Seq != 42 || s.Op != event.OpRead || f.Op != event.OpRead {
				t.Errorf("records = %+v, %+v", s, f)
			}
			if s.SpanID == "" || s.SpanID != f.SpanID || s.EventID == f.EventID || s.Time.IsZero() || f.Time.Before(s.Time) ||
				s.SessionID != sessionID || f.Version != event.Version {
				t.Errorf("records = %+v, %+v", s, f)
			}
			outcome := event.Record{OK: f.OK, ErrorCode: f.ErrorCode, ErrorType: f.ErrorType, ErrorMessage: f.ErrorMessage, ErrorRetryable: f.ErrorRetryable}
			if fmt.Sprint(outcome) != fmt.Sprint(tt.want) {
				t.Errorf("outcome = %+v, want %+v", outcome, tt.want)
			}
			if d := dataOf(t, s); d != `{"path":"x.txt","user":null}` {
				t.Errorf("data of the start record = %s", d)
			}
			if d := dataOf(t, f); d != tt.data {
				t.Errorf("data of the finish record = %s, want %s", d, tt.data)
			}
			if f.Stdout != nil {
				t.Errorf("output of a failed operation: %q", *f.Stdout)
			}
		})
	}
}

// A sink that must not fail fails: at the start the operation must not run, at
// its end a done operation becomes an error (EV-084, EV-085).
func TestSinkFailsTheOperation(t *testing.T) {
	broken := func(at event.Phase) event.Sink {
		return event.Callback(func(_ context.Context, r event.Record, _ event.Workspace) error {
			if r.Phase == at {
				return errSink
			}
			return nil
		}, event.Delivery{Name: "audit"})
	}
	opErr := &fault.Error{Code: fault.WorkspaceReadNotFound}
	for _, tt := range []struct {
		name   string
		phase  event.Phase
		opErr  error
		starts bool
	}{
		{name: "start", phase: event.PhaseStart},
		{name: "finish of a done operation", phase: event.PhaseFinish, starts: true},
		{name: "finish of a failed operation", phase: event.PhaseFinish, starts: true, opErr: opErr},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var other collector
			rec := newRecorder(t, event.Config{Sinks: []event.Sink{broken(tt.phase), other.sink(event.Delivery{})}})
			span, err := rec.Start(t.Context(), event.OpRead)
			if (err == nil) != tt.starts {
				t.Fatalf("Start = %v", err)
			}
			if tt.starts {
				err = span.Finish(t.Context(), event.Result{}, tt.opErr)
			}
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Code != fault.EventSinkError || e.Op != "read" || !errors.Is(err, errSink) {
				t.Errorf("error = %#v, want event_sink_error of read around the cause", err)
			}
			if tt.opErr != nil && !errors.Is(err, tt.opErr) {
				t.Errorf("error = %v does not hold the operation's own", err)
			}
			records := other.all()
			if len(records) != 2 {
				t.Fatalf("the working sink has %d records, want 2", len(records))
			}
			if f := records[1]; tt.phase == event.PhaseStart && (f.OK || f.ErrorCode != fault.EventSinkError) {
				t.Errorf("finish record of an operation that did not run = %+v", f)
			}
		})
	}
}

func TestRecorderWithoutSinksCounts(t *testing.T) {
	rec := newRecorder(t, event.Config{})
	if err := op(t, rec, event.OpRead, event.Result{}, errSink); err != errSink {
		t.Errorf("Finish = %v", err)
	}
	if rec.Seq() != 2 {
		t.Errorf("Seq = %d, want 2", rec.Seq())
	}
	if err := rec.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := rec.Start(t.Context(), event.OpRead); !errors.Is(err, fault.NotAvailable) {
		t.Errorf("Start after Close = %v, want not_available", err)
	}
}

func TestSpanContext(t *testing.T) {
	var got collector
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{got.sink(event.Delivery{})}})
	stop, err := rec.Start(t.Context(), event.OpStop)
	if err != nil {
		t.Fatal(err)
	}
	save, err := rec.Start(stop.Context(t.Context()), event.OpSnapshotPersist)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(save.Finish(t.Context(), event.Result{}, nil), stop.Finish(t.Context(), event.Result{}, nil)); err != nil {
		t.Fatal(err)
	}
	r := got.all()
	for i, parent := range []string{"", r[0].SpanID, r[0].SpanID, ""} {
		if r[i].ParentSpanID != parent {
			t.Errorf("record %d (%s %s) has parent %q, want %q", i, r[i].Op, r[i].Phase, r[i].ParentSpanID, parent)
		}
	}
	if r[1].SpanID == r[0].SpanID || r[1].SpanID == "" {
		t.Errorf("spans %q and %q", r[0].SpanID, r[1].SpanID)
	}
}

func TestSeveralSinksFail(t *testing.T) {
	other := errors.New("the other sink is broken too")
	broken := func(err error) event.Sink {
		return event.Callback(func(context.Context, event.Record, event.Workspace) error { return err }, event.Delivery{})
	}
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{broken(errSink), broken(other)}})
	_, err := rec.Start(t.Context(), event.OpRead)
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || e.Code != fault.EventSinkError || e.Op != "read" || !errors.Is(err, errSink) || !errors.Is(err, other) {
		t.Errorf("Start = %v, want one event_sink_error of read around both causes", err)
	}
}

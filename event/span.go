package event

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/croftdev/croft/internal/fault"
)

// Span is one operation under way. Call [Span.Finish] exactly once.
type Span struct {
	rec   *Recorder
	begun time.Time
	r     Record
	// fields backs r.Data, so that most operations need no further allocation.
	fields [6]Field
}

// Result is what came of an operation that returned no error.
type Result struct {
	// Failed says that the operation did not do what was asked, though it caused
	// no error: a command that ended with another exit code than zero.
	Failed bool
	// Data is added to the data of the start record, in place of a field of the same key.
	Data []Field
	// Replace leaves the start record's data out.
	Replace bool
	// Output is what a command wrote; nil for what is no command.
	Output *Output
}

// Start writes the record of an operation that is about to run.
//
// An error means that a sink which must not fail has failed: the operation must
// not run, and no Span is to be finished. The sinks that work have then also got
// a finish record that says so. The fields are copied; lists in them are kept.
func (r *Recorder) Start(ctx context.Context, op Op, data ...Field) (*Span, error) {
	s := &Span{rec: r, begun: time.Now()}
	s.r.Op = op
	s.r.Phase = PhaseStart
	s.r.Data = s.fields[:0]
	for _, f := range data {
		s.r.Data = s.r.Data.set(f)
	}
	if len(r.outlets) > 0 {
		s.r.SpanID = r.newSpanID()
		s.r.ParentSpanID, _ = ctx.Value(parentKey{}).(string)
	}
	if err := r.Emit(ctx, &s.r, nil); err != nil {
		if !errors.Is(err, fault.NotAvailable) {
			// The sink that failed has been reported; what counts here is that no
			// other sink's trail is left with an operation that never ends.
			_ = s.Finish(ctx, Result{}, err)
		}
		return nil, named(op, err)
	}
	return s, nil
}

type parentKey struct{}

// Context returns a context for operations that are part of this one, such as the
// save within a stop: their records name this one's span as their parent.
func (s *Span) Context(ctx context.Context) context.Context {
	if s.r.SpanID == "" {
		return ctx
	}
	return context.WithValue(ctx, parentKey{}, s.r.SpanID)
}

// Finish writes the record of an operation that is over and returns the error
// that the operation must return: err, or a [fault.EventSinkError] around it
// where a sink which must not fail has failed.
//
// Where err is not nil, the finish record repeats the start record's data and
// says how the operation failed; res is not looked at (case EV-026). It is also
// written when ctx has been cancelled.
func (s *Span) Finish(ctx context.Context, res Result, err error) error {
	s.r.Phase = PhaseFinish
	s.r.Seq, s.r.EventID, s.r.Time = 0, zeroID, time.Time{}
	s.r.DurationMS = float64(time.Since(s.begun).Nanoseconds()) / 1e6
	s.r.OK = err == nil && !res.Failed
	var out *Output
	if err != nil {
		s.r.setError(err)
	} else {
		out = res.Output
		if res.Replace {
			s.r.Data = s.fields[:0]
		}
		for _, f := range res.Data {
			s.r.Data = s.r.Data.set(f)
		}
	}
	// A cancelled operation has an end too; its sinks have time limits of their own.
	sinkErr := s.rec.Emit(context.WithoutCancel(ctx), &s.r, out)
	if sinkErr == nil {
		return err
	}
	if err != nil {
		sinkErr = &fault.Error{Code: fault.EventSinkError, Err: errors.Join(sinkErr, err),
			Message: "the operation failed, and so did writing its event"}
	}
	return named(s.r.Op, sinkErr)
}

// named gives err, a fault that this package has just made, the operation's name.
func named(op Op, err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		e.Op = string(op)
	}
	return err
}

// setError says in r how the operation failed.
func (r *Record) setError(err error) {
	r.ErrorMessage = "unexpected error"
	r.ErrorType = fmt.Sprintf("%T", err)
	if e, ok := errors.AsType[*fault.Error](err); ok {
		r.ErrorType = "croft.Error"
		r.ErrorCode = e.Code
		r.ErrorRetryable = e.Retry
		switch {
		case e.Message != "":
			r.ErrorMessage = e.Message
		case e.Reason != "":
			r.ErrorMessage = e.Reason
		default:
			r.ErrorMessage = string(e.Code)
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		r.ErrorType = "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		r.ErrorType = "deadline_exceeded"
	default:
		return
	}
	if r.ErrorCode == "" {
		r.ErrorMessage = "the operation was cancelled"
	}
}

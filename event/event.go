// Package event writes a session's audit records and hands them to sinks.
//
// Every operation of a session leaves two records: one when it starts and one
// when it is over, also when it failed or was cancelled. A [Recorder] makes them:
//
//	rec, err := event.NewRecorder(event.Config{
//		SessionID: id,
//		Sinks:     []event.Sink{event.File("/var/log/agent.jsonl", event.FileOptions{})},
//	})
//	span, err := rec.Start(ctx, event.OpRead, event.String("path", name))
//	if err != nil {
//		return err // a sink that must not fail has failed: do not run the operation
//	}
//	data, err := read(name)
//	return span.Finish(ctx, event.Result{}, err)
//
// What a record may hold is decided by a [Policy]; file contents are never part
// of a record, the output of commands only where a policy asks for it.
//
// The package promises no more than its sinks do. A record that waits in memory
// (modes [Async] and [BestEffort]) is lost when the process is killed; a record
// in a file inside the workspace can be changed by the agent, so that only
// [File] and [HTTP] sinks make an audit that the agent cannot rewrite.
package event

import (
	"time"

	"github.com/google/uuid"

	"github.com/croftdev/croft/internal/fault"
)

// Version is the version of the record format that this package writes.
const Version = 1

// Phase tells whether a record opens or ends an operation.
type Phase string

// The two phases.
const (
	PhaseStart  Phase = "start"
	PhaseFinish Phase = "finish"
)

// Record is one audit record.
//
// The fields from OK on are meaningful only where Phase is [PhaseFinish]. A
// string that is empty, a zero EventID or Time, and a nil pointer are absent, and
// written as null.
type Record struct {
	// Version is the version of the format: [Version].
	Version int
	// EventID names this record, and no other one anywhere.
	EventID uuid.UUID
	// Time is when the record was made.
	Time time.Time
	// SessionID is the session's id, in the text form of a UUID.
	SessionID string
	// Seq numbers the records of the session from 1, without a gap. A sink that
	// sees a gap has missed a record.
	Seq uint64
	// Op is the operation.
	Op Op
	// Phase tells whether the operation starts or is over.
	Phase Phase
	// SpanID is shared by the two records of one operation.
	SpanID string
	// ParentSpanID is the span of the operation that this one is a part of. TraceID
	// names a larger trace; croft writes none.
	ParentSpanID string
	TraceID      string
	// Data holds what belongs to this kind of operation, such as the path.
	Data Data

	// OK reports whether the operation did what was asked. A command that ended
	// with another exit code than zero was not OK, though it caused no error.
	OK bool
	// DurationMS is how long the operation took, in milliseconds.
	DurationMS float64
	// ErrorCode is the code of the operation's error.
	ErrorCode fault.Code
	// ErrorType says what made the error: "croft.Error", "cancelled",
	// "deadline_exceeded", or the Go type of an error without a code.
	ErrorType string
	// ErrorMessage says what happened. It holds no cause, since causes name host
	// paths and a record may end up where the agent reads it.
	ErrorMessage string
	// ErrorRetryable tells whether the same call may succeed later.
	ErrorRetryable fault.Retry
	// Stdout and Stderr hold a command's output where the policy includes it, cut
	// by the policy's limits.
	Stdout, Stderr *string
}

// clone returns a copy that shares nothing a holder could change.
func (r *Record) clone() *Record {
	c := *r
	c.Data = r.Data.clone()
	if r.Stdout != nil {
		c.Stdout = new(*r.Stdout)
	}
	if r.Stderr != nil {
		c.Stderr = new(*r.Stderr)
	}
	return &c
}

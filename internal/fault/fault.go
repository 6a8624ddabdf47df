// Package fault holds croft's one error type and its stable codes.
//
// Every error that leaves the library is, or wraps, an [*Error]. The code says
// which kind of failure it is and never changes its meaning; a caller branches
// on it with errors.Is, since a [Code] is itself an error:
//
//	if errors.Is(err, fault.SessionBusy) { ... }
//
// The package depends on nothing of croft, so that each mechanism can use it;
// package croft re-exports its names.
package fault

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
)

// Retry tells whether the same call may succeed later without a change by the
// caller. The zero value says that nobody knows.
type Retry int8

// The three answers that [Error.Retry] gives.
const (
	RetryUnknown Retry = iota
	RetryYes
	RetryNo
)

// String returns "unknown", "yes" or "no".
func (r Retry) String() string {
	switch r {
	case RetryYes:
		return "yes"
	case RetryNo:
		return "no"
	default:
		return "unknown"
	}
}

// MarshalJSON writes the answer as its String.
func (r Retry) MarshalJSON() ([]byte, error) { return json.Marshal(r.String()) }

// Error is the one error type of croft.
//
// Message and Reason are written for the one who reads them: they name the
// thing that failed and what to do about it, never a host path of croft's own
// state and never a secret. Err, the cause, may hold host paths and is meant for
// the program and its log; front ends that answer an agent leave it out.
type Error struct {
	// Code is the kind of failure; never empty.
	Code Code
	// Op is the operation that failed, named as its event is: "read", "exec".
	Op string
	// Path is the name that failed: relative to the workspace where it lies in it,
	// else as the caller wrote it. Empty where no name is concerned.
	Path string
	// Reason refines the code with a stable word, such as "escape_root".
	Reason string
	// Message says what happened and what to do, in a sentence.
	Message string
	// Details holds further values by stable name, such as "grant_path".
	Details map[string]any
	// Retry tells whether the same call may succeed later.
	Retry Retry
	// Err is the cause, or nil.
	Err error
}

// Error returns one line: operation, name, message (else reason, else code) and cause.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op)
		b.WriteByte(' ')
	}
	if e.Path != "" {
		b.WriteString(e.Path)
	}
	if b.Len() > 0 {
		s := strings.TrimRight(b.String(), " ")
		b.Reset()
		b.WriteString(s)
		b.WriteString(": ")
	}
	switch {
	case e.Message != "":
		b.WriteString(e.Message)
	case e.Reason != "":
		b.WriteString(string(e.Code) + " (" + e.Reason + ")")
	default:
		b.WriteString(string(e.Code))
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the code of e, so that errors.Is(err, fault.X) works.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// CodeOf returns the code of the first [*Error] in err's chain, or "" if there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// Canceled reports whether err comes from a context that was cancelled or ran
// out of time.
func Canceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/croftdev/croft"
	"github.com/croftdev/croft/policy"
)

// runReport is the object of `croft run --json`. Its names are fixed.
type runReport struct {
	Session string `json:"session"`
	// ExitCode is null if the command was not started; minus the signal's number if
	// a signal ended it.
	ExitCode      *int            `json:"exit_code"`
	Signal        string          `json:"signal"`
	TimedOut      bool            `json:"timed_out"`
	DurationMS    int64           `json:"duration_ms"`
	Stdout        string          `json:"stdout"`
	Stderr        string          `json:"stderr"`
	Encoding      string          `json:"encoding"` // of stdout and stderr: utf8 or base64
	StdoutDropped int64           `json:"stdout_dropped"`
	StderrDropped int64           `json:"stderr_dropped"`
	Ended         []string        `json:"ended"`   // signals by which croft ended the command
	Denials       []any           `json:"denials"` // none are explained yet
	Receipt       *policy.Receipt `json:"receipt"` // null if the session was not started
	Error         *errorObject    `json:"error"`   // null if croft has done its part

	result    *croft.Result
	workspace string
}

// errorObject is the JSON form of an error.
type errorObject struct {
	Code      croft.Code     `json:"code"`
	Op        string         `json:"op"`
	Path      string         `json:"path"`
	Reason    string         `json:"reason"`
	Message   string         `json:"message"`
	Retryable croft.Retry    `json:"retryable"`
	Details   map[string]any `json:"details"`
}

// codeCanceled stands in an errorObject for the end of croft's own context, which
// has no code in the library.
const codeCanceled croft.Code = "cancelled"

// codeFailed stands there for an error without a code, such as a file of the
// command line that cannot be read.
const codeFailed croft.Code = "failed"

// write writes the report, whose command or session failed with err.
func (r *runReport) write(w io.Writer, err error) error {
	r.Ended, r.Denials, r.Encoding = []string{}, []any{}, "utf8"
	if res := r.result; res != nil {
		r.Signal, r.TimedOut, r.DurationMS = res.Signal, res.TimedOut, res.Duration.Milliseconds()
		r.StdoutDropped, r.StderrDropped = res.StdoutDropped, res.StderrDropped
		r.ExitCode = &res.ExitCode
		r.Ended = append(r.Ended, res.Ended...)
		r.Stdout, r.Stderr, r.Encoding = encode(res.Stdout, res.Stderr)
	}
	r.Error = newErrorObject(err)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}

// encode returns both outputs as text if both are UTF-8, else both as base64.
func encode(stdout, stderr []byte) (out, errs, encoding string) {
	if utf8.Valid(stdout) && utf8.Valid(stderr) {
		return string(stdout), string(stderr), "utf8"
	}
	return base64.StdEncoding.EncodeToString(stdout), base64.StdEncoding.EncodeToString(stderr), "base64"
}

func newErrorObject(err error) *errorObject {
	if err == nil {
		return nil
	}
	if sig, ok := errors.AsType[*signalError](err); ok {
		return &errorObject{Code: codeCanceled, Op: "run", Reason: "signal", Message: sig.Error(),
			Retryable: croft.RetryUnknown, Details: map[string]any{"signal": int(sig.signal)}}
	}
	e, ok := errors.AsType[*croft.Error](err)
	if !ok {
		return &errorObject{Code: codeFailed, Op: "run", Message: err.Error(), Details: map[string]any{}}
	}
	o := &errorObject{Code: e.Code, Op: e.Op, Path: e.Path, Reason: e.Reason, Message: err.Error(),
		Retryable: e.Retry, Details: e.Details}
	if o.Details == nil {
		o.Details = map[string]any{}
	}
	return o
}

package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/croftdev/croft/internal/fault"
)

// Decode reads one record, as [AppendLine] writes it or as another writer of the
// format does.
//
// Needed are session_id, seq, op, span_id and phase, and for a finish record ok
// and duration_ms; the rest may be missing or null. Operations, error codes,
// phases and versions that are not known are refused; further fields are ignored
// (cases EV-030 to EV-037). Every error is [fault.InvalidArgument], its Path the
// field at fault. AppendLine writes a decoded record so that decoding and writing
// it again yields the same bytes.
func Decode(line []byte) (*Record, error) {
	fields, err := objectOf(line)
	if err != nil {
		return nil, err
	}
	d := decoder{fields: fields}
	r := &Record{Version: Version}
	d.opt("version", &r.Version)
	if d.err == nil && r.Version != Version {
		d.fail("version", "is not known", nil)
	}
	d.opt("event_id", &r.EventID)
	d.time("ts", &r.Time)
	var session uuid.UUID
	d.need("session_id", &session)
	r.SessionID = session.String()
	d.need("seq", &r.Seq)
	d.need("op", &r.Op)
	if d.err == nil && !r.Op.known() {
		d.fail("op", "is not a known operation", nil)
	}
	d.need("phase", &r.Phase)
	d.need("span_id", &r.SpanID)
	d.opt("parent_span_id", &r.ParentSpanID)
	d.opt("trace_id", &r.TraceID)
	d.data("data", &r.Data)
	switch r.Phase {
	case PhaseStart:
	case PhaseFinish:
		d.finish(r)
	default:
		d.fail("phase", "is neither start nor finish", nil)
	}
	if d.err != nil {
		return nil, d.err
	}
	return r, nil
}

// decoder takes fields out of an object and keeps the first error.
type decoder struct {
	fields map[string]json.RawMessage
	err    error
}

func (d *decoder) finish(r *Record) {
	d.need("ok", &r.OK)
	d.need("duration_ms", &r.DurationMS)
	d.opt("error_code", &r.ErrorCode)
	if d.err == nil && r.ErrorCode != "" && !slices.Contains(fault.Codes(), r.ErrorCode) {
		d.fail("error_code", "is not a known error code", nil)
	}
	d.opt("error_type", &r.ErrorType)
	d.opt("error_message", &r.ErrorMessage)
	var retry *bool
	d.opt("error_retryable", &retry)
	switch {
	case retry == nil:
	case *retry:
		r.ErrorRetryable = fault.RetryYes
	default:
		r.ErrorRetryable = fault.RetryNo
	}
	d.opt("stdout", &r.Stdout)
	d.opt("stderr", &r.Stderr)
}

// opt decodes the field into v; a field that is missing or null leaves v alone.
func (d *decoder) opt(name string, v any) {
	raw, ok := d.fields[name]
	if d.err != nil || !ok || string(raw) == null {
		return
	}
	if err := json.Unmarshal(raw, v); err != nil {
		d.fail(name, "has the wrong form", err)
	}
}

func (d *decoder) need(name string, v any) {
	raw, ok := d.fields[name]
	if d.err == nil && (!ok || string(raw) == null) {
		d.fail(name, "is missing", nil)
	}
	d.opt(name, v)
}

// time decodes a moment. Years that RFC 3339 cannot write once the moment is
// told in UTC are refused.
func (d *decoder) time(name string, t *time.Time) {
	var text string
	d.opt(name, &text)
	if d.err != nil || text == "" {
		return
	}
	v, err := time.Parse(time.RFC3339Nano, text)
	if y := v.UTC().Year(); err != nil || y < 0 || y > 9999 {
		d.fail(name, "is not a moment in the form of RFC 3339", err)
		return
	}
	*t = v.UTC()
}

func (d *decoder) data(name string, v *Data) {
	raw, ok := d.fields[name]
	if d.err != nil || !ok || string(raw) == null {
		return
	}
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&m); err != nil {
		d.fail(name, "is not an object", err)
		return
	}
	*v = dataOf(m)
}

func (d *decoder) fail(name, what string, cause error) {
	if d.err == nil {
		d.err = &fault.Error{Code: fault.InvalidArgument, Path: name, Retry: fault.RetryNo,
			Message: "this field of an event record " + what, Err: cause}
	}
}

var errTrailing = errors.New("more follows the object")

// objectOf splits one JSON object into its fields. Names count as they are
// written: encoding/json would take "OK" for "ok" where it fills a struct.
func objectOf(line []byte) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	var fields map[string]json.RawMessage
	err := dec.Decode(&fields)
	if err == nil {
		if _, end := dec.Token(); end != io.EOF {
			err = errTrailing
		}
	}
	if err != nil || fields == nil {
		return nil, &fault.Error{Code: fault.InvalidArgument, Message: "an event record is one JSON object",
			Retry: fault.RetryNo, Err: err}
	}
	return fields, nil
}

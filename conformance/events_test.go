package conformance

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
)

func init() {
	register(area{name: "events", makes: []string{"ROOT"}, calls: map[string]call{
		"events_of":           {fields: "results events phases_of_each", match: map[string]match{"events": matchEvents}, run: runEventsOf},
		"sink_failure_effect": {fields: "operation_ran caller_sees", run: runSinkFailureEffect},
		"flush_on_aclose":     {run: runFlushOnClose},
		"cancelled_operation": {fields: "phases", run: runCancelledOperation},
		"json_line":           {fields: "line", run: runJSONLine},
		"validate_event":      {fields: "phase", run: runValidateEvent},
		"operation_names":     {fields: "names", run: runOperationNames},
		"error_codes":         {fields: "codes", run: runErrorCodes},
		"safe_decode":         {fields: "text", run: runSafeDecode},
		"deliver":             {fields: "emit delivered_before_emit_returned logged close_error", run: runDeliver},
		"chain_order":         {fields: "order emit", run: runChainOrder},
		"copies_per_sink":     {run: runCopiesPerSink},
		"workspace_sink":      {fields: "files seqs_in_file_after_each_event skip_paths", run: runWorkspaceSink},
		"file_sink":           {fields: "lines mode_default on_error_default", run: runFileSink},
		"sink_defaults":       {fields: "mode on_error", run: runSinkDefaults},
		"callback_unbound":    {run: runCallbackUnbound},
		"http_sink":           {fields: "spooled_lines reported", run: runHTTPSink},
		"http_sink_defaults":  {fields: "timeout_s content_type mode on_error headers_copied", run: runHTTPSinkDefaults},
	}})
}

// matchEvents wants equal records, but '*' as a number of bytes stands for any
// that is above zero.
func matchEvents(want, got any) string {
	w, wok := want.([]any)
	g, gok := got.([]any)
	if !wok || !gok || len(w) != len(g) {
		return differ(want, got)
	}
	for i := range w {
		if d := equal(anyBytes(w[i], g[i]), g[i]); d != "" {
			return fmt.Sprintf("[%d]%s", i, d)
		}
	}
	return ""
}

// anyBytes returns want with the number of bytes of got, where want takes any.
func anyBytes(want, got any) any {
	w, _ := want.(map[string]any)
	g, _ := got.(map[string]any)
	wd, _ := w["data"].(map[string]any)
	gd, _ := g["data"].(map[string]any)
	n, ok := gd["bytes"].(json.Number)
	if wd["bytes"] != "*" || !ok {
		return want
	}
	if v, err := strconv.ParseFloat(n.String(), 64); err != nil || v <= 0 {
		return want
	}
	return with(w, "data", with(wd, "bytes", n))
}

// asEvents returns records as cases write them: in the order of their numbers,
// counted from one; of what differs from run to run only what is compared.
func asEvents(e *env, records []event.Record) []map[string]any {
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b event.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	spans := map[string]string{}
	out := []map[string]any{}
	for i := range records {
		r := records[i]
		r.Seq -= records[0].Seq - 1
		var m map[string]any
		v, err := decodeValue(event.AppendLine(nil, &r))
		e.check(err)
		m = v.(map[string]any)
		if spans[r.SpanID] == "" {
			spans[r.SpanID] = fmt.Sprintf("s%d", len(spans)+1)
		}
		m["span"] = spans[r.SpanID]
		for _, k := range []string{"error_message", "error_type"} {
			if m[k] != nil {
				m["has_"+k] = true
			}
		}
		for _, k := range []string{"event_id", "ts", "session_id", "version", "duration_ms", "span_id", "error_message", "error_type"} {
			delete(m, k)
		}
		for k, v := range m {
			if v == nil {
				delete(m, k)
			}
		}
		out = append(out, m)
	}
	return out
}

func runJSONLine(_ *env, op *fields) (outcome, error) {
	r, err := event.Decode(op.raw("record"))
	if err != nil {
		return nil, err
	}
	return outcome{"line": string(event.AppendLine(nil, r))}, nil
}

func runValidateEvent(_ *env, op *fields) (outcome, error) {
	r, err := event.Decode(op.raw("record"))
	if err != nil {
		return nil, err
	}
	return outcome{"phase": r.Phase}, nil
}

func runOperationNames(*env, *fields) (outcome, error) { return outcome{"names": event.Ops()}, nil }

func runErrorCodes(*env, *fields) (outcome, error) { return outcome{"codes": fault.Codes()}, nil }

func runSafeDecode(e *env, op *fields) (outcome, error) {
	text, isText := op.optStr("text")
	b := []byte(text)
	if !isText {
		var err error
		b, err = hex.DecodeString(op.str("hex"))
		e.check(err)
	}
	return outcome{"text": event.Clip(b, op.num("max_chars"))}, nil
}

// linesIn counts whole lines that are records.
func linesIn(e *env, data []byte) int {
	n := 0
	for line := range bytes.Lines(data) {
		_, err := event.Decode(line)
		e.check(err)
		n++
	}
	return n
}

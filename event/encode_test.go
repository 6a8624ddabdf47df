package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
)

func decodeAll(t *testing.T, lines []byte) []*event.Record {
	t.Helper()
	var out []*event.Record
	for line := range bytes.Lines(lines) {
		r, err := event.Decode(line)
		if err != nil {
			t.Fatalf("Decode(%q): %v", line, err)
		}
		out = append(out, r)
	}
	return out
}

func TestAppendLine(t *testing.T) {
	id := uuid.MustParse(sessionID)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name string
		r    event.Record
		want string
	}{
		{
			name: "start: keys sorted, no blanks, non-ASCII escaped (EV-027)",
			r: event.Record{Version: 1, EventID: id, Time: at, SessionID: sessionID, Seq: 1, Op: event.OpWrite,
				Phase: event.PhaseStart, SpanID: "sp", Data: event.Data{event.String("a", "é"), event.Int("b", 1)}},
			want: `{"data":{"a":"\u00e9","b":1},"event_id":"` + sessionID + `","op":"write","parent_span_id":null,"phase":"start","seq":1,"session_id":"` + sessionID + `","span_id":"sp","trace_id":null,"ts":"2026-01-02T03:04:05Z","version":1}` + "\n",
		},
		{
			name: "finish: absent values are null (EV-028)",
			r: event.Record{Version: 1, EventID: id, Time: at, SessionID: sessionID, Seq: 2, Op: event.OpExec,
				Phase: event.PhaseFinish, SpanID: "sp", OK: true, DurationMS: 1.5},
			want: `{"data":{},"duration_ms":1.5,"error_code":null,"error_message":null,"error_retryable":null,"error_type":null,"event_id":"` + sessionID + `","ok":true,"op":"exec","parent_span_id":null,"phase":"finish","seq":2,"session_id":"` + sessionID + `","span_id":"sp","stderr":null,"stdout":null,"trace_id":null,"ts":"2026-01-02T03:04:05Z","version":1}` + "\n",
		},
		{
			name: "finish: everything there",
			r: event.Record{Version: 1, EventID: id, Time: at.Add(1500 * time.Microsecond), SessionID: sessionID, Seq: 3, Op: event.OpExec,
				Phase: event.PhaseFinish, SpanID: "sp", ParentSpanID: "p", TraceID: "t", DurationMS: 2, ErrorCode: fault.ExecTimeout,
				ErrorType: "croft.Error", ErrorMessage: "too\nlong", ErrorRetryable: fault.RetryNo, Stdout: new("a\x00\x7f😀"), Stderr: new("")},
			want: `{"data":{},"duration_ms":2.0,"error_code":"exec_timeout","error_message":"too\nlong","error_retryable":false,"error_type":"croft.Error","event_id":"` + sessionID + `","ok":false,"op":"exec","parent_span_id":"p","phase":"finish","seq":3,"session_id":"` + sessionID + `","span_id":"sp","stderr":"","stdout":"a\u0000\u007f\ud83d\ude00","trace_id":"t","ts":"2026-01-02T03:04:05.0015Z","version":1}` + "\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := string(event.AppendLine(nil, &tt.r))
			if got != tt.want {
				t.Errorf("AppendLine:\n got %s\nwant %s", got, tt.want)
			}
			back, err := event.Decode([]byte(got))
			if err != nil {
				t.Fatal(err)
			}
			if again := string(event.AppendLine(nil, back)); again != got {
				t.Errorf("decoded and written again:\n got %s\nwant %s", again, got)
			}
		})
	}
}

// encoding/json is the judge of what a string and a value mean.
func TestAppendLineValues(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    event.Field
		want any
	}{
		{"quote, backslash, controls", event.String("k", "\"\\\b\f\n\r\t\x01/<>&"), "\"\\\b\f\n\r\t\x01/<>&"},
		{"beyond the basic plane", event.String("k", "a😀b"), "a😀b"},
		{"bad UTF-8", event.String("k", "a\xffb"), "a\ufffdb"},
		{"line separators", event.String("k", "\u2028\u2029"), "\u2028\u2029"},
		{"empty", event.String("k", ""), ""},
		{"optional and empty", event.OptString("k", ""), nil},
		{"optional", event.OptString("k", "x"), "x"},
		{"list", event.Strings("k", []string{"a", "b c"}), []any{"a", "b c"}},
		{"no list", event.Strings("k", nil), []any{}},
		{"integer", event.Int("k", -7), -7.0},
		{"fraction", event.Float("k", 0.2), 0.2},
		{"tiny", event.Float("k", 1e-9), 1e-9},
		{"huge", event.Float("k", 1e300), 1e300},
		{"true", event.Bool("k", true), true},
		{"false", event.Bool("k", false), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			line := event.AppendLine(nil, &event.Record{Data: event.Data{tt.f}})
			for _, c := range line[:len(line)-1] {
				if c < ' ' || c > '~' {
					t.Fatalf("line holds byte %#x: %q", c, line)
				}
			}
			var got struct {
				Data map[string]any `json:"data"`
			}
			if err := json.Unmarshal(line, &got); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			if !reflect.DeepEqual(got.Data["k"], tt.want) {
				t.Errorf("got %#v, want %#v", got.Data["k"], tt.want)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	const base = `"session_id":"` + sessionID + `","seq":1,"op":"read","span_id":"s"`
	for _, tt := range []struct {
		name, line, field string // field: what the error names; "-" for none
		ok                bool
	}{
		{name: "start", line: `{` + base + `,"phase":"start"}`, ok: true},
		{name: "finish (EV-031)", line: `{` + base + `,"phase":"finish","ok":true,"duration_ms":0}`, ok: true},
		{name: "extra field ignored (EV-037)", line: `{` + base + `,"phase":"start","zzz":1}`, ok: true},
		{name: "start with the fields of a finish", line: `{` + base + `,"phase":"start","ok":7}`, ok: true},
		{name: "null is absent", line: `{` + base + `,"phase":"start","data":null,"ts":null,"event_id":null,"version":null}`, ok: true},
		{name: "white space around", line: " {" + base + `,"phase":"start"} ` + "\n", ok: true},
		{name: "finish needs ok (EV-030)", line: `{` + base + `,"phase":"finish","duration_ms":0}`, field: "ok"},
		{name: "names are exact", line: `{` + base + `,"phase":"finish","OK":true,"duration_ms":0}`, field: "ok"},
		{name: "finish needs a duration", line: `{` + base + `,"phase":"finish","ok":true}`, field: "duration_ms"},
		{name: "unknown phase (EV-032)", line: `{` + base + `,"phase":"middle"}`, field: "phase"},
		{name: "missing phase (EV-033)", line: `{` + base + `}`, field: "phase"},
		{name: "unknown operation (EV-034)", line: `{"session_id":"` + sessionID + `","seq":1,"op":"no_such_op","span_id":"s","phase":"start"}`, field: "op"},
		{name: "missing number (EV-035)", line: `{"session_id":"` + sessionID + `","op":"read","span_id":"s","phase":"start"}`, field: "seq"},
		{name: "unknown error code (EV-036)", line: `{` + base + `,"phase":"finish","ok":false,"duration_ms":0,"error_code":"zzz"}`, field: "error_code"},
		{name: "session id is no UUID", line: `{"session_id":"x","seq":1,"op":"read","span_id":"s","phase":"start"}`, field: "session_id"},
		{name: "event id is no UUID", line: `{` + base + `,"phase":"start","event_id":"x"}`, field: "event_id"},
		{name: "missing span", line: `{"session_id":"` + sessionID + `","seq":1,"op":"read","phase":"start"}`, field: "span_id"},
		{name: "number is a text", line: `{"session_id":"` + sessionID + `","seq":"1","op":"read","span_id":"s","phase":"start"}`, field: "seq"},
		{name: "version of the future", line: `{` + base + `,"phase":"start","version":2}`, field: "version"},
		{name: "time that is none", line: `{` + base + `,"phase":"start","ts":"yesterday"}`, field: "ts"},
		{name: "year that cannot be written", line: `{` + base + `,"phase":"start","ts":"9999-12-31T23:59:59-01:00"}`, field: "ts"},
		{name: "data is a list", line: `{` + base + `,"phase":"start","data":[]}`, field: "data"},
		{name: "not an object", line: `[]`, field: "-"},
		{name: "null", line: `null`, field: "-"},
		{name: "empty", line: ``, field: "-"},
		{name: "two objects", line: `{` + base + `,"phase":"start"}{}`, field: "-"},
		{name: "half a line", line: `{` + base + `,"pha`, field: "-"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := event.Decode([]byte(tt.line))
			if tt.ok {
				if err != nil || r.Op != event.OpRead || r.Seq != 1 || r.SpanID != "s" || r.SessionID != sessionID || r.Version != 1 {
					t.Fatalf("Decode = %+v, %v", r, err)
				}
				return
			}
			e, isFault := errors.AsType[*fault.Error](err)
			if !isFault || e.Code != fault.InvalidArgument {
				t.Fatalf("Decode error = %v, want invalid_argument", err)
			}
			if want := tt.field; want != "-" && e.Path != want || want == "-" && e.Path != "" {
				t.Errorf("error names field %q, want %q", e.Path, want)
			}
		})
	}
}

func TestDecodeKeepsNestedData(t *testing.T) {
	const line = `{"data":{"a":{"x":[1.0,null,true,"é"],"b":12345678901234567890},"z":-0}` +
		`,"session_id":"` + sessionID + `","seq":1,"op":"read","span_id":"s","phase":"start"}`
	r, err := event.Decode([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"data":{"a":{"b":12345678901234567890,"x":[1.0,null,true,"\u00e9"]},"z":-0},`
	if got := event.AppendLine(nil, r); !bytes.HasPrefix(got, []byte(want)) {
		t.Errorf("got %s, want it to begin with %s", got, want)
	}
}

func TestOpsAreKnownToDecode(t *testing.T) {
	seen := map[event.Op]bool{}
	for _, o := range event.Ops() {
		if seen[o] {
			t.Errorf("%s is listed twice", o)
		}
		seen[o] = true
		line := event.AppendLine(nil, &event.Record{Version: 1, SessionID: sessionID, Seq: 1, Op: o, Phase: event.PhaseStart, SpanID: "s"})
		if _, err := event.Decode(line); err != nil {
			t.Errorf("%s: %v", o, err)
		}
	}
}

// The property: what was read is written in one form, which reads as itself.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"session_id":"` + sessionID + `","seq":1,"op":"read","span_id":"s","phase":"start","data":{"b":[1,{"x":null}],"a":"\ud800"}}`))
	f.Add([]byte(`{"session_id":"` + sessionID + `","seq":18446744073709551615,"op":"exec","span_id":"","phase":"finish","ok":false,"duration_ms":-1e-7,` +
		`"ts":"0000-01-01T00:00:00.123456789Z","stdout":"\u0000","error_code":"exec_timeout","error_retryable":true}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := event.Decode(in)
		if err != nil {
			if !errors.Is(err, fault.InvalidArgument) {
				t.Fatalf("error without its code: %v", err)
			}
			return
		}
		once := event.AppendLine(nil, r)
		if !json.Valid(once) || bytes.Count(once, []byte{'\n'}) != 1 {
			t.Fatalf("not one line of JSON: %q", once)
		}
		back, err := event.Decode(once)
		if err != nil {
			t.Fatalf("cannot read what was written: %v in %q", err, once)
		}
		if twice := event.AppendLine(nil, back); !bytes.Equal(once, twice) {
			t.Fatalf("not stable:\n%q\n%q", once, twice)
		}
	})
}

package event_test

import (
	"errors"
	"testing"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
)

func TestClip(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		limit    int
		want     string
	}{
		{"cut (EV-040)", "abcdef", 3, "abc…"},
		{"fits (EV-041)", "abc", 3, "abc"},
		{"nothing (EV-042)", "", 0, ""},
		{"all cut (EV-043)", "a", 0, "…"},
		{"characters, not bytes", "äöü", 3, "äöü"},
		{"cut between characters", "äöü", 2, "äö…"},
		{"invalid byte (EV-045)", "a\xffb", 10, "a\ufffdb"},
		{"begun character is one fault", "\xe2\x82", 10, "\ufffd"},
		{"begun character, then text", "\xf0\x9f\x98x", 10, "\ufffdx"},
		{"surrogate is three faults", "\xed\xa0\x80", 10, "\ufffd\ufffd\ufffd"},
		{"overlong is two faults", "\xc0\x80", 10, "\ufffd\ufffd"},
		{"overlong of three", "\xe0\x80\x80", 10, "\ufffd\ufffd\ufffd"},
		{"beyond Unicode", "\xf4\x90\x80\x80", 10, "\ufffd\ufffd\ufffd\ufffd"},
		{"overlong of four", "\xf0\x80\x80\x80", 10, "\ufffd\ufffd\ufffd\ufffd"},
		{"lone continuation", "\x80\x80", 10, "\ufffd\ufffd"},
		{"faults count as characters", "\xff\xff\xff", 2, "\ufffd\ufffd…"},
		{"a real U+FFFD stays", "\ufffd", 1, "\ufffd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := event.Clip([]byte(tt.in), tt.limit); got != tt.want {
				t.Errorf("Clip(%q, %d) = %q, want %q", tt.in, tt.limit, got, tt.want)
			}
		})
	}
}

func TestPolicyLayers(t *testing.T) {
	show, hide := event.Policy{IncludeExecOutput: new(true)}, event.Policy{IncludeExecOutput: new(false)}
	for _, tt := range []struct {
		name   string
		base   event.Policy
		byOp   map[event.Op]event.Policy
		sink   event.Policy
		stdout *string
		bytes  bool
	}{
		{name: "output is left out by default (EV-017)", bytes: true},
		{name: "included", base: show, stdout: new("abcdef"), bytes: true},
		{name: "the operation's wins (EV-022)", base: hide, byOp: map[event.Op]event.Policy{event.OpExec: show}, stdout: new("abcdef"), bytes: true},
		{name: "another operation's does not matter (EV-023)", byOp: map[event.Op]event.Policy{event.OpWrite: show}, bytes: true},
		{name: "the sink's wins over both (EV-024)", base: show, byOp: map[event.Op]event.Policy{event.OpExec: {MaxStdoutChars: new(2)}}, sink: hide, bytes: true},
		{name: "what the sink's does not say stays", base: show, byOp: map[event.Op]event.Policy{event.OpExec: {MaxStdoutChars: new(2)}},
			sink: event.Policy{MaxStdoutChars: new(1)}, stdout: new("a…"), bytes: true},
		{name: "limits (EV-019)", base: event.Policy{IncludeExecOutput: new(true), MaxStdoutChars: new(3)}, stdout: new("abc…"), bytes: true},
		{name: "byte counts left out (EV-021)", base: event.Policy{IncludeWriteLen: new(false)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got, other collector
			rec := newRecorder(t, event.Config{Policy: tt.base, PolicyByOp: tt.byOp,
				Sinks: []event.Sink{got.sink(event.Delivery{Policy: tt.sink}), other.sink(event.Delivery{Policy: event.Policy{
					IncludeExecOutput: new(true), IncludeWriteLen: new(true), MaxStdoutChars: new(100)}})}})
			res := event.Result{Output: &event.Output{Stdout: []byte("abcdef")}}
			if err := op(t, rec, event.OpExec, res, nil, event.Int("bytes", 5)); err != nil {
				t.Fatal(err)
			}
			start, finish := got.all()[0], got.all()[1]
			if start.Stdout != nil {
				t.Errorf("the start record has output %q", *start.Stdout)
			}
			if (finish.Stdout == nil) != (tt.stdout == nil) || finish.Stdout != nil && *finish.Stdout != *tt.stdout {
				t.Errorf("stdout = %v, want %v", finish.Stdout, tt.stdout)
			}
			for _, r := range got.all() {
				if _, ok := r.Data.Get("bytes"); ok != tt.bytes {
					t.Errorf("%s record has bytes: %v, want %v", r.Phase, ok, tt.bytes)
				}
			}
			if tt.stdout != nil && (finish.Stderr == nil || *finish.Stderr != "") {
				t.Errorf("stderr = %v, want an empty one (EV-022)", finish.Stderr)
			}
			// EV-083: one sink's policy does not touch another's record.
			if o := other.all()[1]; o.Stdout == nil || *o.Stdout != "abcdef" || len(o.Data) != 1 {
				t.Errorf("the other sink's record = %+v", o)
			}
		})
	}
}

func TestNewRecorderRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    event.Config
	}{
		{"a limit below zero", event.Config{Policy: event.Policy{MaxStdoutChars: new(-1)}}},
		{"a limit below zero for an operation", event.Config{PolicyByOp: map[event.Op]event.Policy{event.OpExec: {MaxStderrChars: new(-1)}}}},
		{"a policy for no operation", event.Config{PolicyByOp: map[event.Op]event.Policy{"zzz": {}}}},
		{"an unknown mode", event.Config{Sinks: []event.Sink{event.File("x", event.FileOptions{Delivery: event.Delivery{Mode: "later"}})}}},
		{"an unknown error policy", event.Config{Sinks: []event.Sink{event.File("x", event.FileOptions{Delivery: event.Delivery{OnError: "cry"}})}}},
		{"a nil sink", event.Config{Sinks: []event.Sink{nil}}},
		{"a nil sink in a chain", event.Config{Sinks: []event.Sink{event.Chain(nil)}}},
		{"no path", event.Config{Sinks: []event.Sink{event.File("", event.FileOptions{})}}},
		{"a size below zero", event.Config{Sinks: []event.Sink{event.File("x", event.FileOptions{MaxSize: -1})}}},
		{"no function", event.Config{Sinks: []event.Sink{event.Callback(nil, event.Delivery{})}}},
		{"no URL", event.Config{Sinks: []event.Sink{event.HTTP("localhost:80", event.HTTPOptions{})}}},
		{"another scheme", event.Config{Sinks: []event.Sink{event.HTTP("ftp://x/", event.HTTPOptions{})}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := event.NewRecorder(tt.c); !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("NewRecorder error = %v, want invalid_argument", err)
			}
		})
	}
}

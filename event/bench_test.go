package event_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/croftdev/croft/event"
)

// BenchmarkSpan is what an audited read costs beyond the read: a start and a
// finish record. BenchmarkReadFile is what it is compared with.
func BenchmarkSpan(b *testing.B) {
	nop := event.Callback(func(context.Context, event.Record, event.Workspace) error { return nil }, event.Delivery{})
	dir := b.TempDir()
	for _, bb := range []struct {
		name string
		sink []event.Sink
	}{
		{"no sink", nil},
		{"file best effort", []event.Sink{event.File(filepath.Join(dir, "b.jsonl"), event.FileOptions{})}},
		{"file sync", []event.Sink{event.File(filepath.Join(dir, "s.jsonl"), event.FileOptions{Delivery: event.Delivery{Mode: event.Sync}})}},
		{"callback", []event.Sink{nop}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			rec, err := event.NewRecorder(event.Config{SessionID: sessionID, Sinks: bb.sink})
			if err != nil {
				b.Fatal(err)
			}
			if err := rec.Bind(&workspace{}); err != nil {
				b.Fatal(err)
			}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				span, err := rec.Start(ctx, event.OpRead, event.String("path", "src/lib/deep/tree/of/files/main.go"), event.OptString("user", ""))
				if err != nil {
					b.Fatal(err)
				}
				if err := span.Finish(ctx, event.Result{}, nil); err != nil {
					b.Fatal(err)
				}
			}
			if err := rec.Close(ctx); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkReadFile(b *testing.B) {
	name := filepath.Join(b.TempDir(), "a", "b", "c", "d", "e")
	if err := os.MkdirAll(name, 0o700); err != nil {
		b.Fatal(err)
	}
	name = filepath.Join(name, "f")
	if err := os.WriteFile(name, make([]byte, 4<<10), 0o600); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := os.ReadFile(name); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendLine(b *testing.B) {
	r := event.Record{Version: 1, SessionID: sessionID, Seq: 77, Op: event.OpRead, Phase: event.PhaseFinish, OK: true,
		SpanID: "0123456789abcdef", DurationMS: 0.125,
		Data: event.Data{event.String("path", "src/lib/deep/tree/of/files/main.go"), event.Null("user")}}
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = event.AppendLine(buf[:0], &r)
	}
}

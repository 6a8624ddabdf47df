package event_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/croftdev/croft/event"
)

const sessionID = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"

var errSink = errors.New("the sink is broken")

// workspace is a session's workspace in memory.
type workspace struct {
	mu       sync.Mutex
	running  bool
	files    map[string][]byte
	excluded []string
	err      error // of AppendFile
}

func (w *workspace) Running() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}

func (w *workspace) setRunning(v bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = v
}

func (w *workspace) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *workspace) AppendFile(_ context.Context, name string, data []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if w.files == nil {
		w.files = make(map[string][]byte)
	}
	w.files[name] = append(w.files[name], data...)
	return nil
}

func (w *workspace) ExcludeFromSnapshots(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.excluded = append(w.excluded, name)
	return nil
}

func (w *workspace) file(name string) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]byte(nil), w.files[name]...)
}

// collector keeps the records that it gets.
type collector struct {
	mu      sync.Mutex
	records []event.Record
}

func (c *collector) sink(d event.Delivery) event.Sink {
	return event.Callback(func(_ context.Context, r event.Record, _ event.Workspace) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.records = append(c.records, r)
		return nil
	}, d)
}

func (c *collector) all() []event.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]event.Record(nil), c.records...)
}

func newRecorder(t *testing.T, c event.Config) *event.Recorder {
	t.Helper()
	if c.SessionID == "" {
		c.SessionID = sessionID
	}
	rec, err := event.NewRecorder(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Bind(&workspace{running: true}); err != nil {
		t.Fatal(err)
	}
	return rec
}

// op runs an operation that returns err.
func op(t *testing.T, rec *event.Recorder, o event.Op, res event.Result, err error, data ...event.Field) error {
	t.Helper()
	span, startErr := rec.Start(t.Context(), o, data...)
	if startErr != nil {
		return startErr
	}
	return span.Finish(t.Context(), res, err)
}

// seqs returns the numbers of the records in a file of lines.
func seqs(t *testing.T, lines []byte) []uint64 {
	t.Helper()
	var out []uint64
	for _, r := range decodeAll(t, lines) {
		out = append(out, r.Seq)
	}
	return out
}

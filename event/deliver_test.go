package event_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
)

// Each mode and error policy with a sink that works and one that does not, alone
// and in a chain (EV-046 to EV-081). Whether an operation waits is seen without
// clocks: the sink blocks until the operation returned or can go no further.
func TestDelivery(t *testing.T) {
	for _, mode := range []event.Mode{event.Sync, event.Async, event.BestEffort} {
		for _, onError := range []event.OnError{event.Raise, event.Log, event.Ignore} {
			for _, fails := range []bool{false, true} {
				for _, chained := range []bool{false, true} {
					waits := chained || mode == event.Sync
					raises := fails && onError == event.Raise && mode != event.BestEffort
					name := string(mode) + " " + string(onError)
					if fails {
						name += " failing"
					}
					if chained {
						name += " chained"
					}
					t.Run(name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							d := delivery(t, event.Delivery{Mode: mode, OnError: onError}, fails, chained)
							if d.waited != waits {
								t.Errorf("the operation waited: %v, want %v", d.waited, waits)
							}
							if got := errors.Is(d.emit, fault.EventSinkError) && errors.Is(d.emit, errSink); got != (raises && waits) {
								t.Errorf("Emit = %v, want an error: %v", d.emit, raises && waits)
							}
							if got := errors.Is(d.close, fault.EventSinkError) && errors.Is(d.close, errSink); got != (raises && !waits) {
								t.Errorf("Close = %v, want an error: %v", d.close, raises && !waits)
							}
							if want := fails && onError == event.Log; d.logged != want {
								t.Errorf("logged: %v, want %v", d.logged, want)
							}
						})
					})
				}
			}
		}
	}
}

type delivered struct {
	waited, logged bool
	emit, close    error
}

// delivery emits one record; it must run in a synctest bubble.
func delivery(t *testing.T, how event.Delivery, fails, chained bool) delivered {
	var log bytes.Buffer
	release := make(chan struct{})
	sink := event.Callback(func(context.Context, event.Record, event.Workspace) error {
		<-release
		if fails {
			return errSink
		}
		return nil
	}, how)
	if chained {
		sink = event.Chain(sink)
	}
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{sink}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var d delivered
	returned := make(chan error, 1)
	go func() {
		_, err := rec.Start(t.Context(), event.OpRead)
		returned <- err
	}()
	synctest.Wait()
	d.waited = len(returned) == 0
	close(release)
	d.emit = <-returned
	if err := rec.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.close = rec.Close(t.Context())
	d.logged = log.Len() > 0
	return d
}

func TestChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		sink := func(name string, d event.Delivery, err error) event.Sink {
			return event.Callback(func(context.Context, event.Record, event.Workspace) error {
				synctest.Wait() // let everybody else go as far as they can
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
				return err
			}, d)
		}
		rec := newRecorder(t, event.Config{Sinks: []event.Sink{
			event.Chain(
				sink("slow", event.Delivery{Mode: event.BestEffort}, nil),
				event.Chain(sink("ignored", event.Delivery{OnError: event.Ignore}, errSink)),
				sink("raises", event.Delivery{}, errSink),
				sink("never", event.Delivery{}, nil),
			),
			event.Chain(sink("other chain", event.Delivery{}, nil)),
			sink("alone", event.Delivery{}, nil),
		}})
		err := rec.Emit(t.Context(), &event.Record{Op: event.OpRead, Phase: event.PhaseStart}, nil)
		if !errors.Is(err, fault.EventSinkError) || !errors.Is(err, errSink) {
			t.Errorf("Emit = %v, want event_sink_error around the cause", err)
		}
		if want := []string{"slow", "ignored", "raises", "other chain", "alone"}; !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
	})
}

func TestQueueKeepsOrder(t *testing.T) {
	var got collector
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{got.sink(event.Delivery{Mode: event.Async})}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if err := op(t, rec, event.OpList, event.Result{}, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := rec.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	records := got.all()
	if len(records) != 1600 {
		t.Fatalf("%d records, want 1600", len(records))
	}
	for i, r := range records {
		if r.Seq != uint64(i)+1 {
			t.Fatalf("record %d has number %d", i, r.Seq)
		}
	}
}

// A queue that is full loses records; that is told, and the numbers show the gap.
func TestQueueFull(t *testing.T) {
	var log bytes.Buffer
	gate := make(chan struct{})
	entered := make(chan struct{}, 1)
	var seen []uint64
	slow := event.Callback(func(_ context.Context, r event.Record, _ event.Workspace) error {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-gate
		seen = append(seen, r.Seq)
		return nil
	}, event.Delivery{Mode: event.Async, OnError: event.Raise})
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{slow}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	emit := func() {
		if err := rec.Emit(t.Context(), &event.Record{Op: event.OpRead, Phase: event.PhaseStart}, nil); err != nil {
			t.Fatal(err)
		}
	}
	emit()
	<-entered // the first one is out of the queue now
	const limit, more = 8192, 10
	for range limit + more {
		emit()
	}
	close(gate)
	err := rec.Close(t.Context())
	if !errors.Is(err, fault.EventSinkError) {
		t.Errorf("Close = %v, want event_sink_error for the lost records", err)
	}
	if len(seen) != 1+limit || rec.Seq() != 1+limit+more {
		t.Errorf("%d records delivered of %d, want %d lost", len(seen), rec.Seq(), more)
	}
}

func TestCloseCancelsWhatWaits(t *testing.T) {
	entered := make(chan struct{})
	var once sync.Once
	hangs := event.Callback(func(ctx context.Context, _ event.Record, _ event.Workspace) error {
		once.Do(func() { close(entered) })
		<-ctx.Done()
		return ctx.Err()
	}, event.Delivery{Mode: event.Async, OnError: event.Raise})
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{hangs}})
	span, err := rec.Start(t.Context(), event.OpRead)
	if err != nil {
		t.Fatal(err)
	}
	if err := span.Finish(t.Context(), event.Result{}, nil); err != nil {
		t.Fatal(err)
	}
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rec.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Flush = %v, want the context's error", err)
	}
	if err := rec.Close(ctx); !errors.Is(err, fault.EventSinkError) || !errors.Is(err, context.Canceled) {
		t.Errorf("Close = %v, want event_sink_error around the cancellation", err)
	}
	if err := rec.Close(t.Context()); err != nil {
		t.Errorf("second Close = %v", err)
	}
	if _, err := rec.Start(t.Context(), event.OpRead); !errors.Is(err, fault.NotAvailable) {
		t.Errorf("Start after Close = %v, want not_available", err)
	}
}

func TestCallbackNeedsASession(t *testing.T) {
	var got collector
	rec, err := event.NewRecorder(event.Config{SessionID: sessionID, Sinks: []event.Sink{got.sink(event.Delivery{})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rec.Start(t.Context(), event.OpRead); !errors.Is(err, fault.EventSinkError) {
		t.Errorf("Start before Bind = %v, want event_sink_error (EV-103)", err)
	}
}

func TestCallbackOwnsItsRecord(t *testing.T) {
	var second event.Record
	argv := []string{"ls", "-l"}
	rec := newRecorder(t, event.Config{Policy: event.Policy{IncludeExecOutput: new(true)}, Sinks: []event.Sink{
		event.Callback(func(_ context.Context, r event.Record, _ event.Workspace) error {
			v, _ := r.Data.Get("command")
			v.Any().([]string)[0] = "rm"
			r.Data[0] = event.Null("gone")
			if r.Stdout != nil {
				*r.Stdout = "forged"
			}
			return nil
		}, event.Delivery{}),
		event.Callback(func(_ context.Context, r event.Record, _ event.Workspace) error { second = r; return nil }, event.Delivery{}),
	}})
	res := event.Result{Output: &event.Output{Stdout: []byte("out")}}
	if err := op(t, rec, event.OpExec, res, nil, event.Strings("command", argv)); err != nil {
		t.Fatal(err)
	}
	v, _ := second.Data.Get("command")
	if cmd, ok := v.Any().([]string); !ok || cmd[0] != "ls" || argv[0] != "ls" || *second.Stdout != "out" {
		t.Errorf("the second sink's record = %+v, the caller's list %v", second, argv)
	}
}

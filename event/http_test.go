package event_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
)

func TestHTTP(t *testing.T) {
	var mu sync.Mutex
	var got [][]byte
	var header http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/in" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		got, header = append(got, body), r.Header
	}))
	defer srv.Close()
	token := []string{"Bearer one"}
	h := http.Header{"authorization": token}
	sink := event.HTTP(srv.URL+"/in", event.HTTPOptions{Header: h})
	token[0] = "Bearer two" // copied at construction (EV-107)
	if d := sink.Delivery(); d.Mode != event.BestEffort || d.OnError != event.Log {
		t.Errorf("Delivery = %+v", d)
	}
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{sink}})
	for range 5 {
		if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := rec.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	var numbers []uint64
	for _, body := range got {
		r, err := event.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, r.Seq)
	}
	if !slices.Equal(numbers, upTo(10)) {
		t.Errorf("posted records = %v", numbers)
	}
	if header.Get("Content-Type") != "application/json" || header.Get("Authorization") != "Bearer one" {
		t.Errorf("header = %v", header)
	}
}

func TestHTTPFailure(t *testing.T) {
	var redirected bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case "/elsewhere":
			redirected = true
		default:
			http.Error(w, "no", http.StatusInternalServerError)
		}
	}))
	defer srv.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, tt := range []struct {
		name, url, spool string
		lines            int
	}{
		{name: "the server refuses", url: srv.URL + "/?token=geheim", spool: "s.jsonl", lines: 2},
		{name: "no server", url: gone.URL + "/?token=geheim", spool: "new/s.jsonl", lines: 2},
		{name: "a redirect is not followed", url: srv.URL + "/moved?token=geheim", spool: "s.jsonl", lines: 2},
		{name: "no spool", url: srv.URL + "/?token=geheim"},
		{name: "a spool that cannot be written", url: srv.URL + "/?token=geheim", spool: "."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			o := event.HTTPOptions{Delivery: event.Delivery{Mode: event.Async, OnError: event.Raise}}
			if tt.spool != "" {
				o.SpoolPath = filepath.Join(dir, tt.spool)
			}
			rec := newRecorder(t, event.Config{Sinks: []event.Sink{event.HTTP(tt.url, o)}})
			if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
				t.Fatal(err)
			}
			err := rec.Close(t.Context())
			if !errors.Is(err, fault.EventSinkError) {
				t.Errorf("Close = %v, want event_sink_error", err)
			}
			if text := fmt.Sprint(err); strings.Contains(text, "geheim") {
				t.Errorf("the error tells the URL: %v", err)
			}
			if tt.lines > 0 {
				if got := seqs(t, readFile(t, o.SpoolPath)); !slices.Equal(got, upTo(uint64(tt.lines))) {
					t.Errorf("spooled = %v", got)
				}
			}
		})
	}
	if redirected {
		t.Error("a redirect was followed")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestHTTPTimeout(t *testing.T) {
	for _, tt := range []struct {
		name      string
		set, want time.Duration
	}{
		{"five seconds by default (EV-107)", 0, 5 * time.Second},
		{"as asked", time.Minute, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hangs := roundTrip(func(r *http.Request) (*http.Response, error) {
					<-r.Context().Done()
					return nil, context.Cause(r.Context())
				})
				rec := newRecorder(t, event.Config{Sinks: []event.Sink{event.HTTP("https://example.invalid/", event.HTTPOptions{
					Delivery: event.Delivery{Mode: event.Sync, OnError: event.Raise}, Timeout: tt.set, Transport: hangs})}})
				begun := time.Now() // of the bubble's clock, which only waiting moves
				err := rec.Emit(t.Context(), &event.Record{Op: event.OpRead, Phase: event.PhaseStart}, nil)
				if !errors.Is(err, fault.EventSinkError) {
					t.Errorf("Emit = %v", err)
				}
				if got := time.Since(begun); got != tt.want {
					t.Errorf("the post was given %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// Close with a context that has ended does not wait for a server that hangs; the
// records go to the spool.
func TestHTTPCloseSpools(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.jsonl")
	posting := make(chan struct{}, 10)
	hangs := roundTrip(func(r *http.Request) (*http.Response, error) {
		posting <- struct{}{}
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	})
	rec := newRecorder(t, event.Config{Sinks: []event.Sink{event.HTTP("https://example.invalid/", event.HTTPOptions{
		SpoolPath: path, Timeout: time.Hour, Transport: hangs})}})
	for range 2 {
		if err := op(t, rec, event.OpRead, event.Result{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	<-posting
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := rec.Close(ctx); err != nil {
		t.Errorf("Close = %v; a best-effort sink makes no errors", err)
	}
	if got := seqs(t, readFile(t, path)); !slices.Equal(got, upTo(4)) {
		t.Errorf("spooled = %v", got)
	}
}

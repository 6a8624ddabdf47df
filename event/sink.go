package event

import (
	"context"

	"github.com/croftdev/croft/internal/fault"
)

// Sink is a place that records go to: made by [File], [Callback], [HTTP],
// [InWorkspace] or [Chain].
//
// A Sink is a plain description and holds nothing open: one may serve many
// sessions at once. Each [Recorder] opens its own from it.
type Sink interface {
	// Delivery returns how records are handed over, with the defaults of the
	// sink's kind filled in.
	Delivery() Delivery

	// open makes the place ready for one recorder, without touching anything
	// outside the process; flat, since a chain is several.
	open(r *Recorder) ([]*outlet, error)
}

// Mode says whether an operation waits for the delivery of its records.
type Mode string

const (
	// Sync hands the record over before the operation goes on.
	Sync Mode = "sync"
	// Async never delays nor fails the operation. Records wait in memory, in
	// order. What fails under [Raise] is reported by [Recorder.Close].
	Async Mode = "async"
	// BestEffort is like Async, and its failures never become errors: they are
	// logged, or ignored.
	BestEffort Mode = "best_effort"
)

// OnError says what a failed delivery does.
type OnError string

const (
	// Raise makes it an error of the operation: a failed start record keeps the
	// operation from running, a failed finish record turns a done operation into
	// an error. What cannot reach the operation any more: see [Mode].
	Raise OnError = "raise"
	// Log writes it to the recorder's logger.
	Log OnError = "log"
	// Ignore does nothing.
	Ignore OnError = "ignore"
)

// Delivery is what all kinds of sinks have in common.
type Delivery struct {
	// Name stands in errors and logs; the sink's kind, if empty.
	Name string
	// Mode is by default [Sync] for a callback and [BestEffort] for all others.
	Mode Mode
	// OnError is by default [Raise] for a callback and [Log] for all others.
	OnError OnError
	// Policy is laid over the recorder's.
	Policy Policy
}

// or returns d with its empty fields taken from the arguments.
func (d Delivery) or(name string, m Mode, e OnError) Delivery {
	if d.Name == "" {
		d.Name = name
	}
	if d.Mode == "" {
		d.Mode = m
	}
	if d.OnError == "" {
		d.OnError = e
	}
	return d
}

func (d Delivery) check() error {
	switch d.Mode {
	case Sync, Async, BestEffort:
	default:
		return invalid("unknown mode of an event sink: " + string(d.Mode))
	}
	switch d.OnError {
	case Raise, Log, Ignore:
	default:
		return invalid("unknown error policy of an event sink: " + string(d.OnError))
	}
	return d.Policy.check()
}

// Workspace is what a sink may do with the session whose records it gets. The
// session implements it. Nothing done through it leaves a record, else each
// record would cause another.
type Workspace interface {
	// Running reports whether the workspace's files can be written now.
	Running() bool
	// AppendFile adds data at the end of the named file; it makes the file and
	// the directories above it where they are missing.
	AppendFile(ctx context.Context, name string, data []byte) error
	// ExcludeFromSnapshots keeps the named file out of every later snapshot.
	ExcludeFromSnapshots(name string) error
}

// Chain is a sink that hands each record to its sinks one after another. It
// waits for each, whatever that one's mode is; one that fails and raises ends
// the chain for this record (case EV-082).
func Chain(sinks ...Sink) Sink { return chain(append([]Sink(nil), sinks...)) }

type chain []Sink

func (chain) Delivery() Delivery { return Delivery{Name: "chain", Mode: Sync, OnError: Raise} }

func (c chain) open(r *Recorder) ([]*outlet, error) {
	if r.chain == 0 { // a chain in a chain is part of it
		r.chains++
		r.chain = r.chains
		defer func() { r.chain = 0 }()
	}
	var all []*outlet
	for _, s := range c {
		if s == nil {
			return nil, invalid("an event sink is nil")
		}
		outlets, err := s.open(r)
		if err != nil {
			return nil, err
		}
		all = append(all, outlets...)
	}
	return all, nil
}

func invalid(message string) error {
	return &fault.Error{Code: fault.InvalidArgument, Message: message, Retry: fault.RetryNo}
}

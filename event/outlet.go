package event

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/croftdev/croft/internal/fault"
)

// destination is where the records of one recorder end up.
type destination interface {
	// handle delivers one record. Unless buffers, it is done when handle returns.
	// It must not keep r.
	handle(ctx context.Context, r *Record) error
	// close empties and closes the destination.
	close(ctx context.Context) error
}

// outlet is a destination with the rules of the sink that it was opened from.
type outlet struct {
	Delivery
	recorder *Recorder
	dest     destination
	// chain is not 0 if the sink is part of a chain; equal in all sinks of that chain.
	chain int
	// queue is nil if the operation waits for the delivery.
	queue backlog
	// base and byOp are the policy, decided for every operation.
	base effective
	byOp map[Op]effective

	mu     sync.Mutex
	failed error // the first failure that close must report
	more   int   // how many followed it
}

// backlog holds records that no operation waits for.
type backlog interface {
	// put takes a record. It does not keep r, nor wait for a delivery.
	put(r *Record)
	// drain waits until what was put before has been handed over, or ctx ends.
	drain(ctx context.Context) error
	// close drains it for good; when ctx ends first it cancels what it waits for.
	// The error tells of records that were lost.
	close(ctx context.Context) error
}

// newOutlet checks d, which must have its defaults filled in. A destination that
// is a backlog itself queues its own records.
func newOutlet(r *Recorder, d Delivery, dest destination) (*outlet, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	o := &outlet{Delivery: d, recorder: r, dest: dest, base: r.base.over(d.Policy)}
	if len(r.byOp) > 0 {
		o.byOp = make(map[Op]effective, len(r.byOp))
		for op, e := range r.byOp {
			o.byOp[op] = e.over(d.Policy)
		}
	}
	if d.Mode == Sync || r.chain != 0 {
		o.chain = r.chain
		return o, nil
	}
	if b, ok := dest.(backlog); ok {
		o.queue = b
	} else {
		o.queue = newQueue(o)
	}
	return o, nil
}

// outletOf is newOutlet for a sink that is just one.
func outletOf(r *Recorder, d Delivery, dest destination) ([]*outlet, error) {
	o, err := newOutlet(r, d, dest)
	if err != nil {
		return nil, err
	}
	return []*outlet{o}, nil
}

func (o *outlet) policy(op Op) effective {
	if e, ok := o.byOp[op]; ok {
		return e
	}
	return o.base
}

// deliver hands r over and waits. The error is what the operation must return.
func (o *outlet) deliver(ctx context.Context, r *Record) error {
	if err := o.dest.handle(ctx, r); err != nil {
		return o.report(r, err)
	}
	return nil
}

// report deals with a failed delivery by the sink's policy, and returns an error
// only where an operation that waits must fail. r may be nil.
func (o *outlet) report(r *Record, cause error) error {
	switch {
	case o.OnError == Log:
		attrs := []slog.Attr{slog.String("sink", o.Name), slog.String("session", o.recorder.sessionID)}
		if r != nil {
			attrs = append(attrs, slog.String("event", r.EventID.String()), slog.String("op", string(r.Op)))
		}
		o.recorder.logger.LogAttrs(context.Background(), slog.LevelError, "event sink failed",
			append(attrs, slog.Any("error", cause))...)
	case o.OnError == Raise && o.Mode != BestEffort:
		err := &fault.Error{Code: fault.EventSinkError, Message: "event sink " + o.Name + " failed",
			Details: map[string]any{"sink": o.Name}, Err: cause}
		if o.queue == nil {
			return err
		}
		o.keep(err)
	}
	return nil
}

// keep saves err for close.
func (o *outlet) keep(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil {
		o.failed = err
	} else {
		o.more++
	}
}

// closing reports what went wrong at the end.
func (o *outlet) closing(err error) {
	if err == nil {
		return
	}
	if err := o.report(nil, err); err != nil {
		o.keep(err)
	}
}

// close empties the queue and the destination, and returns what must be told.
func (o *outlet) close(ctx context.Context) error {
	if o.queue != nil {
		o.closing(o.queue.close(ctx))
	}
	o.closing(o.dest.close(ctx))
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more > 0 {
		return fmt.Errorf("%w (and %d more failures of this sink)", o.failed, o.more)
	}
	return o.failed
}

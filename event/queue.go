package event

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// queueLimit is how many records wait for one sink at most. A sink that falls
// behind further loses records, and says so: the alternatives are operations that
// wait for a dead server, or memory without end.
const queueLimit = 8192

// errQueueFull is the cause of a loss that is reported when a queue is full.
var errQueueFull = errors.New("the queue of event records is full; records are lost until it is not")

// queue hands records to an outlet's destination in order, from one goroutine
// that lives while there are any.
type queue struct {
	outlet *outlet
	ctx    context.Context // of the deliveries, not of an operation: those do not wait
	cancel context.CancelFunc

	mu      sync.Mutex
	waiting []*Record
	running bool
	taken   uint64 // records taken so far
	done    uint64 // records handed over so far
	lost    uint64
	drains  []drain
}

// drain is closed once so many records have been handed over.
type drain struct {
	at uint64
	ch chan struct{}
}

func newQueue(o *outlet) *queue {
	ctx, cancel := context.WithCancel(context.Background())
	return &queue{outlet: o, ctx: ctx, cancel: cancel}
}

func (q *queue) put(r *Record) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= queueLimit {
		q.lost++
		if q.lost == 1 {
			_ = q.outlet.report(r, errQueueFull) // kept for close, where it must be told
		}
		return
	}
	q.waiting = append(q.waiting, r.clone())
	q.taken++
	if !q.running {
		q.running = true
		go q.run()
	}
}

// run delivers until nothing waits. close waits for it by drain.
func (q *queue) run() {
	for {
		q.mu.Lock()
		if len(q.waiting) == 0 {
			q.waiting = nil
			q.running = false
			q.mu.Unlock()
			return
		}
		batch := q.waiting
		q.waiting = nil
		q.mu.Unlock()
		for _, r := range batch {
			_ = q.outlet.deliver(q.ctx, r) // as above
			q.handed()
		}
	}
}

// handed counts one record and wakes those who waited for it.
func (q *queue) handed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done++
	keep := q.drains[:0]
	for _, d := range q.drains {
		if d.at <= q.done {
			close(d.ch)
		} else {
			keep = append(keep, d)
		}
	}
	q.drains = keep
}

// reached returns a channel that is closed once all records taken so far have
// been handed over.
func (q *queue) reached() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	ch := make(chan struct{})
	if q.done == q.taken {
		close(ch)
	} else {
		q.drains = append(q.drains, drain{q.taken, ch})
	}
	return ch
}

func (q *queue) drain(ctx context.Context) error {
	select {
	case <-q.reached():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (q *queue) close(ctx context.Context) error {
	if q.drain(ctx) != nil {
		q.cancel() // what waits for a server now fails, and is reported or spooled
		<-q.reached()
	}
	q.cancel()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost > 0 {
		return fmt.Errorf("%d event records were lost: the queue was full", q.lost)
	}
	return nil
}

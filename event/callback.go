package event

import (
	"context"
	"errors"
	"sync"
)

// errUnbound is the cause of a callback sink's failure before [Recorder.Bind].
var errUnbound = errors.New("a callback sink needs a session to belong to")

// CallbackFunc is called with each record. The record is the callback's own copy,
// w is the session's workspace;
// what is done through it leaves no records.
//
// Operations that run at once call it at once under [Sync]. It must not call the
// session's own operations: each would call it again. It must return when ctx ends.
type CallbackFunc func(ctx context.Context, r Record, w Workspace) error

// Callback is a sink that calls f, by default in the operation and so that an
// error of f fails the operation ([Sync], [Raise]).
func Callback(f CallbackFunc, d Delivery) Sink { return callback{f, d} }

type callback struct {
	f CallbackFunc
	d Delivery
}

func (c callback) Delivery() Delivery { return c.d.or("callback", Sync, Raise) }

func (c callback) open(r *Recorder) ([]*outlet, error) {
	if c.f == nil {
		return nil, invalid("the function of a callback sink is nil")
	}
	return outletOf(r, c.Delivery(), &callbackDest{f: c.f})
}

type callbackDest struct {
	f CallbackFunc

	mu sync.Mutex
	w  Workspace
}

func (c *callbackDest) bind(w Workspace) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.w = w
	return nil
}

func (c *callbackDest) handle(ctx context.Context, r *Record) error {
	c.mu.Lock()
	w := c.w
	c.mu.Unlock()
	if w == nil {
		return errUnbound
	}
	return c.f(ctx, *r.clone(), w)
}

func (c *callbackDest) close(context.Context) error { return nil }

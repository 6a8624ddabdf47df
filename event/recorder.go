package event

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/croftdev/croft/internal/fault"
)

// Config describes a [Recorder]. The zero value but for SessionID makes one that
// counts records and hands them to nobody.
type Config struct {
	// SessionID is the session's id, in the text form of a UUID.
	SessionID string
	// Sinks get every record, in this order.
	Sinks []Sink
	// Policy is laid over the defaults, PolicyByOp over that for one operation,
	// and the sink's own policy over both.
	Policy     Policy
	PolicyByOp map[Op]Policy
	// LastSeq is the number of the session's last record so far; a session that
	// is resumed goes on counting from there. See [LastSeq].
	LastSeq uint64
	// Logger gets the failures of sinks whose policy is [Log]; nil is silent.
	Logger *slog.Logger
}

// Recorder makes a session's records and hands them to its sinks. All methods
// may be called at once. Close it.
type Recorder struct {
	sessionID string
	base      effective
	byOp      map[Op]effective
	logger    *slog.Logger
	outlets   []*outlet
	// chain and chains are used while the sinks are opened: the number of the
	// chain that is being opened, and of the last one.
	chain, chains int

	mu     sync.Mutex
	seq    uint64
	closed bool
	ids    idSource
	// active counts the calls of Emit under way, so that Close can wait for them.
	active sync.WaitGroup
}

// Output is what a command wrote, be it nothing. A record gets of it what the
// policy allows.
type Output struct {
	Stdout, Stderr []byte
}

// NewRecorder checks c and returns a recorder. It opens no file and makes no
// connection: what a sink cannot do shows at the first record, by that sink's
// policies. Its errors are [fault.InvalidArgument].
func NewRecorder(c Config) (*Recorder, error) {
	r := &Recorder{
		sessionID: c.SessionID,
		base:      defaultPolicy().over(c.Policy),
		logger:    c.Logger,
		seq:       c.LastSeq,
	}
	if r.logger == nil {
		r.logger = slog.New(slog.DiscardHandler)
	}
	if err := c.Policy.check(); err != nil {
		return nil, err
	}
	if len(c.PolicyByOp) > 0 {
		r.byOp = make(map[Op]effective, len(c.PolicyByOp))
		for op, p := range maps.All(c.PolicyByOp) {
			if err := p.check(); err != nil {
				return nil, err
			}
			if !op.known() {
				return nil, invalid("an event policy names an unknown operation: " + string(op))
			}
			r.byOp[op] = r.base.over(p)
		}
	}
	for _, s := range c.Sinks {
		if s == nil {
			return nil, invalid("an event sink is nil")
		}
		outlets, err := s.open(r)
		if err != nil {
			return nil, err
		}
		r.outlets = append(r.outlets, outlets...)
	}
	return r, nil
}

// Bind gives the sinks the workspace that they belong to. Call it before the
// first record: until then a callback sink fails, and a sink in the workspace
// takes no records. An error comes from [Workspace.ExcludeFromSnapshots].
func (r *Recorder) Bind(w Workspace) error {
	var errs []error
	for _, o := range r.outlets {
		if b, ok := o.dest.(interface{ bind(w Workspace) error }); ok {
			errs = append(errs, b.bind(w))
		}
	}
	return errors.Join(errs...)
}

// Seq returns the number of the last record that was made.
func (r *Recorder) Seq() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seq
}

// Emit hands one record to every sink. [Recorder.Start] and [Span.Finish] call
// it; a program with records of its own may too. Empty fields of rec (Version,
// EventID, Time, SessionID, Seq) are filled in; of out, which is nil for what is no
// command, each sink's record gets what that sink's policy allows. rec and what it points to are no longer used
// once Emit has returned.
//
// The error, if any, is [fault.EventSinkError]: a sink that is waited for failed
// and raises. The other sinks got the record all the same, except those behind it
// in its chain. After [Recorder.Close] the error is [fault.NotAvailable].
func (r *Recorder) Emit(ctx context.Context, rec *Record, out *Output) error {
	if len(r.outlets) == 0 {
		return r.count(rec)
	}
	if err := r.stamp(rec, out); err != nil {
		return err
	}
	defer r.active.Done()
	var errs []error
	broken := 0 // number of the chain that has ended for this record
	for _, o := range r.outlets {
		if o.queue != nil || o.chain != 0 && o.chain == broken {
			continue
		}
		if err := o.deliver(ctx, o.policy(rec.Op).apply(rec, out)); err != nil {
			errs = append(errs, err)
			broken = o.chain
		}
	}
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	default:
		return &fault.Error{Code: fault.EventSinkError, Message: "event sinks failed", Err: errors.Join(errs...)}
	}
}

// count is Emit without sinks: the number alone is kept.
func (r *Recorder) count(rec *Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed()
	}
	if rec.Seq == 0 {
		r.seq++
		rec.Seq = r.seq
	}
	return nil
}

// stamp fills in rec and puts it in the queue of each sink that is not waited
// for. It holds the lock over both, so that a queue's order is that of the numbers.
// Unless it fails, r.active has gone up by one.
func (r *Recorder) stamp(rec *Record, out *Output) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errClosed()
	}
	if rec.Seq == 0 {
		r.seq++
		rec.Seq = r.seq
	}
	if rec.Version == 0 {
		rec.Version = Version
	}
	if rec.SessionID == "" {
		rec.SessionID = r.sessionID
	}
	if rec.Time.IsZero() {
		rec.Time = time.Now().Truncate(time.Microsecond)
	}
	if rec.EventID == zeroID {
		rec.EventID = r.ids.event()
	}
	for _, o := range r.outlets {
		if o.queue != nil {
			o.queue.put(o.policy(rec.Op).apply(rec, out))
		}
	}
	r.active.Add(1)
	return nil
}

// Flush waits until every record made before has been handed to its sink, or
// ctx ends. It does not empty what a sink itself holds back
// ([WorkspaceOptions.FlushEvery]); its only errors are those of ctx.
func (r *Recorder) Flush(ctx context.Context) error {
	for _, o := range r.outlets {
		if o.queue != nil {
			if err := o.queue.drain(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close waits for the deliveries under way, empties every sink and closes it. No
// goroutine of the recorder runs when it returns.
//
// When ctx ends first, deliveries that wait for something outside (a server, a
// callback) are cancelled and fail; records for files are still written. A
// callback that does not heed its context holds Close up.
//
// The error, if any, is [fault.EventSinkError] and tells what has failed under
// [Async] and [Raise] since the recorder was made, and records that were lost
// because a queue was full. A second Close does nothing.
func (r *Recorder) Close(ctx context.Context) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.mu.Unlock()
	r.active.Wait()
	var errs []error
	for _, o := range r.outlets {
		errs = append(errs, o.close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return &fault.Error{Code: fault.EventSinkError, Op: string(OpClose),
			Message: "some event records were not delivered", Retry: fault.RetryNo, Err: err}
	}
	return nil
}

func errClosed() error {
	return &fault.Error{Code: fault.NotAvailable, Message: "the session's event recorder is closed", Retry: fault.RetryNo}
}

package process

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// killWait is how long a SIGKILL may take to show. Only a process in
// uninterruptible sleep, or a spawner that is stuck, takes longer.
const killWait = 10 * time.Second

// ending is how a started command came to its end.
type ending struct {
	status   Status
	sent     []string // names of the signals that croft sent
	stopped  bool     // the context ended it
	duration time.Duration
	reason   string // with err: the reason of the transport error
	message  string
	err      error
}

// wait waits for the child to end, and ends it when ctx does. drained returns when
// the command's output has ended, or its context has.
func wait(ctx context.Context, child Child, c *Command, drained func(context.Context)) ending {
	status, err := child.Wait(ctx)
	switch {
	case err == nil:
		return ending{status: status}
	case ctx.Err() == nil:
		// The spawner was lost. What it left is ended as far as it can be reached.
		kerr := child.Kill()
		return ending{
			reason: "lost", message: "the command's end could not be learned, since its session ended first",
			err: errors.Join(err, kerr),
		}
	}
	e := ending{stopped: true}
	e.stop(context.WithoutCancel(ctx), child, c, drained)
	return e
}

// stop ends the child: SIGTERM, grace, SIGKILL. SIGKILL is sent in any case, since
// the end of the command's own process says nothing of its descendants.
func (e *ending) stop(ctx context.Context, child Child, c *Command, drained func(context.Context)) {
	grace := c.KillGrace
	if grace == 0 {
		grace = DefaultKillGrace
	}
	ended := false
	if grace > 0 && child.Signal(syscall.SIGTERM) == nil {
		e.sent = append(e.sent, "SIGTERM")
		graceCtx, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		if status, err := child.Wait(graceCtx); err == nil {
			e.status, ended = status, true
			// Its children got the SIGTERM too and may still be putting things in order.
			// While they do, they hold the pipes.
			drained(graceCtx)
		}
	}
	kerr := child.Kill()
	if ended {
		return
	}
	e.sent = append(e.sent, "SIGKILL")
	killCtx, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	status, err := child.Wait(killCtx)
	switch {
	case err == nil:
		e.status = status
	case errors.Is(err, context.DeadlineExceeded):
		e.reason, e.message = "not_ended", "the command has not ended after SIGKILL; it may still run"
		e.err = errors.Join(err, kerr)
	default:
		e.reason, e.message = "lost", "the command was ended, but its end could not be learned"
		e.err = errors.Join(err, kerr)
	}
}

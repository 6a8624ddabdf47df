package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// output reads one stream of a command from a pipe into a capture and, while
// that does not fail, into a live writer.
type output struct {
	name string
	pipe *os.File // croft's end
	kept *capture
	live io.Writer // nil: none
	err  error     // the first failure of pipe or live; valid after done is closed
	done chan struct{}
}

// newOutput makes the pipe and returns its other end, which is the command's.
func newOutput(name string, live io.Writer, limit int64) (*output, *os.File, error) {
	ours, theirs, err := pipe(false)
	if err != nil {
		return nil, nil, err
	}
	return &output{name: name, pipe: ours, kept: newCapture(limit), live: live, done: make(chan struct{})}, theirs, nil
}

// start begins to read, in a goroutine that wg waits for.
func (o *output) start(wg *sync.WaitGroup) {
	wg.Go(func() {
		defer close(o.done)
		buf := make([]byte, 64<<10)
		for {
			n, err := o.pipe.Read(buf)
			if n > 0 {
				_, _ = o.Write(buf[:n])
			}
			switch {
			case err == nil:
			case errors.Is(err, io.EOF), errors.Is(err, unix.EIO):
				// EIO is how a terminal says that nobody has its other end any more (pty(7)
				// gives it to the master); a pipe never does.
				return
			case errors.Is(err, os.ErrDeadlineExceeded):
				// The grace is over and something else still holds the pipe. What lies
				// in it was perhaps written before the command ended, while a slow
				// live writer held this loop up: it is kept.
				if err := o.pipe.SetReadDeadline(time.Time{}); err == nil {
					err = drainNow(o.pipe, buf, o)
					o.fail("read", err)
				}
				return
			default:
				o.fail("read", err)
				return
			}
		}
	})
}

// Write keeps p and passes it on. It never fails: a command is not held up or
// killed because its audience has left.
func (o *output) Write(p []byte) (int, error) {
	_, _ = o.kept.Write(p)
	if o.live != nil {
		if _, err := o.live.Write(p); err != nil {
			o.live = nil
			o.fail("pass on", err)
		}
	}
	return len(p), nil
}

func (o *output) fail(step string, err error) {
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("%s %s: %w", step, o.name, err)
	}
}

// endAt makes the reader stop at t even if the pipe is still held open.
func (o *output) endAt(t time.Time) { _ = o.pipe.SetReadDeadline(t) }

func (o *output) close() { _ = o.pipe.Close() }

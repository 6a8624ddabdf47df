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

// input feeds a reader to a command through a pipe.
type input struct {
	from io.Reader
	pipe *os.File // croft's end
	done chan struct{}

	mu    sync.Mutex
	ended bool  // the command needs no more input: what fails from here on is no failure
	err   error // the reader's own failure
}

// newInput makes the pipe and returns its other end, which is the command's.
func newInput(from io.Reader) (*input, *os.File, error) {
	ours, theirs, err := pipe(true)
	if err != nil {
		return nil, nil, err
	}
	return &input{from: from, pipe: ours, done: make(chan struct{})}, theirs, nil
}

// start begins to copy, in a goroutine that wg waits for. The command sees end of
// file when the reader ends, also when it fails.
func (in *input) start(wg *sync.WaitGroup) {
	wg.Go(func() {
		defer close(in.done)
		_, err := io.Copy(in.pipe, in.from)
		_ = in.pipe.Close()
		in.mu.Lock()
		defer in.mu.Unlock()
		// EPIPE: the command closed its stdin, which is its right (`head -1`).
		if err != nil && !in.ended && !errors.Is(err, unix.EPIPE) {
			in.err = fmt.Errorf("read stdin: %w", err)
		}
	})
}

// end stops the copying after the command has ended. Closing the pipe frees a
// copy that waits to write; one that waits to read is freed by the reader's own
// deadline or Close. A reader with neither is waited for, as a goroutine that went
// on reading would take bytes that the caller's next reader should get.
func (in *input) end() {
	in.mu.Lock()
	in.ended = true
	in.mu.Unlock()
	_ = in.pipe.Close()
	select {
	case <-in.done:
		return
	default:
	}
	if d, ok := in.from.(interface{ SetReadDeadline(time.Time) error }); ok && d.SetReadDeadline(time.Unix(1, 0)) == nil {
		<-in.done
		_ = d.SetReadDeadline(time.Time{})
		return
	}
	if c, ok := in.from.(io.Closer); ok {
		_ = c.Close()
	}
	<-in.done
}

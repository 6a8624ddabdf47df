package process

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

var errNoStdin = errors.New("no stdin")

// stdin is croft's end of a command's input. The zero value has none.
type stdin struct {
	turn chan struct{} // holds one token: whose turn it is to write

	mu     sync.Mutex
	f      *os.File
	closed bool
}

func (s *stdin) open(f *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.f, s.turn = f, make(chan struct{}, 1)
}

func (s *stdin) opened() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.f != nil
}

// write writes b, alone, until ctx ends or s is closed.
func (s *stdin) write(ctx context.Context, b []byte) (int, error) {
	if !s.opened() {
		return 0, errNoStdin
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	// A deadline in the past breaks off a write that waits for room.
	broke := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		defer close(broke)
		_ = s.f.SetWriteDeadline(time.Unix(1, 0))
	})
	n, err := s.f.Write(b)
	if !unhook() {
		<-broke
		_ = s.f.SetWriteDeadline(time.Time{})
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = ctx.Err()
	}
	return n, err
}

// close closes the input; a write that waits for room ends. It may be called again.
func (s *stdin) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.f != nil && !s.closed {
		s.closed = true
		_ = s.f.Close()
	}
}

// eof is what a terminal in its usual mode takes for the end of the input, at the
// beginning of a line (termios(3), VEOF).
const eof = "\x04"

// Write writes b to the command's stdin or terminal, and waits until the command
// has room for it or ctx ends; the count says how much went in. Writes come one after the
// other. The error is fault.NotAvailable if the command takes no input (reasons
// "no_stdin", "stdin_closed", "ended"), else ctx.Err().
func (p *Process) Write(ctx context.Context, b []byte) (int, error) {
	p.use()
	n, err := p.stdin.write(ctx, b)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, errNoStdin):
		return 0, p.unavailable("no_stdin", "stdin is not available for this process", nil)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return n, err
	case p.Finished():
		return n, p.unavailable("ended", "the process has ended", err)
	case errors.Is(err, os.ErrClosed), errors.Is(err, unix.EPIPE), errors.Is(err, unix.EIO):
		return n, p.unavailable("stdin_closed", "the stdin of the process is closed", err)
	}
	return n, transport(&p.command, "stdin", "the input could not be written", err)
}

// CloseStdin ends the command's input. On a terminal that means Ctrl-D, which a command
// that reads in another mode may take for a character. The errors are those of Write.
func (p *Process) CloseStdin(ctx context.Context) error {
	if p.about.Terminal {
		_, err := p.Write(ctx, []byte(eof))
		return err
	}
	if !p.stdin.opened() {
		return p.unavailable("no_stdin", "stdin is not available for this process", nil)
	}
	p.stdin.close()
	return nil
}

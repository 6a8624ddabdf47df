package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// relay stands between a command and the files that its output was redirected to.
//
// A command may open /dev/stdout and /dev/stderr by name, as shell scripts do. The name
// leads to the file itself, which lies outside of what the command may open; a pipe can
// be opened. So output that goes to a regular file passes through a pipe, and two streams
// to one file through the same one, which keeps their order. Pipes and terminals are
// handed to the command as they are.
type relay struct {
	out, err *os.File // for the command
	pipes    []*os.File
	done     []chan error
}

// newRelay returns what a command gets as descriptors 1 and 2. The caller calls close.
func newRelay(stdout, stderr *os.File) (*relay, error) {
	r := &relay{out: stdout, err: stderr}
	outInfo, outErr := stdout.Stat()
	errInfo, errErr := stderr.Stat()
	if outErr != nil || errErr != nil {
		return r, nil //nolint:nilerr // a closed stream is told by the start of the command
	}
	if outInfo.Mode().IsRegular() {
		w, err := r.pipe(stdout)
		if err != nil {
			return nil, err
		}
		r.out = w
	}
	switch {
	case os.SameFile(outInfo, errInfo):
		r.err = r.out
	case errInfo.Mode().IsRegular():
		w, err := r.pipe(stderr)
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.err = w
	}
	return r, nil
}

// pipe returns the writing end of a pipe whose other end is copied to the file. If
// that fails the end is closed, so that the command learns of it by SIGPIPE.
func (r *relay) pipe(to *os.File) (*os.File, error) {
	from, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for the output: %w", err)
	}
	// The runtime's pipes do not block, and a command that inherits such an end gets
	// EAGAIN where it expects to wait.
	if err := syscall.SetNonblock(int(w.Fd()), false); err != nil {
		return nil, errors.Join(fmt.Errorf("make a pipe for the output: %w", err), from.Close(), w.Close())
	}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(to, from)
		done <- errors.Join(err, from.Close())
	}()
	r.pipes, r.done = append(r.pipes, w), append(r.done, done)
	return w, nil
}

// close waits until everything that was written has reached its file. It is called when
// nothing of the session runs any more, else it waits for what holds the pipes.
func (r *relay) close() error {
	var errs []error
	for _, w := range r.pipes {
		errs = append(errs, w.Close())
	}
	for _, done := range r.done {
		if err := <-done; err != nil {
			errs = append(errs, fmt.Errorf("write the command's output: %w", err))
		}
	}
	return errors.Join(errs...)
}

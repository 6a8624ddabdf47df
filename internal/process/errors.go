package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/croftdev/croft/internal/fault"
)

// The exit codes that shells give to a program that did not run; they are in the
// details of the error as "exit_code".
const (
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// startFailed turns an error of Spawn into the one that the caller sees.
func startFailed(c *Command, err error) error {
	name := c.argv()[0]
	switch {
	case errors.Is(err, ErrNotFound):
		e := transport(c, "not_found", fmt.Sprintf(
			"program %q was not found where commands run; check its name, the PATH, and the interpreter its first line names", name), err)
		e.Details["exit_code"] = ExitNotFound
		return e
	case errors.Is(err, ErrNotExecutable):
		e := transport(c, "not_executable", fmt.Sprintf(
			"program %q cannot be executed; check its mode and that it is a program for this machine", name), err)
		e.Details["exit_code"] = ExitNotExecutable
		return e
	case errors.Is(err, ErrDir):
		return transport(c, "working_directory", "the working directory cannot be entered", err)
	default:
		return transport(c, "spawn", "the command could not be started", err)
	}
}

// transport is an error of running the command rather than of the command.
// Whether a retry helps is unknown: a program may be installed meanwhile (case EV-007).
func transport(c *Command, reason, message string, err error) *fault.Error {
	return &fault.Error{
		Code: fault.ExecTransportError, Op: "exec", Reason: reason, Message: message, Err: err,
		Details: map[string]any{"command": c.argv()},
	}
}

// stopped is the error of a command that a context ended: its own timeout, or ctx,
// which is the caller's. If both have ended, it is the caller's wish that counts.
func stopped(ctx, runCtx context.Context, c *Command, after time.Duration) error {
	if ctx.Err() != nil {
		return canceled(ctx)
	}
	return &fault.Error{
		Code: fault.ExecTimeout, Op: "exec", Reason: "timeout", Retry: fault.RetryNo,
		Message: fmt.Sprintf("the command was ended after its timeout of %v", c.Timeout),
		Details: map[string]any{
			"command": c.argv(), "timeout_s": c.Timeout.Seconds(), "duration_ms": after.Milliseconds(),
		},
		Err: context.Cause(runCtx),
	}
}

// canceled is the error of a command whose caller's context has ended; it wraps
// ctx.Err(), and the cause where the caller gave one.
func canceled(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("exec: %w", cause)
	}
	return fmt.Errorf("exec: %w: %w", err, cause)
}

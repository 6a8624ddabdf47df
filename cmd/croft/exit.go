package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/croftdev/croft"
)

// The exit codes; doc/cli.md explains them. Those of run follow env(1), timeout(1)
// and the shells, so that a script can put `croft run --` before any command.
const (
	exitOK      = 0
	exitFault   = 1 // a fault was found in what was looked at, or the work failed
	exitUsage   = 2
	exitMissing = 3
	exitRefused = 4 // busy, not allowed, or not available on this machine

	exitTimeout       = 124 // run: a timeout or limit ended the command
	exitCroft         = 125 // run: croft itself failed, also by wrong usage
	exitNotExecutable = 126 // run: the program cannot be executed
	exitNotFound      = 127 // run: the program was not found
	exitSignal        = 128 // run: plus the number of the signal that ended the command or croft
)

// runExits maps the codes of errors to the exit codes of run; exitCroft is the rest. A
// limit_exceeded is among that: it is croft's own work that met a limit (a full disk, a large
// manifest), and a script may take 124 for a command that was slow.
var runExits = map[croft.Code]int{
	croft.ExecTimeout: exitTimeout,
}

// otherExits maps them for every other subcommand; exitFault is the rest.
var otherExits = map[croft.Code]int{
	croft.SessionNotFound:        exitMissing,
	croft.WorkspaceReadNotFound:  exitMissing,
	croft.WorkspaceRootNotFound:  exitMissing,
	croft.SessionBusy:            exitRefused,
	croft.ConfinementUnavailable: exitRefused,
	croft.NotAvailable:           exitRefused,
	croft.Unsupported:            exitRefused,
}

// startExits maps the reasons for which a program did not start.
var startExits = map[string]int{
	"not_found":      exitNotFound,
	"not_executable": exitNotExecutable,
}

// exitCode returns the exit code of the process after cmd ended with err.
func exitCode(cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	if status, ok := errors.AsType[statusError](err); ok {
		return int(status)
	}
	run := cmd.Name() == "run"
	if isUsage(err) {
		if run {
			return exitCroft // 2 may be the command's own
		}
		return exitUsage
	}
	if sig, ok := errors.AsType[*signalError](err); ok {
		return exitSignal + int(sig.signal)
	}
	if !run {
		if code, ok := otherExits[croft.CodeOf(err)]; ok {
			return code
		}
		if errors.Is(err, fs.ErrNotExist) {
			return exitMissing
		}
		return exitFault
	}
	if e, ok := errors.AsType[*croft.Error](err); ok && e.Code == croft.ExecTransportError {
		if code, ok := startExits[e.Reason]; ok {
			return code
		}
	}
	if code, ok := runExits[croft.CodeOf(err)]; ok {
		return code
	}
	return exitCroft
}

// commandStatus is the exit code for a command that ended with code, which is
// negative for a signal.
func commandStatus(code int) error {
	switch {
	case code == 0:
		return nil
	case code < 0:
		return statusError(exitSignal - code)
	default:
		return statusError(code)
	}
}

// statusError ends the process with its value; all that is to be said was said.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// reportedError is an error that the user has already been told of.
type reportedError struct{ error }

func (e reportedError) Unwrap() error { return e.error }

func reported(err error) bool {
	if _, ok := errors.AsType[reportedError](err); ok {
		return true
	}
	_, ok := errors.AsType[statusError](err)
	return ok
}

// usageError is a command line that says nothing croft can do.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

func isUsage(err error) bool {
	_, ok := errors.AsType[*usageError](err)
	return ok
}

// signalError is the cause of a context that a signal to croft has cancelled.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "ended by signal: " + e.signal.String() }

// Is lets a signal count as a cancellation.
func (e *signalError) Is(target error) bool { return target == context.Canceled }

// describe returns what the user reads about err.
func describe(err error) string {
	if sig, ok := errors.AsType[*signalError](err); ok {
		return sig.Error()
	}
	return err.Error()
}

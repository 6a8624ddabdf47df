package croft

import (
	"io"
	"os"
	"time"
)

// Command is one command to run in a session. Exactly one of Argv and Shell is set.
type Command struct {
	// Argv is the program and its arguments, run without a shell.
	Argv []string
	// Shell is a line for a shell: `sh -c`, or the shell that ShellPath names.
	Shell string
	// ShellPath is the shell that runs Shell. Default: sh.
	ShellPath string
	// Login makes the shell a login shell.
	Login bool
	// Dir is the working directory: relative to the workspace, or absolute as commands
	// see it. Default: the workspace's root.
	Dir string
	// Env are variables on top of the session's.
	Env map[string]string
	// Stdin is what the command reads. Nil: nothing, /dev/null.
	Stdin io.Reader
	// Stdout and Stderr, when set, receive output as it comes, beside the Result.
	Stdout, Stderr io.Writer
	// Files, when all three are set, become the command's descriptors 0, 1 and 2
	// themselves: bytes pass untouched and nothing is kept in the Result. They
	// exclude Stdin, Stdout and Stderr.
	Files [3]*os.File
	// OpenStdin gives a command of [Session.Spawn] a stdin that [Process.Write] feeds; Exec
	// refuses it.
	OpenStdin bool
	// Timeout ends the command and all it started. 0: none.
	Timeout time.Duration
	// OutputLimit is how many bytes of each stream the Result keeps, half of them from
	// the start and half from the end; for Spawn, how much of both the log keeps.
	// Default: 8 MiB.
	OutputLimit int64
}

// Result is how a command ended and what it wrote.
type Result struct {
	// ExitCode is the exit code, or minus the number of the signal that ended it.
	ExitCode int
	// Signal is the name of that signal, such as "SIGKILL", or empty.
	Signal string
	// TimedOut: Timeout passed and the command was ended.
	TimedOut bool
	// Duration is the time from the start to the end of the command.
	Duration time.Duration
	// Stdout and Stderr are what was written, cut in the middle at OutputLimit.
	Stdout, Stderr []byte
	// StdoutDropped and StderrDropped count the bytes left out by the limit.
	StdoutDropped, StderrDropped int64
	// Ended tells how croft ended the command, in order ("SIGTERM", "SIGKILL"); empty
	// if it ended by itself.
	Ended []string
}

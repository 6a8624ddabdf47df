package process

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
)

// The defaults of a [Command].
const (
	DefaultOutputLimit = 8 << 20
	DefaultDrain       = 250 * time.Millisecond
	DefaultKillGrace   = time.Second
)

// Command is one command to run. Exactly one of Argv and Shell is set.
type Command struct {
	// Argv is the program and its arguments, run without a shell.
	Argv []string
	// Shell is a line for a shell, run as `ShellPath -c Shell`. A line of blanks is one.
	Shell string
	// ShellPath is the shell that runs Shell. Default: sh.
	ShellPath string
	// Login makes the shell a login shell: `-lc` instead of `-c`.
	Login bool
	// Dir is the absolute working directory as the command sees it. Empty: the spawner's.
	Dir string
	// Env is the whole environment; see [Base.Environ].
	Env []string

	// Stdin is what the command reads. Nil: nothing, /dev/null. An *os.File is handed over
	// as it is; any other reader is copied through a pipe until it ends, or until the
	// command has ended. A Read that still waits then is broken off by SetReadDeadline or
	// Close where Stdin has such a method, and else waited for.
	Stdin io.Reader
	// Stdout and Stderr, when set, receive output as it comes, beside the Result. After
	// a failed Write nothing more is written there, the Result is still filled, and Run
	// returns the failure. Run returns after the last Write has returned. Each stream has
	// its own goroutine: one writer for both must be safe for that.
	Stdout, Stderr io.Writer
	// Files, when all three are set, become the command's descriptors 0, 1 and 2
	// themselves: bytes pass untouched and nothing is kept in the Result. They exclude
	// Stdin, Stdout and Stderr, and stay the caller's to close.
	Files [3]*os.File

	// TTY, if set, runs the command on a terminal of this size, which is then all three
	// of its standard streams. Only [Set.Start] takes it.
	TTY *Winsize
	// OpenStdin gives the command a stdin that [Process.Write] feeds. A terminal always
	// has one. Only [Set.Start] takes it.
	OpenStdin bool

	// Timeout ends the command and all it started. 0: none.
	Timeout time.Duration
	// OutputLimit is how many bytes of each stream the Result keeps, half of them from
	// the start and half from the end. 0: [DefaultOutputLimit]; negative: none.
	OutputLimit int64
	// Drain is how long output is still read after the command's own process has ended,
	// when something else holds its pipes open. 0: [DefaultDrain]; negative: not at all. What
	// the command itself wrote is read in any case.
	Drain time.Duration
	// KillGrace is how long the command has between SIGTERM and SIGKILL when it is
	// ended. 0: [DefaultKillGrace]; negative: SIGKILL at once.
	KillGrace time.Duration
}

// Result is how a command ended and what it wrote.
type Result struct {
	// ExitCode is the exit code, or minus the number of the signal that ended it.
	ExitCode int
	// Signal is the name of that signal, such as "SIGKILL", or empty.
	Signal string
	// TimedOut: Timeout passed and the command was ended.
	TimedOut bool
	// Duration is the time from the start to the end of the command's own process.
	Duration time.Duration
	// Stdout and Stderr are what was written, cut in the middle at OutputLimit and never
	// within a UTF-8 sequence.
	Stdout, Stderr []byte
	// StdoutDropped and StderrDropped count the bytes left out by the limit.
	StdoutDropped, StderrDropped int64
	// Ended names the signals by which croft ended the command, in order ("SIGTERM",
	// "SIGKILL"); empty if it ended by itself.
	Ended []string
}

// argv returns the program and arguments that c stands for.
func (c *Command) argv() []string {
	if c.Shell == "" {
		return c.Argv
	}
	shell, flag := c.ShellPath, "-c"
	if shell == "" {
		shell = "sh"
	}
	if c.Login {
		flag = "-lc"
	}
	return []string{shell, flag, c.Shell}
}

// direct reports whether the caller's own files become the command's.
func (c *Command) direct() bool { return c.Files[0] != nil }

// check refuses what cannot mean anything.
func (c *Command) check() error {
	switch {
	case c.Shell == "" && len(c.Argv) == 0:
		return invalid("no_command", "there is no command to run; set Argv or Shell")
	case c.Shell != "" && len(c.Argv) > 0:
		return invalid("two_commands", "Argv and Shell exclude each other")
	case c.Shell == "" && c.Argv[0] == "":
		return invalid("no_command", "the program's name is empty")
	case c.Shell == "" && (c.ShellPath != "" || c.Login):
		return invalid("no_shell_line", "ShellPath and Login need Shell")
	case c.Timeout < 0:
		return invalid("negative_timeout", "the timeout is negative")
	}
	for _, s := range slices.Concat(c.argv(), []string{c.Dir}, c.Env) {
		if strings.ContainsRune(s, 0) {
			return invalid("nul_byte", "a NUL byte cannot stand in an argument, directory or variable")
		}
	}
	n := 0
	for _, f := range c.Files {
		if f != nil {
			n++
		}
	}
	switch {
	case n != 0 && n != 3:
		return invalid("incomplete_files", "Files needs all three descriptors or none")
	case n == 3 && (c.Stdin != nil || c.Stdout != nil || c.Stderr != nil):
		return invalid("files_and_streams", "Files excludes Stdin, Stdout and Stderr")
	}
	return nil
}

func invalid(reason, message string) error {
	return &fault.Error{Code: fault.InvalidArgument, Op: "exec", Reason: reason, Message: message, Retry: fault.RetryNo}
}

// SignalName returns the name of sig, such as "SIGKILL", or "" for 0.
func SignalName(sig syscall.Signal) string {
	if sig == 0 {
		return ""
	}
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(sig)) // real-time signals have no names
}

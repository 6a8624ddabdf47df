package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Spec is one command, ready to be started: nothing in it is looked up on the
// caller's side of the confinement.
type Spec struct {
	// Argv is the program and its arguments; never empty. A program name without
	// a slash is searched in the PATH of Env, inside the confinement (see [Find]).
	Argv []string
	// Dir is the absolute working directory as the command sees it. Empty means the
	// spawner's own default (for a cell, the root of the workspace).
	Dir string
	// Env is the whole environment, as KEY=VALUE. It is passed on as it is: a nil
	// Env is an empty environment and never that of croft.
	Env []string
	// Files are the command's descriptors 0, 1 and 2: exactly three, none nil. The
	// spawner duplicates them; when Spawn returns, also with an error, it holds none of
	// them any more and the caller may close his.
	Files [3]*os.File
	// TTY, if set, asks for a terminal of that size: the spawner allocates it where the
	// command sees it in /dev/pts, makes it the controlling terminal of the command, which
	// leads its session and the terminal's foreground group, and its descriptors 0, 1
	// and 2. Files is then empty. A spawner that has no terminals refuses with an
	// error that wraps errors.ErrUnsupported.
	TTY *Winsize
}

// Spawner starts commands. It is safe for use by several goroutines at once.
type Spawner interface {
	// Spawn starts the command, as the leader of a process group and session of its own,
	// with default signal dispositions and an empty signal mask, and with no other
	// descriptors than spec.Files. It returns when the program has been executed:
	// an error that wraps [ErrNotFound], [ErrNotExecutable] or [ErrDir] says why that
	// could not be; any other error means that the spawner itself failed, and that no
	// process of this call is left.
	//
	// Cancelling ctx ends a Spawn that still waits, never a command that was started.
	Spawn(ctx context.Context, spec Spec) (Child, error)
}

// Child is a command that was started.
type Child interface {
	// Pid is the command's process id as its starter sees it, for people and logs;
	// it is never used to send a signal.
	Pid() int
	// Wait blocks until the command's own process has ended (its descendants may
	// live on) and returns how. It may be called again, and by several goroutines,
	// with the same answer. It returns ctx's error if ctx ends first, and
	// an error of another kind if the spawner was lost and with it the answer.
	Wait(ctx context.Context) (Status, error)
	// Signal sends sig to the command's process group. After the command has
	// ended it does nothing and returns nil; it never reaches another process that got
	// the same id.
	Signal(sig syscall.Signal) error
	// Kill sends SIGKILL to everything of the command that the spawner can name: the
	// process group at least, all descendants where it can. Background processes of
	// a command that has ended are still reached. Killing what is gone is no error.
	Kill() error
	// Terminal returns the master end of the terminal that Spec.TTY asked for, or nil.
	// It is non-blocking, so that deadlines work. The caller of Spawn closes it, once.
	Terminal() *os.File
}

// Status is how a command's own process ended.
type Status struct {
	// Code is the exit code; 0 if a signal ended it.
	Code int
	// Signal is the signal that ended it, or 0.
	Signal syscall.Signal
}

// ExitCode returns the exit code, or minus the number of the signal that ended
// the command: -9 for SIGKILL (case SH-092).
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return -int(s.Signal)
	}
	return s.Code
}

// The reasons for which a program could not be executed. A shell calls the first
// one 127 and the second 126.
var (
	// ErrNotFound: no such program, or the interpreter that its first line names is missing.
	ErrNotFound = errors.New("program not found")
	// ErrNotExecutable: there is such a file, but it may not or cannot be executed.
	ErrNotExecutable = errors.New("program cannot be executed")
	// ErrDir: the working directory is missing, no directory or not to be entered.
	ErrDir = errors.New("working directory cannot be entered")
)

// Step is what a child was doing when it failed before its program ran. The values
// are fixed: they travel between processes as one byte.
type Step uint8

// The steps, in their order.
const (
	StepOther Step = iota // anything of the spawner's own
	StepDir               // entering the working directory
	StepExec              // finding and executing the program
)

// StartError is the error of a Spawn that could not execute the program. It
// wraps the errno, and matches [ErrNotFound], [ErrNotExecutable] or [ErrDir].
type StartError struct {
	Step  Step
	Name  string // program or directory, as the Spec has it
	Errno syscall.Errno
}

// Error names step, name and errno.
func (e *StartError) Error() string {
	switch e.Step {
	case StepDir:
		return fmt.Sprintf("enter directory %q: %v", e.Name, e.Errno)
	case StepExec:
		return fmt.Sprintf("execute %q: %v", e.Name, e.Errno)
	default:
		return fmt.Sprintf("start %q: %v", e.Name, e.Errno)
	}
}

// Unwrap returns the errno.
func (e *StartError) Unwrap() error { return e.Errno }

// Is reports whether target is the sentinel for e's step and errno.
func (e *StartError) Is(target error) bool {
	switch e.Step {
	case StepDir:
		return target == ErrDir
	case StepExec:
		switch e.Errno {
		case syscall.ENOENT, syscall.ENOTDIR:
			return target == ErrNotFound
		case syscall.EACCES, syscall.EPERM, syscall.ENOEXEC, syscall.EISDIR, syscall.ELOOP,
			syscall.ETXTBSY, syscall.EINVAL, syscall.ENAMETOOLONG, syscall.E2BIG:
			return target == ErrNotExecutable
		}
	}
	return false
}

// Find returns the path of the program that execvp(3) would run for name with
// the working directory dir and the environment env. A name with a slash is returned
// as it is, joined with dir if it is relative.
//
// It looks at the file system of the calling process, so a spawner calls it inside
// the confinement. It only saves forks: the exec that follows decides. The error is
// a [*StartError]; as in execvp, a file found but not executable is remembered
// while the search goes on.
func Find(name, dir string, env []string) (string, error) {
	if name == "" {
		return "", &StartError{Step: StepExec, Name: name, Errno: syscall.ENOENT}
	}
	if strings.Contains(name, "/") {
		return inDir(dir, name), nil
	}
	refused := syscall.ENOENT
	for _, d := range filepath.SplitList(lookup(env, "PATH")) {
		// POSIX (XBD 8.3): an empty element is the working directory.
		path := filepath.Join(inDir(dir, d), name)
		fi, err := os.Stat(path)
		if err != nil || fi.IsDir() {
			continue
		}
		if err := mayExecute(path); err != nil {
			refused = syscall.EACCES
			continue
		}
		return path, nil
	}
	return "", &StartError{Step: StepExec, Name: name, Errno: refused}
}

func inDir(dir, path string) string {
	if filepath.IsAbs(path) || dir == "" {
		return path
	}
	if path == "" {
		return dir
	}
	return dir + "/" + path
}

// lookup returns the value of the last assignment to key in env.
func lookup(env []string, key string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], key+"="); ok {
			return v
		}
	}
	return ""
}

package process

import (
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Exit is how a command of a [Set] ended. Its JSON form is kept with the log.
type Exit struct {
	// ExitCode is the exit code, or minus the number of the signal that ended it. It
	// means nothing if Failure is set.
	ExitCode int `json:"exit_code"`
	// Signal is the name of that signal, such as "SIGKILL", or empty.
	Signal string `json:"signal,omitempty"`
	// By says what made croft end the command; empty if it ended by itself.
	By Cause `json:"by,omitempty"`
	// Ended names the signals by which croft ended it, in order.
	Ended []string `json:"ended,omitempty"`
	// Duration is the time from the start to the end of the command's own process.
	Duration time.Duration `json:"duration_ns"`
	// Failure is a stable word if the end is not known: "lost", "not_ended" (see [Run]),
	// "unknown" for a command whose croft was killed, "unreadable" if the log is damaged.
	Failure string `json:"failure,omitempty"`
}

// Cause is why croft ended a command.
type Cause string

// The causes.
const (
	ByTimeout Cause = "timeout"
	ByRequest Cause = "request" // Process.End, or a cancelled Start
	ByClose   Cause = "close"   // Set.Close
)

// Error makes a Cause the cause of a context.
func (c Cause) Error() string { return "the command was ended: " + string(c) }

// about is what the log keeps to tell which command wrote it.
type about struct {
	Argv []string `json:"argv"`
	// Cut: arguments were shortened or left out.
	Cut      bool      `json:"cut,omitempty"`
	Dir      string    `json:"dir,omitempty"`
	Started  time.Time `json:"started"`
	Terminal bool      `json:"terminal,omitempty"`
}

// noteLimit is what a log takes for a note.
const noteLimit = 2 << 10

// encode returns a's JSON form with as much of the arguments as a note may hold.
func (a about) encode() ([]byte, error) {
	for budget := noteLimit; ; budget /= 2 {
		short := a.shortened(budget)
		b, err := json.Marshal(short)
		if err != nil || len(b) <= noteLimit {
			return b, err
		}
	}
}

func (a about) shortened(budget int) about {
	short := func(s string) string {
		if len(s) > budget {
			a.Cut = true
			for s = s[:budget]; len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]); s = s[:len(s)-1] {
			}
		}
		budget -= len(s)
		return s
	}
	argv := a.Argv
	a.Argv, a.Dir = nil, short(a.Dir)
	for _, arg := range argv {
		if budget == 0 {
			a.Cut = true
			break
		}
		a.Argv = append(a.Argv, short(arg))
	}
	return a
}

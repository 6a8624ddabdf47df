// Package denial says whether it was the confinement that a command failed at, and which
// smallest grant would have let it pass.
//
// The kernel tells a command that something failed, and nobody why. So the evidence is indirect:
// how the command ended, counters of limits, and what it wrote to standard error at last. Each piece
// is held against the policy and the receipt, and against the host by functions that the caller
// gives. A [Denial] is given only where the confinement refuses the very thing and the host would not
// have; in every other case the answer is nothing. A missing hint costs its reader a minute, a wrong one
// sends him the wrong way and makes him grant what nobody needs.
//
// What a command writes is its own to choose: one that wants to can feign a denial, and find out by the
// answer whether a path that it cannot see exists on the host. So a hint is for the person who wrote the
// policy. A front end that answers the agent itself gives a [Host] whose Look knows only what
// the policy says, or shows no hints of the kind [File].
//
// The package is pure: it opens nothing and asks nothing but through [Host].
package denial

import (
	"slices"
	"strings"

	"github.com/croftdev/croft/policy"
)

// Kind is what was denied.
type Kind string

// The kinds.
const (
	File    Kind = "file"
	Network Kind = "network"
	Limit   Kind = "limit"
	Syscall Kind = "syscall"
)

// Confidence is how much stands behind a hint.
type Confidence string

// The confidences. Nothing that rests on a command's own words is Certain.
const (
	Certain Confidence = "certain" // a counter of the kernel or of croft says so
	Likely  Confidence = "likely"  // the command's words, the policy and the host agree
)

// Denial is one thing that the confinement refused.
type Denial struct {
	Kind Kind `json:"kind"`
	// Target is what the command wanted: a path as it sees it, a host, a limit or a system call.
	Target string `json:"target"`
	// Rule is the policy's field and value that refused it: "network: none".
	Rule string `json:"rule"`
	// Grant is the smallest change of the policy that would allow it.
	Grant      Grant      `json:"grant"`
	Confidence Confidence `json:"confidence"`
}

// Grant is a change of one field of a policy.
type Grant struct {
	// Field is its name in the file form: "read_paths", "network", "limits.memory".
	Field string `json:"field"`
	// Value is what to add to a list, to set, or ("protected") to take out. Empty: a higher
	// value, how much nobody can tell.
	Value string `json:"value,omitempty"`
}

// Evidence is what is known of a command that has ended.
type Evidence struct {
	// ExitCode is the exit code, or minus the number of the signal that ended it.
	ExitCode int
	// Dir is the absolute directory in which it ran, as it saw it, for the relative names in Stderr.
	Dir string
	// Stderr is what it wrote to standard error, or the end of it. The last lines count.
	Stderr []byte
	// Limits are the limits that were hit while it ran, by the counters of what enforces them.
	Limits []string
	// Policy and Receipt are what was asked for and what was in force.
	Policy  policy.Policy
	Receipt policy.Receipt
}

// Host answers what only the host can. A nil function answers that nothing is known, so that
// nothing of its kind is explained.
type Host struct {
	// Look tells about an absolute path as commands name it. Permissions are those that the commands'
	// user would have without confinement.
	Look func(path string) Sight
	// Denies reports whether the system call of this name is denied to commands, whatever
	// its arguments are, and the host would have allowed it to their user.
	Denies func(call string) bool
}

// Sight is what is known about a path.
type Sight struct {
	// Exists: the host has it.
	Exists bool
	// Visible: commands see it.
	Visible bool
	// ReadOnly: commands see it, or the directory that would hold it, and the confinement keeps
	// them from changing it.
	ReadOnly bool
	// Protected is the protected name that keeps it so, if it is one.
	Protected string
	// Readable and Writable: the host's permissions would have allowed it.
	Readable, Writable bool
}

const (
	maxDenials = 8
	maxLines   = 40
	maxLine    = 4096
)

// Explain returns what the confinement refused the command, in the order of the evidence, each thing
// once; nothing if the command succeeded, was not confined, or failed at something else.
func Explain(e Evidence, h Host) []Denial {
	if e.ExitCode == 0 || e.Receipt.Tier == policy.None || e.Receipt.Tier == "" {
		return nil
	}
	var found []Denial
	add := func(d Denial, ok bool) {
		if ok && len(found) < maxDenials && !slices.Contains(found, d) {
			found = append(found, d)
		}
	}
	for _, name := range e.Limits {
		add(e.limit(name, Certain))
	}
	if name, ok := limitSignals[-e.ExitCode]; ok {
		add(e.limit(name, Likely))
	}
	for _, line := range lastLines(e.Stderr) {
		add(e.file(line, h))
		add(e.network(line))
		add(e.call(line, h))
	}
	return found
}

// lastLines returns the last lines of out; longer ones than any message are left out.
func lastLines(out []byte) []string {
	if len(out) > maxLines*maxLine {
		out = out[len(out)-maxLines*maxLine:]
	}
	lines := strings.Split(strings.TrimRight(strings.ToValidUTF8(string(out), "\ufffd"), "\r\n"), "\n")
	lines = lines[max(0, len(lines)-maxLines):]
	return slices.DeleteFunc(lines, func(l string) bool { return len(l) > maxLine })
}

// limitSignals are the signals that the kernel sends at a limit of setrlimit(2), by number: SIGXCPU and
// SIGXFSZ have the same one on every Linux that croft is built for, and on macOS.
var limitSignals = map[int]string{24: "cpu_time", 25: "file_size"}

// limit explains a limit that was hit. One that nobody asked for is the host's own and no
// denial, also where a signal speaks for it.
func (e Evidence) limit(name string, c Confidence) (Denial, bool) {
	asked, ok := e.Policy.Limits.All()[name]
	enforced := slices.ContainsFunc(e.Receipt.Limits, func(l policy.Limit) bool { return l.Name == name && l.Enforced != "" })
	if !ok || !enforced {
		return Denial{}, false
	}
	if c != Certain && slices.Contains(e.Limits, name) {
		return Denial{}, false // said already, with more behind it
	}
	field := "limits." + name
	return Denial{Kind: Limit, Target: name, Rule: field + ": " + asked, Grant: Grant{Field: field}, Confidence: c}, true
}

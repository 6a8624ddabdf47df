// Package policy says what the commands of a session may touch, and records what
// was really enforced.
//
// A [Policy] is a plain value: copy it, compare it, log it. Its zero value is the
// default: the strongest tier of this machine, no network, system directories and
// the toolchains on PATH readable, nothing of the home directories, the workspace
// writable. What a start then applied stands in a [Receipt], which is read back
// from the kernel and not copied from the policy.
//
// A policy has a file form in JSON and YAML; [Parse] reads it and doc/policy.md explains it:
//
//	floor: namespaces
//	network: none
//	read_paths: [/srv/models]
//	limits: {memory: 2G, wall_time: 10m}
//
// The package makes no system calls; internal/confine applies a policy. A field that this
// croft cannot apply yet makes a session's start fail: see [Policy.Asked].
package policy

import (
	"errors"
	"fmt"
	"slices"
)

// ErrInvalid is wrapped by every error of [Policy.Check], [ParseTier], [ParseNetwork],
// [Preset] and [Limits.With].
var ErrInvalid = errors.New("invalid policy")

// Version is the version of the file form. A field is added without a new version.
const Version = 1

// Policy is what commands may touch.
type Policy struct {
	// Tier is the way to confine. Empty: the strongest that works here, never none.
	Tier Tier `json:"tier,omitempty"`
	// Floor is the weakest tier that will do: a start that would use a weaker one
	// fails. Empty: any but none, unless Tier names none.
	Floor Tier `json:"floor,omitempty"`
	// Network is which network commands see. Empty: none.
	Network Network `json:"network,omitempty"`
	// ReadPaths are absolute host paths that commands may read beside the system
	// directories and toolchains. One that is missing is an error at the start.
	ReadPaths []string `json:"read_paths,omitempty"`
	// WritePaths are absolute host paths that commands may also write, as with a grant.
	WritePaths []string `json:"write_paths,omitempty"`
	// HiddenPaths do not exist for commands, also where they lie in something that they may
	// read or write. An absolute one is a host path, taken as it is; another is a pattern below the
	// workspace, in which * and ? match within a name and ** matches any number of names.
	HiddenPaths []string `json:"hidden_paths,omitempty"`
	// Protected are names relative to the workspace that commands may not change in a
	// caller's root, because a person or a tool later runs what they hold. Nil:
	// [DefaultProtected]. Empty but not nil: none. croft's own workspaces have none.
	Protected []string `json:"protected,omitzero"`
	// Limits bound what all commands of the session use together. The zero value: none.
	Limits Limits `json:"limits,omitzero"`
	// SystemCalls changes the list of denied system calls. The zero value: the list in
	// doc/threat-model.md.
	SystemCalls SystemCalls `json:"system_calls,omitzero"`
}

// SystemCalls changes the list of system calls that commands may not make. Both lists hold
// names as syscalls(2) has them; no name is in both.
type SystemCalls struct {
	// Deny are further calls to deny.
	Deny []string `json:"deny,omitempty"`
	// Allow takes calls off the list. Each widens what a command can attack in the kernel.
	Allow []string `json:"allow,omitempty"`
}

// DefaultProtected returns the names that are protected when a policy names none:
// what git, direnv, editors, agents and shells run by themselves.
func DefaultProtected() []string {
	return []string{
		".git/hooks", ".git/config", ".git/config.worktree", ".git/modules",
		".envrc", ".vscode", ".idea", ".mcp.json",
		".claude", ".codex", ".cursor", ".gemini",
		".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile",
		".zshrc", ".zprofile", ".zshenv", ".zlogin", ".zlogout", ".config/fish",
	}
}

// ProtectedNames returns the names that p protects in a caller's root.
func (p Policy) ProtectedNames() []string {
	if p.Protected == nil {
		return DefaultProtected()
	}
	return slices.Clone(p.Protected)
}

// Asked returns the names of the fields of p that ask for something, in the order of the
// reference: "tier", "read_paths", "limits.memory", "system_calls.deny". What applies a policy holds
// them against the list of those that it can apply and refuses the rest, so that a field that is
// new here is refused there, and never accepted without an effect.
func (p Policy) Asked() []string {
	var names []string
	add := func(name string, asked bool) {
		if asked {
			names = append(names, name)
		}
	}
	add("tier", p.Tier != "")
	add("floor", p.Floor != "")
	add("network", p.Network != "")
	add("read_paths", len(p.ReadPaths) > 0)
	add("write_paths", len(p.WritePaths) > 0)
	add("hidden_paths", len(p.HiddenPaths) > 0)
	add("protected", p.Protected != nil)
	for _, f := range limitFields {
		add("limits."+f.name, *f.in(&p.Limits) != 0)
	}
	add("system_calls.deny", len(p.SystemCalls.Deny) > 0)
	add("system_calls.allow", len(p.SystemCalls.Allow) > 0)
	return names
}

// Check reports the first value of p that means nothing. The error wraps
// [ErrInvalid] and names the field.
func (p Policy) Check() error {
	if p.Tier != "" && !p.Tier.known() {
		return fmt.Errorf("%w: tier: no tier is called %q", ErrInvalid, p.Tier)
	}
	if p.Floor != "" && !p.Floor.known() {
		return fmt.Errorf("%w: floor: no tier is called %q", ErrInvalid, p.Floor)
	}
	if p.Network != "" && !p.Network.known() {
		return fmt.Errorf("%w: network: %q is neither none nor host", ErrInvalid, p.Network)
	}
	for _, l := range p.lists() {
		for i, value := range l.values {
			if problem := l.check(value); problem != "" {
				return fmt.Errorf("%w: %s[%d]: %s", ErrInvalid, l.name, i, problem)
			}
		}
	}
	if c := p.contradiction(); c != nil {
		return fmt.Errorf("%w: %s[%d]: %s", ErrInvalid, c.list, c.index, c.problem)
	}
	return p.Limits.check()
}

// Package policy says what the commands of a session may touch, and records what
// was really enforced.
//
// A [Policy] is a plain value: copy it, compare it, log it. Its zero value is the
// default: the strongest tier of this machine, no network, system directories and
// the toolchains on PATH readable, nothing of the home directories, the workspace
// writable. What a start then applied stands in a [Receipt], which is read back
// from the kernel and not copied from the policy.
//
// The package makes no system calls; internal/confine applies a policy.
package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// ErrInvalid is wrapped by every error of [Policy.Check] and of the Parse functions.
var ErrInvalid = errors.New("invalid policy")

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
	// Protected are names relative to the workspace that commands may not change in a
	// caller's root, because a person or a tool later runs what they hold. Nil:
	// [DefaultProtected]. Empty but not nil: none. croft's own workspaces have none.
	Protected []string `json:"protected,omitempty"`
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
	for i, name := range p.ReadPaths {
		if !path.IsAbs(name) || path.Clean(name) != name || name == "/" {
			return fmt.Errorf("%w: read_paths[%d]: %q is not an absolute clean path below /", ErrInvalid, i, name)
		}
	}
	for i, name := range p.Protected {
		if name == "." || path.IsAbs(name) || path.Clean(name) != name || name == ".." || strings.HasPrefix(name, "../") {
			return fmt.Errorf("%w: protected[%d]: %q is not a clean name below the workspace", ErrInvalid, i, name)
		}
	}
	return nil
}

package croft

import (
	"github.com/croftdev/croft/manifest"
	"github.com/croftdev/croft/policy"
	"github.com/croftdev/croft/snapshot"
)

// CreateOptions says what a new session is. The zero value is an empty workspace
// of croft's own under the default policy.
//
// The options are the trusted side: grants, host sources and variables of the host
// come from here and from a manifest that this program vouches for, and not from
// a manifest that was parsed as untrusted.
type CreateOptions struct {
	// Manifest is what a fresh workspace holds. Nil is an empty one.
	Manifest *manifest.Manifest
	// BaseDir is the directory below which the manifest's local_file and local_dir
	// sources lie. Default: the program's working directory.
	BaseDir string
	// Root is a directory of the caller's that becomes the workspace. It must exist
	// or be creatable, is never cleared and never deleted, and is seen by commands at
	// its own path. Empty: croft makes a workspace of its own and owns it.
	Root string
	// AllowHome lets Root be "/", a home directory or one that contains croft's
	// state directory, which is refused otherwise.
	AllowHome bool
	// Grants are host paths outside the workspace that files and commands may reach,
	// beside those of the manifest.
	Grants []Grant
	// Env are variables of commands, beside the manifest's and stronger than them.
	Env map[string]string
	// PassEnv names variables of this process that commands get, where they are set.
	PassEnv []string
	// PrivateHome makes HOME a private directory that ends with the session instead
	// of the workspace, so that a caller's project does not fill with caches.
	PrivateHome bool
	// Disposable says that nothing of the session is worth keeping: if this program ends
	// without deleting it, be it killed, the next client on the state directory does. A
	// workspace that was kept because its save failed is not touched.
	Disposable bool
	// Policy is what commands may touch. Nil: the client's.
	Policy *policy.Policy
	// Snapshot is the kind of snapshot that Stop saves and a resume restores. Nil: none.
	// One without a name is named after the session; a tar without a directory lies in
	// croft's own, which is private.
	Snapshot *snapshot.Spec
	// ExposedPorts are the ports inside the session that may be reached from outside.
	// Each from 1 to 65535; doubled ones are dropped.
	ExposedPorts []int
	// Mounts are workspace-relative names at which this program has mounted something
	// or will. They are left out of saves, and Delete releases them, deepest first,
	// before it removes anything; one that cannot be released keeps the workspace.
	Mounts []string
}

// Grant is access to one host path outside the workspace. Path is absolute; the
// grant is writable unless ReadOnly.
type Grant = manifest.Grant

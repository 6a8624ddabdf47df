// Package manifest describes what a fresh workspace holds.
//
// A manifest is written as JSON or YAML and parsed once into checked values:
//
//	version: 1
//	entries:
//	  README.md: {type: file, content: "hello\n"}
//	  src:       {type: local_dir, src: ./app}
//	environment:
//	  CI: "1"
//
//	m, err := manifest.Parse(data, manifest.Options{})
//	for name, entry := range m.All() { ... }
//
// Everything here is lexical. The package makes no system call: it does not know
// whether a local source exists or where a link leads; internal/fill, which
// materialises a manifest, finds that out when it opens the source. What the
// package promises is that a manifest which it accepted names no path outside the
// workspace, names each path once, and puts nothing below a file.
//
// doc/manifest.md is the reference of the format for those who write manifests.
package manifest

import (
	"iter"
	"slices"
)

// Version is the one version of the format that this package reads and writes.
const Version = 1

// DefaultRoot is where a workspace is seen by its commands unless the manifest says otherwise.
const DefaultRoot = "/workspace"

// Limits on what [Parse] takes. They bound the memory and time that a manifest
// from a stranger can cost; each is named in the error of the code
// fault.LimitExceeded that it causes. They hold for the text and for the normal
// form, in which an entry is some 250 bytes and 13 values: for some 30,000 entries.
const (
	// MaxBytes is the largest manifest, and also the most text that its YAML
	// aliases may expand to.
	MaxBytes = 8 << 20
	// MaxNodes is the largest number of values (objects, lists, scalars) after
	// YAML aliases are expanded.
	MaxNodes = 400_000
	// MaxDepth is the deepest nesting of objects and lists.
	MaxDepth = 100
	// MaxYAMLTokens is the largest number of tokens of a manifest in YAML, some
	// 4,000 files; a larger one is written as JSON. The YAML parser's time grows
	// with the square of the length of a block mapping: 100,000 names in one took
	// it 13 seconds, the most that this lets through takes it one.
	MaxYAMLTokens = 50_000
)

// Manifest is a checked description of a fresh workspace. [Parse] makes one; a
// program that builds one by hand gets it checked by [Manifest.Checked].
//
// A Manifest is a value to read: nothing in croft changes one after it was parsed.
type Manifest struct {
	// Root is the absolute path at which commands see the workspace, as it was
	// written ("/srv//ws/" stays so); empty means [DefaultRoot].
	Root string
	// Entries is what the workspace holds, in written order.
	Entries Entries
	// Environment is what commands find in their environment.
	Environment Environment
	// Users and Groups are accounts to provision. They are checked here and
	// refused by croft when a workspace is filled.
	Users  []User
	Groups []Group
	// Grants are host paths outside the workspace that the session may reach
	// (extra_path_grants).
	Grants []Grant
	// RemoteMountCommands names the commands that an agent is told to use on
	// storage mounts (remote_mount_command_allowlist); nil means the default list.
	RemoteMountCommands []string
	// Skills are the named skill folders, in written order.
	Skills []Skill
}

// Entries maps names to entries and keeps their written order.
type Entries []Named

// Named is an entry under the name it was written with: relative to what holds
// it, perhaps of several components, perhaps not clean ("a//./b").
type Named struct {
	Name  string
	Entry Entry
}

// All yields every entry with its clean, workspace-relative path: depth first, in
// written order, a directory before its children. The path of the workspace itself is ".".
func (m *Manifest) All() iter.Seq2[string, Entry] {
	return func(yield func(string, Entry) bool) {
		m.Entries.walk(".", yield)
	}
}

// walk yields the entries below dir and reports whether to go on.
func (es Entries) walk(dir string, yield func(string, Entry) bool) bool {
	for _, e := range es {
		name := join(dir, posixPath(e.Name))
		if !yield(name, e.Entry) {
			return false
		}
		if d, ok := e.Entry.(*Dir); ok && !d.Children.walk(name, yield) {
			return false
		}
	}
	return true
}

// defaultRemoteMountCommands are the commands that work sensibly on object
// storage seen as files. The list is part of the format (case MF-001).
var defaultRemoteMountCommands = []string{
	"ls", "find", "stat", "cat", "less", "head", "tail", "du", "grep", "rg", "wc", "sort", "cut",
	"cp", "tee", "echo", "mkdir", "rm",
}

// MountCommands returns the names of the commands to use on storage mounts: what
// the manifest lists, else the default.
func (m *Manifest) MountCommands() []string {
	if m.RemoteMountCommands == nil {
		return slices.Clone(defaultRemoteMountCommands)
	}
	return m.RemoteMountCommands
}

// root returns the root, or the default where none is set.
func (m *Manifest) root() string {
	if m.Root == "" {
		return DefaultRoot
	}
	return m.Root
}

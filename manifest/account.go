package manifest

// User is an account by its name.
type User struct {
	Name string
}

// Group is a group by its name, perhaps with its members.
type Group struct {
	Name string
	// Users are the members. As the owner of an entry a group may be given by its
	// name alone; then Users is nil, and an empty list is one that was written.
	Users []User
}

// Grant is access to one host path outside the workspace (extra_path_grants).
type Grant struct {
	// Path is the absolute, clean path, never "/": at which commands see it, and
	// where it lies on the host unless HostPath says otherwise.
	Path string
	// ReadOnly forbids writing there.
	ReadOnly bool
	// Description is shown to an agent; empty means none.
	Description string
	// HostPath is the absolute host path that is shown at Path, or empty. It is
	// checked here and refused by croft when a workspace is filled.
	HostPath string
}

// Skill is a named folder of instructions for an agent. The folder has a SKILL.md
// at its top; whether it does is seen when the source is opened.
type Skill struct {
	// Name is one path component of letters, digits, '-', '_' and '.'.
	Name string
	// Source is a [*LocalDir] or a [*GitRepo].
	Source Entry
}

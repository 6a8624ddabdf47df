package manifest

// Environment is the list of variables that commands find, in written order.
type Environment []Variable

// Variable is one variable of the environment.
type Variable struct {
	Name string
	// Value says what the variable holds.
	Value Value
	// Entry reports that the variable was written as an entry, with a description
	// or as ephemeral, and is written so again.
	Entry bool
	// Description is shown to an agent; empty means none.
	Description string
	// Ephemeral variables reach commands and are never saved.
	Ephemeral bool
}

// Value is what a variable holds: a [Text] that stands in the manifest, or a
// reference ([HostVariable], [HostFile]) that is looked up on each start. Only
// the reference is ever written out, never what was found.
type Value interface{ value() }

// Text is a value that stands in the manifest.
type Text struct {
	Text string
	// Typed reports that it was written as {type: str, value: ...}, and is written so again.
	Typed bool
}

// HostVariable is the value of a variable of croft's own environment.
type HostVariable struct {
	// Name is the variable's name on the host.
	Name string
}

// HostFile is the content of a host file, without one final newline.
type HostFile struct {
	// Path is the file's path as it was written: relative to the base directory
	// that the caller gives, or absolute.
	Path string
}

func (Text) value()         {}
func (HostVariable) value() {}
func (HostFile) value()     {}

package manifest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/croftdev/croft/internal/document"
	"github.com/croftdev/croft/internal/fault"
)

// MarshalJSON returns the manifest in its normal form: each field that has a
// default is written out, fields come in the order of the reference and names in
// written order. Parsing it gives an equal manifest, with the same normal form. It
// holds the credentials of mounts and never what an environment's references resolve to.
func (m *Manifest) MarshalJSON() ([]byte, error) {
	form, err := m.form()
	if err != nil {
		return nil, err
	}
	return form.MarshalJSON()
}

// form returns the normal form.
func (m *Manifest) form() (ordered, error) {
	entries, err := entriesForm(m.Entries)
	if err != nil {
		return nil, err
	}
	form := ordered{
		{"version", Version},
		{"root", m.root()},
		{"entries", entries},
		{"environment", ordered{{"value", environmentForm(m.Environment)}}},
		{"users", usersForm(m.Users)},
		{"groups", groupsForm(m.Groups)},
		{"extra_path_grants", grantsForm(m.Grants)},
		{"remote_mount_command_allowlist", m.MountCommands()},
	}
	if len(m.Skills) > 0 {
		skills := ordered{}
		for _, s := range m.Skills {
			source, err := sourceForm(s.Source)
			if err != nil {
				return nil, err
			}
			skills = append(skills, pair{s.Name, source})
		}
		form = append(form, pair{"skills", skills})
	}
	return form, nil
}

// weigh returns what a form costs its reader, but for the bytes.
func weigh(form any) document.Weight {
	w := document.Weight{Nodes: 1, Height: 1}
	switch form := form.(type) {
	case ordered:
		for _, p := range form {
			w.Add(weigh(p.value))
		}
	case []ordered:
		for _, item := range form {
			w.Add(weigh(item))
		}
	case []string:
		for range form {
			w.Add(document.Weight{Nodes: 1, Height: 1})
		}
	}
	return w
}

// pair is one field of an ordered.
type pair struct {
	name  string
	value any
}

// ordered is a JSON object that keeps the order of its fields.
type ordered []pair

// MarshalJSON writes the fields in their order. The whole tree goes into one buffer: an
// encoder that is handed each nested object as text checks that text again at every level.
func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	err := writeForm(&b, o)
	return b.Bytes(), err
}

// writeForm writes a form as JSON, with <, > and & as they are.
func writeForm(b *bytes.Buffer, form any) error {
	switch form := form.(type) {
	case ordered:
		b.WriteByte('{')
		for i, p := range form {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeForm(b, p.name); err != nil {
				return err
			}
			b.WriteByte(':')
			if err := writeForm(b, p.value); err != nil {
				return err
			}
		}
		b.WriteByte('}')
		return nil
	case []ordered:
		b.WriteByte('[')
		for i, item := range form {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeForm(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	}
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(form)
	b.Truncate(len(bytes.TrimSuffix(b.Bytes(), []byte("\n"))))
	return err
}

// orNull returns s, or nil for the empty text: in the normal form what is not there is null.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// errEntry is the cause where a program put something into a manifest that is no entry of it.
var errEntry = errors.New("an entry is nil or of no use in its place")

// badEntry returns the error for it.
func badEntry(place string) error {
	return &fault.Error{
		Code: fault.InvalidArgument, Op: "manifest", Reason: "type", Retry: fault.RetryNo, Err: errEntry,
		Message: "the manifest has a nil or foreign entry",
		Details: map[string]any{"place": place},
	}
}

func entriesForm(entries Entries) (ordered, error) {
	out := ordered{}
	for _, e := range entries {
		form, err := entryForm(e.Entry)
		if err != nil {
			return nil, err
		}
		out = append(out, pair{e.Name, form})
	}
	return out, nil
}

// entryForm returns the normal form of an entry.
func entryForm(e Entry) (ordered, error) {
	switch e := e.(type) {
	case *File:
		if utf8.Valid(e.Content) {
			return append(metaForm(e), pair{"content", string(e.Content)}), nil
		}
		return append(metaForm(e), pair{"content_base64", base64.StdEncoding.EncodeToString(e.Content)}), nil
	case *Dir:
		children, err := entriesForm(e.Children)
		return append(metaForm(e), pair{"children", children}), err
	case *LocalFile:
		return append(metaForm(e), pair{"src", e.Src}), nil
	case *LocalDir, *GitRepo:
		source, err := sourceForm(e)
		return append(metaForm(e), source[1:]...), err
	case *Mount:
		return mountForm(e), nil
	default:
		return nil, badEntry("entries")
	}
}

// sourceForm returns the fields of a source of files, its type first.
func sourceForm(e Entry) (ordered, error) {
	switch e := e.(type) {
	case *LocalDir:
		form := ordered{{"type", e.Type()}, {"src", orNull(e.Src)}}
		if e.Symlinks == KeepSymlinks {
			form = append(form, pair{"symlinks", e.Symlinks})
		}
		return form, nil
	case *GitRepo:
		host := e.Host
		if host == "" {
			host = "github.com"
		}
		return ordered{
			{"type", e.Type()}, {"host", host}, {"repo", e.Repo}, {"ref", e.Ref}, {"subpath", orNull(e.Subpath)},
		}, nil
	default:
		return nil, badEntry("skills")
	}
}

// metaForm returns the fields that every entry has.
func metaForm(e Entry) ordered {
	m := e.Common()
	p := DefaultPermissions
	if m.Permissions != nil {
		p = *m.Permissions
	}
	var group any
	if m.Group != nil {
		form := ordered{{"name", m.Group.Name}}
		if m.Group.Users != nil {
			form = append(form, pair{"users", usersForm(m.Group.Users)})
		}
		group = form
	}
	return ordered{
		{"type", e.Type()},
		{"description", orNull(m.Description)},
		{"ephemeral", m.Ephemeral},
		{"group", group},
		{"is_dir", e.IsDir()},
		{"permissions", ordered{
			{"owner", p.Owner}, {"group", p.Group}, {"other", p.Other}, {"directory", p.Directory || e.IsDir()},
		}},
	}
}

func mountForm(m *Mount) ordered {
	strategy := ordered{{"type", m.Strategy.Type}}
	if m.Strategy.Type == "in_container" {
		pattern := append(ordered{{"type", m.Strategy.Pattern}}, settingsForm(m.Strategy.Settings)...)
		strategy = append(strategy, pair{"pattern", pattern})
	} else {
		strategy = append(strategy, settingsForm(m.Strategy.Settings)...)
	}
	form := append(metaForm(m),
		pair{"mount_path", orNull(m.Path)}, pair{"read_only", m.ReadOnly}, pair{"mount_strategy", strategy})
	return append(form, settingsForm(m.Settings)...)
}

// settingsForm returns the fields of settings.
func settingsForm(settings Settings) ordered {
	out := ordered{}
	for _, s := range settings {
		value := s.Value
		if nested, ok := value.(Settings); ok {
			value = settingsForm(nested)
		}
		out = append(out, pair{s.Name, value})
	}
	return out
}

func environmentForm(env Environment) ordered {
	out := ordered{}
	for _, v := range env {
		value := valueForm(v.Value, v.Entry)
		if v.Entry {
			value = ordered{{"description", orNull(v.Description)}, {"ephemeral", v.Ephemeral}, {"value", value}}
		}
		out = append(out, pair{v.Name, value})
	}
	return out
}

// valueForm returns the normal form of a value: of text that has no type and is
// not inside an entry, the text alone.
func valueForm(v Value, inEntry bool) any {
	switch v := v.(type) {
	case HostVariable:
		return ordered{{"type", "host_env"}, {"name", v.Name}}
	case HostFile:
		return ordered{{"type", "host_file"}, {"path", v.Path}}
	case Text:
		if v.Typed || inEntry {
			return ordered{{"type", "str"}, {"value", v.Text}}
		}
		return v.Text
	default:
		return nil
	}
}

func usersForm(users []User) []ordered {
	out := []ordered{}
	for _, u := range users {
		out = append(out, ordered{{"name", u.Name}})
	}
	return out
}

func groupsForm(groups []Group) []ordered {
	out := []ordered{}
	for _, g := range groups {
		out = append(out, ordered{{"name", g.Name}, {"users", usersForm(g.Users)}})
	}
	return out
}

func grantsForm(grants []Grant) []ordered {
	out := []ordered{}
	for _, g := range grants {
		form := ordered{{"path", g.Path}, {"read_only", g.ReadOnly}, {"description", orNull(g.Description)}}
		if g.HostPath != "" {
			form = append(form, pair{"host_path", g.HostPath})
		}
		out = append(out, form)
	}
	return out
}

// UnmarshalJSON parses a manifest that croft itself wrote, as [Parse] does.
func (m *Manifest) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(data, Options{Format: JSON, Name: "manifest"})
	if err != nil {
		return err
	}
	*m = *parsed
	return nil
}

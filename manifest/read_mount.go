package manifest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/croftdev/croft/internal/document"
	"github.com/croftdev/croft/internal/fault"
)

// strategyTypes are the ways to mount storage.
var strategyTypes = []string{"in_container", "docker_volume"}

// patternTypes are the names of mountPatterns, in the order of the reference.
var patternTypes = []string{"rclone", "mountpoint", "fuse", "s3files"}

// mount reads a mount of the given type.
func (r *reader) mount(n *document.Node, place *document.Place, typ string) *Mount {
	spec := mountTypes[typ]
	o, _ := r.Object(n, place, slices.Concat(metaFields, mountFields, fieldNames(spec.settings)))
	m := &Mount{Meta: r.meta(o, true), Kind: typ, ReadOnly: o.Flag("read_only", true), Path: o.Optional("mount_path")}
	if at, _ := o.Get("mount_path"); at != nil {
		r.paths.targets[m] = at.At
	}
	m.Ephemeral = o.Flag("ephemeral", true)
	// A mount has the permissions that its storage gives it; what is written is
	// checked and not used.
	p := DefaultPermissions
	p.Directory = true
	m.Permissions = &p
	m.Settings = r.settings(o, spec.settings)
	if s, place := o.Get("mount_strategy"); s != nil {
		m.Strategy = r.strategy(s, place, typ, spec)
	} else {
		o.Missing("mount_strategy")
	}
	if typ == "r2_mount" && (m.Settings.Text("access_key_id") == "") != (m.Settings.Text("secret_access_key") == "") {
		r.Refuse(n.At, place, fault.MountConfigInvalid, "value",
			"access_key_id and secret_access_key have to be there both or not at all")
	}
	return m
}

// strategy reads how a mount is made, and checks that its type can be mounted so.
func (r *reader) strategy(n *document.Node, place *document.Place, typ string, spec mountType) MountStrategy {
	s := MountStrategy{}
	kind, ok := r.entryType(n, place, strategyTypes)
	if !ok {
		return s
	}
	s.Type = kind
	if kind == "docker_volume" {
		o, _ := r.Object(n, place, slices.Concat([]string{"type"}, fieldNames(driverSettings)))
		s.Settings = r.settings(o, driverSettings)
		driver, place := o.Get("driver")
		if name := s.Settings.Text("driver"); name != "" && !slices.Contains(spec.drivers, name) {
			r.mismatch(driver.At, place, typ, "volume driver", name, spec.drivers)
		}
		return s
	}
	o, _ := r.Object(n, place, []string{"type", "pattern"})
	pattern, place := o.Get("pattern")
	if pattern == nil {
		o.Missing("pattern")
		return s
	}
	if s.Pattern, ok = r.entryType(pattern, place, patternTypes); !ok {
		return s
	}
	settings := mountPatterns[s.Pattern]
	fields, _ := r.Object(pattern, place, slices.Concat([]string{"type"}, fieldNames(settings)))
	s.Settings = r.settings(fields, settings)
	if !slices.Contains(spec.patterns, s.Pattern) {
		r.mismatch(pattern.At, place, typ, "pattern", s.Pattern, spec.patterns)
	}
	return s
}

// mismatch adds the fault that a type of mount cannot be mounted by a tool.
func (r *reader) mismatch(at document.Position, place *document.Place, typ, what, name string, known []string) {
	can := "none"
	if len(known) > 0 {
		can = strings.Join(known, ", ")
	}
	r.Refuse(at, place, fault.MountConfigInvalid, "value",
		fmt.Sprintf("%s cannot be mounted by the %s %q; it can by: %s", typ, what, name, can))
}

// settings reads the fields that specs describe, in their order.
func (r *reader) settings(o document.Fields, specs []setting) Settings {
	out := make(Settings, 0, len(specs))
	for _, spec := range specs {
		out = append(out, Setting{spec.name, r.setting(o, spec)})
	}
	return out
}

// setting reads one field. Where it is missing, its value is the default.
func (r *reader) setting(o document.Fields, spec setting) any {
	n, place := o.Get(spec.name)
	if n == nil {
		return r.absent(o, spec)
	}
	nullable := spec.def == nil && (spec.kind == textField || spec.kind == countField || spec.kind == textsField)
	if n.Kind == document.Null && nullable {
		return nil
	}
	switch spec.kind {
	case nameField:
		return o.Required(spec.name)
	case flagField:
		return r.Boolean(n, place, false)
	case countField:
		i, _ := r.Integer(n, place, 0, math.MaxInt32)
		return i
	case textsField:
		return r.Texts(n, place)
	case mapField, optionsField:
		return r.textMap(n, place, spec.kind == optionsField)
	case settingsField:
		inner, _ := r.Object(n, place, fieldNames(spec.fields))
		return r.settings(inner, spec.fields)
	}
	s, ok := r.Text(n, place)
	if ok {
		r.checkText(n, place, s, spec)
	}
	return s
}

// absent returns the value of a field that is not there.
func (r *reader) absent(o document.Fields, spec setting) any {
	switch spec.kind {
	case nameField:
		return o.Required(spec.name)
	case mapField, optionsField:
		return Settings{}
	case settingsField:
		return r.settings(o.Empty(), spec.fields)
	}
	return spec.def
}

// checkText checks the text of a field. A credential is not repeated in what it says.
func (r *reader) checkText(n *document.Node, place *document.Place, s string, spec setting) {
	if spec.oneOf != nil && !slices.Contains(spec.oneOf, s) {
		r.Invalid(n.At, place, "value", "want one of %s, have %q", strings.Join(spec.oneOf, ", "), s)
	}
	if spec.check != nil {
		if problem := spec.check(s); problem != "" {
			r.Refuse(n.At, place, fault.MountConfigInvalid, "value", problem)
		}
	}
	if spec.host && r.untrusted {
		r.refuseUntrusted(n.At, place, "a file of the host")
	}
}

// textMap reads an object whose values are texts, or null where that is allowed.
func (r *reader) textMap(n *document.Node, place *document.Place, nullable bool) Settings {
	out := Settings{}
	o, ok := r.Object(n, place, nil)
	if !ok {
		return out
	}
	o.Each(func(f document.Field, place *document.Place) {
		if nullable && f.Value.Kind == document.Null {
			out = append(out, Setting{Name: f.Name})
			return
		}
		if s, ok := r.Text(f.Value, place); ok {
			out = append(out, Setting{f.Name, s})
		}
	})
	return out
}

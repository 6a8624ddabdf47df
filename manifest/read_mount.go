package manifest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/croftdev/croft/internal/fault"
)

// strategyTypes are the ways to mount storage.
var strategyTypes = []string{"in_container", "docker_volume"}

// patternTypes are the names of mountPatterns, in the order of the reference.
var patternTypes = []string{"rclone", "mountpoint", "fuse", "s3files"}

// mount reads a mount of the given type.
func (r *reader) mount(n *node, place *trail, typ string) *Mount {
	spec := mountTypes[typ]
	o, _ := r.object(n, place, slices.Concat(metaFields, mountFields, fieldNames(spec.settings)))
	m := &Mount{Meta: r.meta(o, true), Kind: typ, ReadOnly: o.flag("read_only", true), Path: o.optional("mount_path")}
	if at, _ := o.get("mount_path"); at != nil {
		r.paths.targets[m] = at.at
	}
	m.Ephemeral = o.flag("ephemeral", true)
	// A mount has the permissions that its storage gives it; what is written is
	// checked and not used.
	p := DefaultPermissions
	p.Directory = true
	m.Permissions = &p
	m.Settings = r.settings(o, spec.settings)
	if s, place := o.get("mount_strategy"); s != nil {
		m.Strategy = r.strategy(s, place, typ, spec)
	} else {
		o.missing("mount_strategy")
	}
	if typ == "r2_mount" && (m.Settings.Text("access_key_id") == "") != (m.Settings.Text("secret_access_key") == "") {
		r.refuse(n.at, place, fault.MountConfigInvalid, "value",
			"access_key_id and secret_access_key have to be there both or not at all")
	}
	return m
}

// strategy reads how a mount is made, and checks that its type can be mounted so.
func (r *reader) strategy(n *node, place *trail, typ string, spec mountType) MountStrategy {
	s := MountStrategy{}
	kind, ok := r.entryType(n, place, strategyTypes)
	if !ok {
		return s
	}
	s.Type = kind
	if kind == "docker_volume" {
		o, _ := r.object(n, place, slices.Concat([]string{"type"}, fieldNames(driverSettings)))
		s.Settings = r.settings(o, driverSettings)
		driver, place := o.get("driver")
		if name := s.Settings.Text("driver"); name != "" && !contains(spec.drivers, name) {
			r.mismatch(driver.at, place, typ, "volume driver", name, spec.drivers)
		}
		return s
	}
	o, _ := r.object(n, place, []string{"type", "pattern"})
	pattern, place := o.get("pattern")
	if pattern == nil {
		o.missing("pattern")
		return s
	}
	if s.Pattern, ok = r.entryType(pattern, place, patternTypes); !ok {
		return s
	}
	settings := mountPatterns[s.Pattern]
	fields, _ := r.object(pattern, place, slices.Concat([]string{"type"}, fieldNames(settings)))
	s.Settings = r.settings(fields, settings)
	if !contains(spec.patterns, s.Pattern) {
		r.mismatch(pattern.at, place, typ, "pattern", s.Pattern, spec.patterns)
	}
	return s
}

// mismatch adds the fault that a type of mount cannot be mounted by a tool.
func (r *reader) mismatch(at position, place *trail, typ, what, name string, known []string) {
	can := "none"
	if len(known) > 0 {
		can = strings.Join(known, ", ")
	}
	r.refuse(at, place, fault.MountConfigInvalid, "value",
		fmt.Sprintf("%s cannot be mounted by the %s %q; it can by: %s", typ, what, name, can))
}

// settings reads the fields that specs describe, in their order.
func (r *reader) settings(o fieldsOf, specs []setting) Settings {
	out := make(Settings, 0, len(specs))
	for _, spec := range specs {
		out = append(out, Setting{spec.name, r.setting(o, spec)})
	}
	return out
}

// setting reads one field. Where it is missing, its value is the default.
func (r *reader) setting(o fieldsOf, spec setting) any {
	n, place := o.get(spec.name)
	if n == nil {
		return r.absent(o, spec)
	}
	nullable := spec.def == nil && (spec.kind == textField || spec.kind == countField || spec.kind == textsField)
	if n.kind == null && nullable {
		return nil
	}
	switch spec.kind {
	case nameField:
		return o.required(spec.name)
	case flagField:
		return r.boolean(n, place, false)
	case countField:
		i, _ := r.integer(n, place, 0, math.MaxInt32)
		return i
	case textsField:
		return r.texts(n, place)
	case mapField, optionsField:
		return r.textMap(n, place, spec.kind == optionsField)
	case settingsField:
		inner, _ := r.object(n, place, fieldNames(spec.fields))
		return r.settings(inner, spec.fields)
	}
	s, ok := r.text(n, place)
	if ok {
		r.checkText(n, place, s, spec)
	}
	return s
}

// absent returns the value of a field that is not there.
func (r *reader) absent(o fieldsOf, spec setting) any {
	switch spec.kind {
	case nameField:
		return o.required(spec.name)
	case mapField, optionsField:
		return Settings{}
	case settingsField:
		return r.settings(fieldsOf{r: r, n: o.n, place: o.place}, spec.fields)
	}
	return spec.def
}

// checkText checks the text of a field. A credential is not repeated in what it says.
func (r *reader) checkText(n *node, place *trail, s string, spec setting) {
	if spec.oneOf != nil && !contains(spec.oneOf, s) {
		r.invalid(n.at, place, "value", "want one of %s, have %q", strings.Join(spec.oneOf, ", "), s)
	}
	if spec.check != nil {
		if problem := spec.check(s); problem != "" {
			r.refuse(n.at, place, fault.MountConfigInvalid, "value", problem)
		}
	}
	if spec.host && r.untrusted {
		r.refuseUntrusted(n.at, place, "a file of the host")
	}
}

// textMap reads an object whose values are texts, or null where that is allowed.
func (r *reader) textMap(n *node, place *trail, nullable bool) Settings {
	out := Settings{}
	o, ok := r.object(n, place, nil)
	if !ok {
		return out
	}
	o.each(func(f field, place *trail) {
		if nullable && f.value.kind == null {
			out = append(out, Setting{Name: f.name})
			return
		}
		if s, ok := r.text(f.value, place); ok {
			out = append(out, Setting{f.name, s})
		}
	})
	return out
}

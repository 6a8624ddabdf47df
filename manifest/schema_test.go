package manifest

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// schema builds the JSON Schema of a manifest out of the tables that the parser reads by.
func schema() ordered {
	return ordered{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "croft manifest, version 1"},
		{"type", "object"},
		{"properties", schemaFields(manifestFields, map[string]any{
			"version":                        ordered{{"const", Version}},
			"root":                           ordered{{"type", "string"}, {"pattern", "^/"}},
			"entries":                        orNullOf(ref("entries")),
			"environment":                    ref("environment"),
			"users":                          listOf(ref("user")),
			"groups":                         listOf(ref("group")),
			"extra_path_grants":              listOf(ref("grant")),
			"remote_mount_command_allowlist": listOf(textType),
			"skills":                         mapOf(oneOf(sourceSchema("local_dir"), sourceSchema("git_repo"))),
		})},
		{"additionalProperties", false},
		{"$defs", ordered{
			{"entries", mapOf(ref("entry"))},
			{"entry", entrySchema()},
			{"permissions", permissionsSchema()},
			{"user", objectOf(userFields, map[string]any{"name": nameType}, "name")},
			{"group", objectOf(groupFields, map[string]any{"name": nameType, "users": listOf(ref("user"))}, "name", "users")},
			{"owner", objectOf(groupFields, map[string]any{"name": nameType, "users": listOf(ref("user"))}, "name")},
			{"grant", objectOf(grantFields, map[string]any{
				"path": nameType, "read_only": flagType, "description": nullableText, "host_path": nullableText,
			}, "path")},
			{"environment", environmentSchema()},
			{"variable", oneOf(textType, valueSchema(false), objectOf(variableFields, map[string]any{
				"description": nullableText, "ephemeral": flagType,
				"value": oneOf(textType, valueSchema(true)),
			}, "value"))},
			{"strategy", strategySchema()},
		}},
	}
}

var (
	textType     = ordered{{"type", "string"}}
	nameType     = ordered{{"type", "string"}, {"minLength", 1}}
	flagType     = ordered{{"type", "boolean"}}
	nullableText = ordered{{"type", []string{"string", "null"}}}
)

func ref(name string) ordered      { return ordered{{"$ref", "#/$defs/" + name}} }
func listOf(items ordered) ordered { return ordered{{"type", "array"}, {"items", items}} }
func mapOf(values any) ordered {
	return ordered{{"type", "object"}, {"additionalProperties", values}}
}
func oneOf(schemas ...ordered) ordered { return ordered{{"oneOf", schemas}} }
func orNullOf(s ordered) ordered       { return oneOf(s, ordered{{"type", "null"}}) }
func typeSchema(name string) ordered   { return ordered{{"const", name}} }
func enumOf(values []string) ordered   { return ordered{{"enum", values}} }

// schemaFields returns the properties of the named fields, and panics for one without a type:
// a field that the parser got and the schema did not.
func schemaFields(names []string, types map[string]any) ordered {
	out := ordered{}
	for _, name := range names {
		if types[name] == nil {
			panic("the schema has no type for the field " + name)
		}
		out = append(out, pair{name, types[name]})
	}
	if len(types) != len(out) {
		panic("the schema has a field that the parser does not know")
	}
	return out
}

func objectOf(names []string, types map[string]any, required ...string) ordered {
	out := ordered{{"type", "object"}, {"properties", schemaFields(names, types)}}
	if len(required) > 0 {
		out = append(out, pair{"required", required})
	}
	return append(out, pair{"additionalProperties", false})
}

func permissionsSchema() ordered {
	digit := ordered{{"type", "integer"}, {"minimum", 0}, {"maximum", 7}}
	return oneOf(
		ordered{{"type", "string"}, {"pattern", "^[-d]([-r][-w][-xsS]){2}[-r][-w][-xtT][+@]?$"}},
		objectOf(permissionFields, map[string]any{"owner": digit, "group": digit, "other": digit, "directory": flagType}),
	)
}

// metaTypes are the types of the fields that every entry has.
func metaTypes(typ string, isDir bool) map[string]any {
	return map[string]any{
		"type": typeSchema(typ), "description": nullableText, "ephemeral": flagType, "group": orNullOf(ref("owner")),
		"is_dir": ordered{{"const", isDir}}, "permissions": ref("permissions"),
	}
}

// entryTypesOf are the types of the fields of the entries that are no mounts.
func entryTypesOf() map[string]map[string]any {
	return map[string]map[string]any{
		"file":       {"content": textType, "content_base64": textType},
		"dir":        {"children": orNullOf(ref("entries"))},
		"local_file": {"src": nameType},
		"local_dir":  {"src": nullableText, "symlinks": enumOf([]string{string(RefuseSymlinks), string(KeepSymlinks)})},
		"git_repo":   {"host": nameType, "repo": nameType, "ref": nameType, "subpath": nullableText},
	}
}

func entrySchema() ordered {
	required := map[string][]string{"local_file": {"src"}, "git_repo": {"repo", "ref"}}
	var all []ordered
	for _, typ := range entryTypes {
		own, simple := entryFields[typ]
		if !simple {
			all = append(all, mountSchema(typ))
			continue
		}
		types := metaTypes(typ, typ != "file" && typ != "local_file")
		for name, t := range entryTypesOf()[typ] {
			types[name] = t
		}
		s := objectOf(slices.Concat(metaFields, own), types, append([]string{"type"}, required[typ]...)...)
		if typ == "file" {
			s = append(s, pair{"oneOf", []ordered{
				{{"required", []string{"content"}}}, {{"required", []string{"content_base64"}}},
			}})
		}
		all = append(all, s)
	}
	return oneOf(all...)
}

func mountSchema(typ string) ordered {
	types := metaTypes(typ, true)
	types["mount_path"], types["read_only"], types["mount_strategy"] = nullableText, flagType, ref("strategy")
	names := slices.Concat(metaFields, mountFields)
	required := addSettings([]string{"type", "mount_strategy"}, types, mountTypes[typ].settings)
	return objectOf(append(names, fieldNames(mountTypes[typ].settings)...), types, required...)
}

// addSettings adds the types of settings, and returns the fields that have to be there.
func addSettings(required []string, types map[string]any, settings []setting) []string {
	for _, s := range settings {
		types[s.name] = settingSchema(s)
		if s.kind == nameField {
			required = append(required, s.name)
		}
	}
	return required
}

func settingSchema(s setting) ordered {
	nullable := func(typ string) any {
		if s.def == nil {
			return []string{typ, "null"}
		}
		return typ
	}
	switch s.kind {
	case nameField:
		return nameType
	case flagField:
		return flagType
	case countField:
		return ordered{{"type", nullable("integer")}, {"minimum", 0}}
	case textsField:
		return ordered{{"type", nullable("array")}, {"items", textType}}
	case mapField:
		return mapOf(textType)
	case optionsField:
		return mapOf(nullableText)
	case settingsField:
		types := map[string]any{}
		return objectOf(fieldNames(s.fields), types, addSettings(nil, types, s.fields)...)
	}
	if s.oneOf != nil {
		return enumOf(s.oneOf)
	}
	return ordered{{"type", nullable("string")}}
}

func strategySchema() ordered {
	var patterns []ordered
	for _, name := range patternTypes {
		types := map[string]any{"type": typeSchema(name)}
		required := addSettings([]string{"type"}, types, mountPatterns[name])
		patterns = append(patterns, objectOf(append([]string{"type"}, fieldNames(mountPatterns[name])...), types, required...))
	}
	types := map[string]any{"type": typeSchema("docker_volume")}
	required := addSettings([]string{"type"}, types, driverSettings)
	return oneOf(
		objectOf([]string{"type", "pattern"}, map[string]any{"type": typeSchema("in_container"), "pattern": oneOf(patterns...)}, "type", "pattern"),
		objectOf(append([]string{"type"}, fieldNames(driverSettings)...), types, required...),
	)
}

func environmentSchema() ordered {
	return oneOf(
		objectOf(environmentFields, map[string]any{"value": mapOf(ref("variable"))}, "value"),
		append(mapOf(ref("variable")), pair{"not", ordered{{"required", []string{"value"}}}}),
	)
}

// valueSchema is the schema of a value; only inside an entry its type may be missing.
func valueSchema(inEntry bool) ordered {
	fields := map[string]map[string]any{
		"str": {"value": textType}, "host_env": {"name": nameType}, "host_file": {"path": nameType},
	}
	var all []ordered
	for _, typ := range valueTypes {
		types := fields[typ]
		required := []string{"type"}
		for name := range types {
			required = append(required, name)
		}
		if inEntry && typ == "str" {
			required = required[1:]
		}
		types["type"] = typeSchema(typ)
		all = append(all, objectOf(valueFields[typ], types, required...))
	}
	return oneOf(all...)
}

func sourceSchema(typ string) ordered {
	types := entryTypesOf()[typ]
	types["type"] = typeSchema(typ)
	required := []string{"type", "src"}
	if typ == "git_repo" {
		required = []string{"type", "repo", "ref"}
	} else {
		types["src"] = nameType
	}
	return objectOf(skillFields[typ], types, required...)
}

// TestSchema checks that schema.json has the fields of the parser.
func TestSchema(t *testing.T) {
	compact, err := schema().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Indent(&want, compact, "", "  "); err != nil {
		t.Fatal(err)
	}
	want.WriteByte('\n')
	if *update {
		if err := os.WriteFile("schema.json", want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	compareLines(t, Schema, want.String())
}

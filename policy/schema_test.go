package policy

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"testing"
)

var update = flag.Bool("update", false, "write schema.json anew")

type object = map[string]any

// schema builds the JSON Schema of a policy file out of the tables that the parser reads by.
func schema() object {
	texts := func(pattern string) object {
		return object{"type": "array", "uniqueItems": true, "items": object{"type": "string", "pattern": pattern}}
	}
	const (
		hostPath = "^/[^/]"
		relative = "^[^/]"
		call     = "^[a-z][a-z0-9_]*$"
	)
	fields := map[string]object{
		"version": {"const": Version}, "tier": {"enum": tierNames}, "floor": {"enum": tierNames}, "network": {"enum": networkNames},
		"read_paths": texts(hostPath), "write_paths": texts(hostPath), "hidden_paths": texts("^(/[^/]|[^/])"), "protected": texts(relative),
		"limits":       limitsSchema(),
		"system_calls": {"type": "object", "properties": object{"deny": texts(call), "allow": texts(call)}, "additionalProperties": false},
	}
	properties := object{}
	for _, name := range policyFields {
		if fields[name] == nil {
			panic("the schema has no type for the field " + name)
		}
		properties[name] = fields[name]
	}
	if len(properties) != len(fields) {
		panic("the schema has a field that the parser does not know")
	}
	return object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": fmt.Sprintf("croft policy, version %d", Version),
		"type": "object", "properties": properties, "additionalProperties": false,
	}
}

func limitsSchema() object {
	properties := object{}
	for _, f := range limitFields {
		number := object{"type": "integer", "minimum": f.least}
		text := func(pattern string) object { return object{"type": "string", "pattern": pattern} }
		switch f.quantity {
		case size:
			properties[f.name] = object{"oneOf": []any{number, text("^[1-9][0-9]*([KMGT](iB)?)?$")}}
		case count:
			number["maximum"] = most
			properties[f.name] = number
		case span:
			properties[f.name] = object{"oneOf": []any{number, text("^[0-9.]+[0-9.a-zµμ]*$")}}
		case share:
			properties[f.name] = text("^[1-9][0-9]*%$")
		}
	}
	return object{"type": "object", "properties": properties, "additionalProperties": false}
}

// TestSchema checks that schema.json has the fields of the parser.
func TestSchema(t *testing.T) {
	want, err := json.MarshalIndent(schema(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if Schema != string(want) {
		t.Error("schema.json is not what the parser's tables say; write it with go test ./policy -run TestSchema -update")
	}
}

// TestSchemaAgrees holds the schema against the parser: what the parser accepts, the schema
// accepts, and what it refuses for a field, type or value on its own, the schema refuses too.
func TestSchemaAgrees(t *testing.T) {
	var s object
	if err := json.Unmarshal([]byte(Schema), &s); err != nil {
		t.Fatal(err)
	}
	for _, tt := range texts {
		var value any
		if json.Unmarshal([]byte(tt.text), &value) != nil {
			continue // YAML, or not well-formed
		}
		got := valid(t, s, value)
		if want := tt.faults == nil || tt.beyondSchema; got != want {
			t.Errorf("%s: the schema accepts it: %v, want %v", tt.name, got, want)
		}
	}
}

// valid reports whether value is one of the schema, as far as the schema uses JSON Schema; a
// keyword that it does not know fails the test.
func valid(t *testing.T, s object, value any) bool {
	t.Helper()
	ok := true
	for keyword, arg := range s {
		switch keyword {
		case "$schema", "title":
		case "type":
			ok = ok && hasType(value, arg.(string))
		case "const":
			ok = ok && value == arg
		case "enum":
			ok = ok && slices.Contains(arg.([]any), value)
		case "pattern":
			text, isText := value.(string)
			ok = ok && (!isText || regexp.MustCompile(arg.(string)).MatchString(text))
		case "minimum":
			n, isNumber := value.(float64)
			ok = ok && (!isNumber || n >= arg.(float64))
		case "maximum":
			n, isNumber := value.(float64)
			ok = ok && (!isNumber || n <= arg.(float64))
		case "oneOf":
			matches := 0
			for _, one := range arg.([]any) {
				if valid(t, one.(object), value) {
					matches++
				}
			}
			ok = ok && matches == 1
		case "uniqueItems":
			items, _ := value.([]any)
			for i, item := range items {
				ok = ok && !slices.Contains(items[:i], item)
			}
		case "items":
			items, _ := value.([]any)
			for _, item := range items {
				ok = ok && valid(t, arg.(object), item)
			}
		case "properties":
			fields, _ := value.(object)
			for name, field := range fields {
				if of, known := arg.(object)[name]; known {
					ok = ok && valid(t, of.(object), field)
				}
			}
		case "additionalProperties":
			fields, _ := value.(object)
			for name := range fields {
				_, known := s["properties"].(object)[name]
				ok = ok && known
			}
		default:
			t.Fatalf("the test does not know the keyword %s", keyword)
		}
	}
	return ok
}

func hasType(value any, name string) bool {
	switch value := value.(type) {
	case string:
		return name == "string"
	case []any:
		return name == "array"
	case object:
		return name == "object"
	case float64:
		return name == "integer" && value == math.Trunc(value)
	}
	return false
}

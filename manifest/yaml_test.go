package manifest

import (
	"testing"
)

// TestYAMLTyping shows which Go value each spelling becomes, by the fields that take it.
func TestYAMLTyping(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        string // of the variable; "" for a fault
	}{
		{"plain", "hello", "hello"},
		{"single quotes", "'yes'", "yes"},
		{"double quotes", `"0644"`, "0644"},
		{"block", "|\n    a\n    b\n", "a\nb\n"},
		{"folded", ">-\n    a\n    b\n", "a b"},
		{"several lines", "a\n    b", "a b"},
		{"version", "1.2.3", "1.2.3"},
		{"date", "2001-02-03", "2001-02-03"},
		{"with a colon", `"a: b"`, "a: b"},
		{"yes", "yes", ""},
		{"No", "No", ""},
		{"ON", "ON", ""},
		{"y", "y", ""},
		{"true", "true", ""},
		{"octal", "0644", ""},
		{"number", "12", ""},
		{"infinity", ".inf", ""},
		{"tilde", "~", ""},
		{"nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, faults := Check([]byte("environment:\n  A: "+tt.value+"\n"), Options{Format: YAML})
			switch {
			case tt.want == "" && len(faults) != 1:
				t.Errorf("faults = %v, want one", faults)
			case tt.want != "" && len(faults) > 0:
				t.Errorf("faults = %v, want none", faults)
			case tt.want != "" && m.Environment[0].Value != (Text{Text: tt.want}):
				t.Errorf("value = %q, want %q", m.Environment[0].Value, tt.want)
			}
		})
	}
}

// TestAliases gives an alias the whole of what its anchor stands at.
func TestAliases(t *testing.T) {
	m := parseFile(t, "aliases.yaml")
	for _, e := range m.Entries {
		if f, ok := e.Entry.(*File); !ok || string(f.Content) != "same" {
			t.Errorf("%s = %+v", e.Name, e.Entry)
		}
	}
	if len(m.Entries) != 3 || m.Environment[1].Value != (Text{Text: "1"}) {
		t.Errorf("entries %v, environment %v", m.Entries, m.Environment)
	}
}

package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDoc: doc/policy.md has a row for each field, limit and preset.
func TestDoc(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "doc", "policy.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{policyFields, LimitNames(), PresetNames()} {
		for _, name := range names {
			if strings.Count(string(text), "\n| `"+name+"` |") != 1 {
				t.Errorf("doc/policy.md has no row for %s, or more than one", name)
			}
		}
	}
}

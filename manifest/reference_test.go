package manifest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestReference checks that doc/manifest.md names every field, type and limit that the parser knows.
func TestReference(t *testing.T) {
	doc, err := os.ReadFile("../doc/manifest.md")
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Concat(manifestFields, metaFields, mountFields, grantFields, permissionFields, environmentFields,
		variableFields, entryTypes, strategyTypes, patternTypes, valueTypes, skillTypes, fieldNames(driverSettings))
	for _, fields := range entryFields {
		names = append(names, fields...)
	}
	for _, m := range mountTypes {
		names = append(names, fieldNames(m.settings)...)
	}
	for _, settings := range mountPatterns {
		names = append(names, fieldNames(settings)...)
	}
	words := strings.FieldsFunc(string(doc), func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", r)
	})
	for _, name := range names {
		if !slices.Contains(words, name) {
			t.Errorf("doc/manifest.md does not name %s", name)
		}
	}
}

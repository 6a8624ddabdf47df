package fault_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/croftdev/croft/internal/fault"
)

// TestCodesAreExplained holds doc/errors.md against the codes: each stands in one
// row, and no row explains a code that there is not.
func TestCodesAreExplained(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "doc", "errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[fault.Code]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [^|]+ \\| [^|]+ \\|$").FindAllSubmatch(text, -1) {
		rows[fault.Code(m[1])]++
	}
	codes := fault.Codes()
	for _, c := range codes {
		if rows[c] != 1 {
			t.Errorf("%s has %d rows, want 1", c, rows[c])
		}
	}
	for c := range rows {
		if !slices.Contains(codes, c) {
			t.Errorf("%s is no code", c)
		}
	}
}

func TestCodesAreListedOnce(t *testing.T) {
	src, err := os.ReadFile("code.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^\t\w+ +Code = "([a-z_]+)"`).FindAllSubmatch(src, -1)
	listed := map[fault.Code]int{}
	for _, c := range fault.Codes() {
		listed[c]++
	}
	for _, m := range declared {
		if c := fault.Code(m[1]); listed[c] != 1 {
			t.Errorf("%s is listed %d times in Codes, want once", c, listed[c])
		}
	}
	if len(declared) != len(listed) {
		t.Errorf("%d codes declared, %d listed", len(declared), len(listed))
	}
}

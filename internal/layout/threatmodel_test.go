package layout

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreatModel: each defence that doc/threat-model.md claims names a file and a test, and
// both exist. A claim whose test was renamed away is no longer shown by anything.
func TestThreatModel(t *testing.T) {
	top := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(top, "doc", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	defence := regexp.MustCompile("^`([^`]+\\.go)`$")
	proof := regexp.MustCompile("^`([^`]+_test\\.go)` `((?:Test|Fuzz)\\w+)`$")
	rows, tables := 0, 0
	in := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "| attack | defence | file | test |":
			in = true
			tables++
			continue
		case !strings.HasPrefix(line, "|"):
			in = false
		}
		if !in || strings.HasPrefix(line, "|---") {
			continue
		}
		rows++
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 {
			t.Errorf("not 4 cells: %s", line)
			continue
		}
		file := defence.FindStringSubmatch(strings.TrimSpace(cells[2]))
		test := proof.FindStringSubmatch(strings.TrimSpace(cells[3]))
		if file == nil || test == nil {
			t.Errorf("no file, or no test: %s", line)
			continue
		}
		if _, err := os.Stat(filepath.Join(top, file[1])); err != nil {
			t.Errorf("%s: %v", strings.TrimSpace(cells[0]), err)
		}
		source, err := os.ReadFile(filepath.Join(top, test[1]))
		if err != nil || !bytes.Contains(source, []byte("func "+test[2]+"(")) {
			t.Errorf("%s: %s has no %s (%v)", strings.TrimSpace(cells[0]), test[1], test[2], err)
		}
	}
	if tables < 4 || rows < 30 {
		t.Errorf("%d tables with %d rows were read", tables, rows)
	}
}

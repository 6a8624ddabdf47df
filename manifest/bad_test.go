package manifest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croftdev/croft/internal/document"
	"github.com/croftdev/croft/internal/fault"
)

var update = flag.Bool("update", false, "write testdata/bad.txt anew")

// lineOf returns a fault as testdata/bad.txt has it.
func lineOf(f *fault.Error) string {
	code := string(f.Code)
	if f.Reason != "" {
		code += "/" + f.Reason
	}
	return fmt.Sprintf("%v:%v %s %q", f.Details["line"], f.Details["column"], code, f.Details["place"])
}

// TestBad checks that every manifest in testdata/bad has exactly the faults that
// testdata/bad.txt lists for it: line, column, code and place. A manifest whose name begins with
// "untrusted" is read as one.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*")
	if err != nil || len(files) < 40 {
		t.Fatalf("testdata/bad has %d manifests, %v", len(files), err)
	}
	var got strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		opts := Options{Name: name, Untrusted: strings.HasPrefix(name, "untrusted")}
		m, faults := Check(data, opts)
		if m != nil || len(faults) == 0 {
			t.Errorf("%s: accepted", name)
			continue
		}
		first, err := Parse(data, opts)
		if first != nil || err == nil || err.Error() != faults[0].Error() {
			t.Errorf("%s: Parse = %v, %v; want the first fault of Check: %v", name, first, err, faults[0])
		}
		fmt.Fprintln(&got, name)
		for _, f := range faults {
			fmt.Fprintf(&got, "\t%s\n", lineOf(f))
			if !strings.HasPrefix(f.Message, name+":") || f.Details["problem"] == "" {
				t.Errorf("%s: message %q, details %v", name, f.Message, f.Details)
			}
		}
	}
	const golden = "testdata/bad.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	compareLines(t, got.String(), string(want))
}

// compareLines reports the first line in which two texts differ.
func compareLines(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	g, w = append(g, "(end)"), append(w, "(end)")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("line %d:\n got %s\nwant %s", i+1, g[i], w[i])
			return
		}
	}
}

// TestSecretsAreNotRepeated checks that no fault of a mount repeats a credential.
func TestSecretsAreNotRepeated(t *testing.T) {
	for _, file := range []string{"mount_secret_type.json", "mount_endpoint.json"} {
		data, err := os.ReadFile(filepath.Join("testdata/bad", file))
		if err != nil {
			t.Fatal(err)
		}
		_, faults := Check(data, Options{})
		for _, f := range faults {
			if text := fmt.Sprint(f, f.Details); strings.Contains(text, "leak") || strings.Contains(text, "pass@") {
				t.Errorf("%s: %s", file, text)
			}
		}
	}
}

// TestTooLarge refuses a manifest of 10 MB by its size alone, and one within the size by
// the number of its values; both name the limit.
func TestTooLarge(t *testing.T) {
	var big strings.Builder
	big.WriteString(`{"entries": {`)
	for i := 0; big.Len() < 10<<20; i++ {
		fmt.Fprintf(&big, `"f%d": {"type": "dir"},`, i)
	}
	many := `{"users": [` + strings.Repeat(`{},`, MaxNodes) + `{}]}`
	var files strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&files, `"f%d": {"type": "dir"},`, i)
	}
	manyFiles := `{"entries": {` + strings.TrimSuffix(files.String(), ",") + `}}`
	deep := `{"entries": ` + strings.Repeat(`{"d": {"type": "dir", "children": `, 49) + `{}` + strings.Repeat(`}}`, 49) + `}`
	manyYAML := "users:\n" + strings.Repeat("- a\n", MaxYAMLTokens)
	for _, tt := range []struct{ name, text, limit string }{
		{"10 MB", big.String(), fmt.Sprint(MaxBytes)},
		{"values in JSON", many, fmt.Sprint(MaxNodes)},
		{"values in the normal form", manyFiles, fmt.Sprint(MaxNodes)},
		{"depth of the normal form", deep, fmt.Sprint(MaxDepth)},
		{"tokens of YAML", manyYAML, fmt.Sprint(MaxYAMLTokens)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, faults := Check([]byte(tt.text), Options{})
			if len(faults) != 1 || faults[0].Code != fault.LimitExceeded {
				t.Fatalf("faults = %v, want one of the code %s", faults, fault.LimitExceeded)
			}
			if problem := faults[0].Details["problem"].(string); !strings.Contains(problem, tt.limit) {
				t.Errorf("problem = %q, want it to name %s", problem, tt.limit)
			}
		})
	}
}

// TestManyFaults bounds the list of faults and says so.
func TestManyFaults(t *testing.T) {
	text := `{"users": [` + strings.Repeat("1,", 2*document.MaxFaults) + `1]}`
	_, faults := Check([]byte(text), Options{})
	last := faults[len(faults)-1]
	if len(faults) != document.MaxFaults || last.Code != fault.LimitExceeded {
		t.Errorf("%d faults, the last of them %v; want %d and %s", len(faults), last, document.MaxFaults, fault.LimitExceeded)
	}
}

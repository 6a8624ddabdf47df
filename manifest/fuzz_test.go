package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzParse checks what the package promises of any text: a fault always has a place; an
// accepted manifest names only paths in the workspace, each once; and its normal form is read back as itself.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*", "testdata/good/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			if len(data) < 4096 {
				f.Add(data, strings.HasSuffix(file, ".yaml"))
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, yaml bool) {
		opts := Options{Format: JSON}
		if yaml {
			opts.Format = YAML
		}
		m, faults := Check(data, opts)
		for _, f := range faults {
			line, _ := f.Details["line"].(int)
			column, _ := f.Details["column"].(int)
			if f.Code == "" || f.Details["place"] == "" || line < 1 || column < 1 || f.Details["problem"] == "" {
				t.Errorf("a fault without a place: %v %v", f, f.Details)
			}
		}
		if (m == nil) != (len(faults) > 0) {
			t.Fatalf("manifest %v with faults %v", m, faults)
		}
		if m != nil {
			checkAccepted(t, m)
		}
	})
}

// checkAccepted checks the promises on an accepted manifest.
func checkAccepted(t *testing.T, m *Manifest) {
	t.Helper()
	seen := map[string]bool{}
	for name := range m.All() {
		if !filepath.IsLocal(name) || name != filepath.Clean(name) || seen[name] {
			t.Errorf("the entry %q leaves the workspace, is not clean or is there twice", name)
		}
		seen[name] = true
	}
	ephemeral, err := m.EphemeralPaths()
	if err != nil {
		t.Errorf("EphemeralPaths: %v", err)
	}
	for _, name := range ephemeral {
		if !filepath.IsLocal(name) {
			t.Errorf("the ephemeral path %q leaves the workspace", name)
		}
	}
	text, err := m.Describe(AllLevels, NoLimit)
	if err != nil || strings.Count(text, "\n") <= len(seen)-1 {
		t.Errorf("Describe = %q, %v", text, err)
	}
	form, err := m.MarshalJSON()
	if err != nil {
		t.Fatalf("MarshalJSON: %v", err)
	}
	again, err := Parse(form, Options{Format: JSON})
	if err != nil {
		t.Fatalf("the normal form is refused: %v\n%s", err, form)
	}
	formAgain, err := again.MarshalJSON()
	if err != nil || string(formAgain) != string(form) {
		t.Errorf("the normal form changes: %v\n%s\n%s", err, form, formAgain)
	}
}

// FuzzPermissions checks that what ParsePermissions accepts is printed and read back.
func FuzzPermissions(f *testing.F) {
	for _, s := range []string{"-rw-r--r--", "drwxr-xr-x", "-rwsr-Sr-t", "-rw-r--r--+", "0644", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePermissions(s)
		if err != nil {
			return
		}
		again, err := ParsePermissions(p.String())
		if err != nil || again != p || PermissionsFromMode(p.Mode()) != p {
			t.Errorf("%q is %v, printed and read back %v, %v", s, p, again, err)
		}
	})
}

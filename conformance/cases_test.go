package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// caseFile is one file of cases.
type caseFile struct {
	Area   string                     `json:"area"`
	Format map[string]json.RawMessage `json:"format"`
	Cases  []*oneCase                 `json:"cases"`
}

// oneCase is one case as it stands in the file; placeholders are not filled in yet.
type oneCase struct {
	ID        string            `json:"id"`
	What      string            `json:"what"`
	Setup     []json.RawMessage `json:"setup"`
	Op        json.RawMessage   `json:"op"`
	Expect    json.RawMessage   `json:"expect"`
	Preferred json.RawMessage   `json:"preferred"`
	Requires  []string          `json:"requires"`
	Optional  bool              `json:"optional"`
	Quirk     string            `json:"quirk"`
	Source    string            `json:"source"`

	area string
	call string
	once sync.Once
	res  result
}

// errNoCases is returned where the folder of cases is not there at all.
var errNoCases = errors.New("no folder of conformance cases")

// casesDir returns the folder of the cases and whether CROFT_CASES named it.
//
// Without CROFT_CASES it is shared/conformance in the nearest directory above that
// has one. Not found there is errNoCases; a CROFT_CASES that leads nowhere is
// another error, since somebody meant it.
func casesDir() (dir string, named bool, err error) {
	if dir = os.Getenv("CROFT_CASES"); dir != "" {
		if _, err := os.Stat(dir); err != nil {
			return "", true, fmt.Errorf("CROFT_CASES: %w", err)
		}
		return dir, true, nil
	}
	at, err := os.Getwd()
	if err != nil {
		return "", false, err
	}
	for {
		dir = filepath.Join(at, "shared", "conformance")
		_, err := os.Stat(dir)
		switch {
		case err == nil:
			return dir, false, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", false, err
		case filepath.Dir(at) == at:
			return "", false, errNoCases
		}
		at = filepath.Dir(at)
	}
}

// loadCases reads every file of dir, in the order of their names. A folder without
// cases, an unknown key of a file or a case, and an id used twice are errors.
func loadCases(dir string) ([]*caseFile, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s holds no case files", dir)
	}
	slices.Sort(names)
	var files []*caseFile
	seen := map[string]string{}
	for _, name := range names {
		f, err := loadFile(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		for _, c := range f.Cases {
			if first, ok := seen[c.ID]; ok {
				return nil, fmt.Errorf("id %s stands in %s and in %s", c.ID, first, f.Area)
			}
			seen[c.ID] = f.Area
		}
		files = append(files, f)
	}
	return files, nil
}

func loadFile(name string) (*caseFile, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f := &caseFile{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(f); err != nil {
		return nil, err
	}
	if f.Area == "" || len(f.Cases) == 0 {
		return nil, errors.New("no area or no cases")
	}
	for _, c := range f.Cases {
		var op struct {
			Call string `json:"call"`
		}
		if err := json.Unmarshal(c.Op, &op); err != nil {
			return nil, fmt.Errorf("%s: %w", c.ID, err)
		}
		if c.ID == "" || op.Call == "" || len(c.Expect) == 0 {
			return nil, fmt.Errorf("case %q: no id, call or expect", c.ID)
		}
		c.area, c.call = f.Area, op.Call
	}
	return f, nil
}

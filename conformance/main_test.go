package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/croftdev/croft"
)

// TestMain lets croft's helpers re-execute this binary, runs the cases, and then
// prints the counts and writes the report.
func TestMain(m *testing.M) {
	croft.Init()
	if os.Getenv(childVar) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// The cases' modes are those of umask 022.
	syscall.Umask(0o022)
	code := m.Run()
	if err := report(); err != nil {
		fmt.Fprintln(os.Stderr, "conformance report:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// TestCases runs every case as a subtest AREA/ID. Pending ones are counted and
// reported, and are no subtests.
func TestCases(t *testing.T) {
	files, strict := suite(t)
	for _, f := range files {
		t.Run(f.Area, func(t *testing.T) {
			for _, c := range f.Cases {
				if !strict && pending(c.area, c.call) != "" {
					c.outcomeOf(strict)
					continue
				}
				t.Run(c.ID, func(t *testing.T) {
					switch r := c.outcomeOf(strict); r.Result {
					case failed:
						t.Errorf("%s: %s\n%s", c.call, c.What, r.Why)
					case skipped:
						t.Skip(r.Why)
					}
				})
			}
		})
	}
}

// TestMutants changes each wanted value of each case that passes, one at a time,
// and requires that the case then fails. A change that goes unnoticed means that
// the case does not test what it says.
func TestMutants(t *testing.T) {
	files, strict := suite(t)
	cases, total := 0, 0
	for _, f := range files {
		for _, c := range f.Cases {
			r := c.outcomeOf(strict)
			if r.Result != passed {
				continue
			}
			cases++
			total += r.mutants
			if r.mutants == 0 {
				t.Errorf("%s %s: nothing in it can be changed", c.area, c.ID)
			}
			for _, s := range r.survived {
				t.Errorf("%s %s: still passes with %s", c.area, c.ID, s)
			}
		}
	}
	t.Logf("%d changes in %d passing cases", total, cases)
}

// load reads the cases once for all tests, so that each case runs once.
var load = sync.OnceValues(func() ([]*caseFile, error) {
	dir, _, err := casesDir()
	if err != nil {
		return nil, err
	}
	return loadCases(dir)
})

// suite returns the cases and whether CROFT_CASES forbids pending ones.
func suite(t *testing.T) (files []*caseFile, strict bool) {
	t.Helper()
	files, err := load()
	if errors.Is(err, errNoCases) {
		t.Skip("no folder of conformance cases: put it at shared/conformance beside the repository, or name it in CROFT_CASES")
	}
	if err != nil {
		t.Fatalf("conformance cases: %v\nCROFT_CASES must name a folder of case files", err)
	}
	return files, os.Getenv("CROFT_CASES") != ""
}

var (
	resultsMu sync.Mutex
	results   []result
)

func record(r result) {
	resultsMu.Lock()
	defer resultsMu.Unlock()
	results = append(results, r)
}

// report prints the counts of each area and writes the file that
// CROFT_CASES_REPORT names.
func report() error {
	resultsMu.Lock()
	defer resultsMu.Unlock()
	counts := map[string]map[string]int{}
	var names []string
	for _, r := range results {
		if counts[r.Area] == nil {
			counts[r.Area] = map[string]int{}
			names = append(names, r.Area)
		}
		counts[r.Area][r.Result]++
	}
	slices.Sort(names)
	for _, n := range names {
		c := counts[n]
		fmt.Printf("%-18s %3d passed, %d failed, %d skipped, %d pending\n", n, c[passed], c[failed], c[skipped], c[waiting])
	}
	path := os.Getenv("CROFT_CASES_REPORT")
	if path == "" {
		return nil
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for _, r := range results {
		if err := enc.Encode(r); err != nil {
			return errors.Join(err, out.Close())
		}
	}
	return out.Close()
}

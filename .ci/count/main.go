// Count reads the output of `go test -json` and says how many tests passed, failed
// and were skipped. It exits with 1 when a test failed, when none ran, or when one
// was skipped that the list of known skips does not name: a quiet skip looks like
// a pass.
//
//	go run ./.ci/count -known .ci/known-skips root=root.json user=user.json
//
// Each argument is a run's name and its file. A line of the list is
//
//	RUN TEST TEXT # REASON
//
// with the run's name or *, a pattern of "PACKAGE.TEST" (the package's path in the
// module), a quoted pattern of what the skip says, and why that is right. A skip that
// is known for one run only must have passed in another, so that nothing is skipped
// everywhere. Only leaves count: a test with subtests is as many as its subtests.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

const module = "github.com/croftdev/croft"

// event is one line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// test is what became of one test of one run.
type test struct {
	run, name string // name is PACKAGE.TEST; the test is empty for a package that failed as a whole
	action    string
	output    strings.Builder
}

// skipRule is a line of the list of known skips.
type skipRule struct {
	run        string
	name, text *regexp.Regexp
	line       string
	used       bool
}

func main() {
	known := flag.String("known", "", "the list of known skips")
	flag.Parse()
	if err := count(*known, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
}

func count(known string, args []string) error {
	rules, err := readRules(known)
	if err != nil {
		return err
	}
	var tests []*test
	ran := map[string]bool{} // what passed in some run, tests with subtests too
	for _, arg := range args {
		run, file, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=FILE", arg)
		}
		ts, err := readRun(run, file, ran)
		if err != nil {
			return err
		}
		tests = append(tests, ts...)
	}
	var passed, failed, skipped, unknown int
	for _, t := range tests {
		switch t.action {
		case "pass":
			passed++
		case "skip":
			skipped++
			switch r := knownAs(rules, t); {
			case r == nil:
				unknown++
				fmt.Printf("UNKNOWN SKIP %s: %s\n%s", t.run, t.name, t.output.String())
			case r.run != "*" && len(args) > 1 && !ran[t.name]:
				unknown++
				fmt.Printf("SKIPPED EVERYWHERE: %s\n%s", t.name, t.output.String())
			}
		default:
			failed++
			fmt.Printf("FAIL %s: %s\n%s", t.run, t.name, t.output.String())
		}
	}
	for _, r := range rules {
		if !r.used {
			fmt.Printf("note: no test was skipped for: %s\n", r.line)
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	switch {
	case failed > 0:
		return fmt.Errorf("%d tests failed", failed)
	case unknown > 0:
		return fmt.Errorf("%d skips are not in %s", unknown, known)
	case passed == 0:
		return fmt.Errorf("no test ran")
	}
	return nil
}

// readRun returns the leaves among the tests of one file, and a package that failed
// without a failed test, such as one that did not build. It notes in ran what passed.
func readRun(run, file string, ran map[string]bool) ([]*test, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	byName := map[string]*test{}
	var names []string
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 64<<20)
	for sc.Scan() {
		var e event
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			continue // a line that a build wrote past the JSON
		}
		name := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/") + "." + e.Test
		t := byName[name]
		if t == nil {
			t = &test{run: run, name: name}
			byName[name] = t
			names = append(names, name)
		}
		switch e.Action {
		case "output":
			t.output.WriteString(e.Output)
		case "pass", "fail", "skip":
			t.action = e.Action
			ran[name] = ran[name] || e.Action == "pass"
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return leaves(byName, names), nil
}

func leaves(byName map[string]*test, names []string) []*test {
	parents, brokenBelow := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		pkg, testName, _ := strings.Cut(name, ".")
		if testName == "" {
			continue
		}
		for i, r := range testName {
			if r == '/' {
				parents[pkg+"."+testName[:i]] = true
			}
		}
		if a := byName[name].action; a != "pass" && a != "skip" {
			brokenBelow[pkg+"."] = true
		}
	}
	var out []*test
	for _, name := range names {
		t := byName[name]
		if strings.HasSuffix(name, ".") {
			// A package: counts only if it failed and no test of it says why.
			if t.action != "fail" || brokenBelow[name] {
				continue
			}
		} else if parents[name] && t.action != "fail" {
			continue
		} else if parents[name] && failedChild(byName, names, name) {
			continue
		}
		out = append(out, t)
	}
	return out
}

func failedChild(byName map[string]*test, names []string, parent string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		return strings.HasPrefix(n, parent+"/") && byName[n].action == "fail"
	})
}

func readRules(file string) ([]*skipRule, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rules []*skipRule
	for i, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		m := ruleLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%s:%d: want RUN TEST \"TEXT\" # REASON", file, i+1)
		}
		name, err := regexp.Compile("^(?:" + m[2] + ")$")
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		text, err := regexp.Compile(m[3])
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		rules = append(rules, &skipRule{run: m[1], name: name, text: text, line: line})
	}
	return rules, nil
}

// ruleLine takes a line of the list apart.
var ruleLine = regexp.MustCompile(`^(\S+)\s+(\S+)\s+"([^"]+)"\s+#\s*\S`)

// knownAs returns the rule that a skip falls under, or nil.
func knownAs(rules []*skipRule, t *test) *skipRule {
	for _, r := range rules {
		if (r.run == "*" || r.run == t.run) && r.name.MatchString(t.name) && r.text.MatchString(t.output.String()) {
			r.used = true
			return r
		}
	}
	return nil
}

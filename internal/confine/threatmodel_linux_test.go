package confine

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listed is an entry of the deny list, in the code or in doc/threat-model.md.
type listed struct {
	call, errno string
	// constants are those that decide whether it applies.
	constants []string
}

// TestThreatModelNamesTheDenyList compares the deny list in the code with the one in the
// threat model: calls, answers, and the constants of conditions. The sources are read, not the list that was built,
// since only they have the names, and the calls of every architecture.
func TestThreatModelNamesTheDenyList(t *testing.T) {
	perFile := map[string][]listed{}
	var all []listed
	for _, name := range []string{"seccomp_linux.go", "seccomp_linux_amd64.go", "seccomp_linux_arm64.go"} {
		perFile[name] = entriesOf(t, name)
		all = append(all, perFile[name]...)
	}
	built := len(perFile["seccomp_linux.go"]) + len(perFile["seccomp_linux_"+runtime.GOARCH+".go"])
	if got := len(denials(true)); got != built {
		t.Errorf("the sources have %d entries, the list that is built from them has %d", built, got)
	}
	doc := documented(t)
	if diff := cmp.Diff(sorted(all), sorted(doc)); diff != "" {
		t.Errorf("doc/threat-model.md is not what the code denies (-code +doc):\n%s", diff)
	}
}

func sorted(list []listed) []string {
	var lines []string
	for _, l := range list {
		slices.Sort(l.constants)
		lines = append(lines, fmt.Sprint(l.call, " ", l.errno, " ", slices.Compact(l.constants)))
	}
	slices.Sort(lines)
	return lines
}

// documented reads the table of the threat model, each row of which has a reason.
func documented(t *testing.T) []listed {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "doc", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| call | answer | when | why |\n|---|---|---|---|\n")
	if !ok {
		t.Fatal("doc/threat-model.md has no table of system calls")
	}
	constant := regexp.MustCompile("`([A-Z][A-Z0-9_]+)`")
	var list []listed
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			break
		}
		if len(strings.TrimSpace(cells[3])) < 8 {
			t.Errorf("no reason: %s", line)
		}
		l := listed{call: strings.Trim(cells[0], " `"), errno: strings.TrimSpace(cells[1])}
		for _, m := range constant.FindAllStringSubmatch(cells[2], -1) {
			l.constants = append(l.constants, m[1])
		}
		list = append(list, l)
	}
	return list
}

// entriesOf returns the entries of the deny list that one source file holds.
func entriesOf(t *testing.T, name string) []listed {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The flags that clone and unshare share have a name of their own.
	var flags []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == "namespaceFlags" {
			flags = constantsIn(v.Values[0], nil)
		}
		return true
	})
	var list []listed
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) == 0 {
			return true
		}
		call, isCall := strings.CutPrefix(unixName(lit.Elts[0]), "SYS_")
		if !isCall {
			return true
		}
		if errno := ""; len(lit.Elts) == 3 {
			if errno = unixName(lit.Elts[1]); strings.HasPrefix(errno, "E") {
				list = append(list, listed{strings.ToLower(call), errno, constantsIn(lit.Elts[2], flags)})
				return false
			}
		}
		for _, e := range lit.Elts {
			list = append(list, listed{call: strings.ToLower(strings.TrimPrefix(unixName(e), "SYS_")), errno: "EPERM"})
		}
		return false
	})
	return list
}

// constantsIn returns X for each unix.X in n, and flags for namespaceFlags.
func constantsIn(n ast.Node, flags []string) []string {
	var names []string
	ast.Inspect(n, func(n ast.Node) bool {
		if c := unixName(n); c != "" {
			names = append(names, c)
		}
		if id, ok := n.(*ast.Ident); ok && id.Name == "namespaceFlags" {
			names = append(names, flags...)
		}
		return true
	})
	return names
}

// unixName returns X of unix.X.
func unixName(n ast.Node) string {
	if s, ok := n.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "unix" {
			return s.Sel.Name
		}
	}
	return ""
}

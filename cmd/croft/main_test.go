package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/croftdev/croft"
)

func TestMain(m *testing.M) {
	croft.Init() // the scripts' croft is this binary, and so are its helpers
	// Under nohup these are ignored, croft rightly stays deaf to them, and the scripts that
	// send them would wait. A signal that is caught here is back to its default in a child.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	testscript.Main(m, map[string]func(){"croft": main})
}

func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("CROFT_DIR", filepath.Join(e.WorkDir, "state"))
			e.Setenv("EXAMPLES", examples)
			e.Setenv("HOST_SECRET", "hs")
			// Seconds for a sleep that no other test on this machine has.
			e.Setenv("LONG", fmt.Sprintf("4%d%03d", os.Getpid(), scripts.Add(1)))
			return os.MkdirAll(filepath.Join(e.WorkDir, "p"), 0o755)
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			default:
				return false, fmt.Errorf("unknown condition %q", cond)
			}
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   scriptExits,
			"json":    scriptJSON,
			"nothing": scriptNothing,
			"owner":   scriptOwner,
		},
	})
}

// scripts counts the scripts that were set up.
var scripts atomic.Int32

// scriptExits runs a program and checks its exit code: exits CODE PROGRAM [ARG...].
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// scriptJSON compares a value in a JSON file: json FILE a.b.c VALUE, where VALUE is
// JSON, or a word that stands for the string.
func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE NAME VALUE")
	}
	var doc any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	at := doc
	for name := range strings.SplitSeq(args[1], ".") {
		m, ok := at.(map[string]any)
		if !ok {
			ts.Fatalf("%s has no %s", args[0], args[1])
		}
		if at, ok = m[name]; !ok {
			ts.Fatalf("%s has no %s", args[0], args[1])
		}
	}
	got, err := json.Marshal(at)
	ts.Check(err)
	var want any
	if json.Unmarshal([]byte(args[2]), &want) != nil {
		want = args[2]
	}
	wanted, err := json.Marshal(want)
	ts.Check(err)
	if (string(got) == string(wanted)) == neg {
		ts.Fatalf("%s is %s, compared with %s", args[1], got, wanted)
	}
}

// scriptNothing checks that croft has left no session, workspace or trash in its state.
func scriptNothing(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: nothing")
	}
	for _, dir := range []string{"sessions", "trash", "snapshots"} {
		entries, err := os.ReadDir(filepath.Join(ts.Getenv("CROFT_DIR"), dir))
		if err != nil && !os.IsNotExist(err) {
			ts.Fatalf("%v", err)
		}
		for _, e := range entries {
			ts.Fatalf("left behind: %s/%s", dir, e.Name())
		}
	}
}

// scriptOwner checks that files belong to the user who runs the test.
func scriptOwner(ts *testscript.TestScript, neg bool, args []string) {
	for _, name := range args {
		uid, err := ownerOf(ts.MkAbs(name))
		ts.Check(err)
		if (uid == os.Geteuid()) == neg {
			ts.Fatalf("%s belongs to %d; this is %d", name, uid, os.Geteuid())
		}
	}
}

// TestEveryCommandHasAnExample keeps the help useful.
func TestEveryCommandHasAnExample(t *testing.T) {
	a := &app{os.Stdin, os.Stdout, os.Stderr}
	todo := a.newRoot().Commands()
	if len(todo) < 4 {
		t.Fatalf("only %d commands", len(todo))
	}
	for len(todo) > 0 {
		c := todo[0]
		todo = append(todo[1:], c.Commands()...)
		if !strings.Contains(c.Example, "croft "+c.Name()) && !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s has no example of itself", c.CommandPath())
		}
		if c.Short == "" {
			t.Errorf("%s says nothing of itself", c.CommandPath())
		}
	}
}

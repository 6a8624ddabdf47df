package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCount(t *testing.T) {
	const pkg = `"Package":"github.com/croftdev/croft/internal/x"`
	for _, tt := range []struct {
		name, run, known string
		ok               bool
	}{
		{"passes", `{"Action":"pass",` + pkg + `,"Test":"TestA"}`, "", true},
		{"fails", `{"Action":"pass",` + pkg + `,"Test":"TestA"}
{"Action":"fail",` + pkg + `,"Test":"TestB"}`, "", false},
		{"nothing ran", `{"Action":"pass",` + pkg + `}`, "", false},
		{"does not build", `{"Action":"pass",` + pkg + `,"Test":"TestA"}
{"Action":"fail",` + pkg + `}`, "", false},
		{"a test that never ended", `{"Action":"pass",` + pkg + `,"Test":"TestA"}
{"Action":"run",` + pkg + `,"Test":"TestB"}`, "", false},
		{"unknown skip", `{"Action":"pass",` + pkg + `,"Test":"TestA"}
{"Action":"skip",` + pkg + `,"Test":"TestB"}`, `root internal/x.TestC "gone" # gone`, false},
		{"known skip", `{"Action":"pass",` + pkg + `,"Test":"TestA"}
{"Action":"output",` + pkg + `,"Test":"TestB/sub","Output":"x_test.go:1: needs the moon\\n"}
{"Action":"skip",` + pkg + `,"Test":"TestB/sub"}
{"Action":"pass",` + pkg + `,"Test":"TestB"}`, `root internal/x.TestB/.* "needs the moon" # there is none here`, true},
		{"known test, other words", `{"Action":"pass",` + pkg + `,"Test":"TestA"}
{"Action":"output",` + pkg + `,"Test":"TestB","Output":"x_test.go:1: needs the sun\\n"}
{"Action":"skip",` + pkg + `,"Test":"TestB"}`, `root .* "needs the moon" # there is none here`, false},
		{"known skip of another run", `{"Action":"pass",` + pkg + `,"Test":"TestA"}
{"Action":"skip",` + pkg + `,"Test":"TestB"}`, `user .* "." # needs root`, false},
		{"rule without a reason", `{"Action":"pass",` + pkg + `,"Test":"TestA"}`, `root internal/x.TestB "x"`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			run, known := filepath.Join(dir, "run.json"), filepath.Join(dir, "known")
			for file, text := range map[string]string{run: tt.run, known: tt.known} {
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := count(known, []string{"root=" + run}); (err == nil) != tt.ok {
				t.Errorf("count: %v, want success %v", err, tt.ok)
			}
		})
	}
}

// TestSkippedEverywhere: what one run may skip must have passed in another.
func TestSkippedEverywhere(t *testing.T) {
	const pkg = `"Package":"github.com/croftdev/croft/internal/x"`
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	known := write("known", `user .* "needs root" # the other run is root's`+"\n"+`root .* "needs the moon" # there is none`)
	user := write("user", `{"Action":"pass",`+pkg+`,"Test":"TestA"}
{"Action":"output",`+pkg+`,"Test":"TestB","Output":"needs root\n"}
{"Action":"skip",`+pkg+`,"Test":"TestB"}`)
	passes := write("passes", `{"Action":"pass",`+pkg+`,"Test":"TestB"}`)
	skips := write("skips", `{"Action":"output",`+pkg+`,"Test":"TestB","Output":"needs the moon\n"}
{"Action":"skip",`+pkg+`,"Test":"TestB"}`)
	if err := count(known, []string{"user=" + user, "root=" + passes}); err != nil {
		t.Errorf("passed in one run: %v", err)
	}
	if err := count(known, []string{"user=" + user, "root=" + skips}); err == nil {
		t.Error("skipped in both runs: no error")
	}
}

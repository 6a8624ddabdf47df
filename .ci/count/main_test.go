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
{"Action":"skip",` + pkg + `,"Test":"TestB"}`, "root internal/x TestC # gone", false},
		{"known skip", `{"Action":"pass",` + pkg + `,"Test":"TestA"}
{"Action":"skip",` + pkg + `,"Test":"TestB/sub"}
{"Action":"pass",` + pkg + `,"Test":"TestB"}`, "root internal/x TestB/.* # needs the moon", true},
		{"known skip of another run", `{"Action":"pass",` + pkg + `,"Test":"TestA"}
{"Action":"skip",` + pkg + `,"Test":"TestB"}`, "user internal/x TestB # needs root", false},
		{"rule without a reason", `{"Action":"pass",` + pkg + `,"Test":"TestA"}`, "root internal/x TestB", false},
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

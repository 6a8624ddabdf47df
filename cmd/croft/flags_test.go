package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/croftdev/croft"
)

func TestDurationFlag(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want time.Duration // 0: an error
	}{
		{"90s", 90 * time.Second}, {"1h2m", 62 * time.Minute}, {"30", 30 * time.Second}, {"0.5", 500 * time.Millisecond},
		{"", 0}, {"0", 0}, {"-1", 0}, {"-5s", 0}, {"soon", 0}, {"NaN", 0}, {"Inf", 0}, {"1e300", 0}, {"1e10", 0},
	} {
		var d durationFlag
		err := d.Set(tt.in)
		if (err != nil) != (tt.want == 0) || time.Duration(d) != tt.want {
			t.Errorf("Set(%q) = %v, %v; want %v", tt.in, time.Duration(d), err, tt.want)
		}
	}
}

func TestReadEnv(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(file, []byte("# c\n\nA=1\r\n B =x = y \nE=\n  # c\nA=2"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readEnv([]string{file}, []string{"E=e", "F=a=b"})
	want := map[string]string{"A": "2", "B": "x = y ", "E": "e", "F": "a=b"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("readEnv = %q, %v; want %q", got, err, want)
	}
	for _, bad := range []string{"A", "=x", "A B=x", "\x00=x"} {
		if err := parseEnvFile("f", bad, map[string]string{}); !isUsage(err) {
			t.Errorf("the line %q: %v", bad, err)
		}
	}
	for _, bad := range []string{"A", "=x", ""} {
		if _, err := readEnv(nil, []string{bad}); !isUsage(err) {
			t.Errorf("--env %q: %v", bad, err)
		}
	}
}

func TestGrantList(t *testing.T) {
	f := runFlags{grants: []string{"/a", "/b:ro", "/c:rw", "d:ro", "/e:x", "/f:ro:rw"}}
	got, err := f.grantList("/wd")
	want := []croft.Grant{
		{Path: "/a"}, {Path: "/b", ReadOnly: true}, {Path: "/c"}, {Path: "/wd/d", ReadOnly: true}, {Path: "/e:x"}, {Path: "/f:ro"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("grants %v, %v; want %v", got, err, want)
	}
}

func TestExitCode(t *testing.T) {
	run, other := &cobra.Command{Use: "run"}, &cobra.Command{Use: "check"}
	transport := func(reason string) error { return &croft.Error{Code: croft.ExecTransportError, Reason: reason} }
	for _, tt := range []struct {
		name       string
		err        error
		run, other int
	}{
		{"success", nil, 0, 0},
		{"exit code of the command", commandStatus(7), 7, 7},
		{"signal of the command", commandStatus(-15), 143, 143},
		{"usage", usagef("x"), 125, 2},
		{"signal to croft", errors.Join(&signalError{syscall.SIGINT}, context.Canceled), 130, 130},
		{"timeout", &croft.Error{Code: croft.ExecTimeout}, 124, 1},
		{"limit of croft's own", &croft.Error{Code: croft.LimitExceeded, Reason: "disk_full"}, 125, 1},
		{"not found", transport("not_found"), 127, 1},
		{"not executable", transport("not_executable"), 126, 1},
		{"another failure to start", transport("spawn"), 125, 1},
		{"no such session", &croft.Error{Code: croft.SessionNotFound}, 125, 3},
		{"busy", &croft.Error{Code: croft.SessionBusy}, 125, 4},
		{"no confinement", &croft.Error{Code: croft.ConfinementUnavailable}, 125, 4},
		{"no such file", os.ErrNotExist, 125, 3},
		{"anything else", errors.New("x"), 125, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := exitCode(run, tt.err); got != tt.run {
				t.Errorf("run: %d, want %d", got, tt.run)
			}
			if got := exitCode(other, tt.err); got != tt.other {
				t.Errorf("other: %d, want %d", got, tt.other)
			}
		})
	}
}

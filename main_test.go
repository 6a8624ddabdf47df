package croft_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/croftdev/croft"
)

func TestMain(m *testing.M) {
	croft.Init() // the test binary is its own helper
	crashMain()
	os.Exit(m.Run())
}

// openClient opens a client on a state directory of the test's own.
func openClient(t *testing.T, cfg croft.Config) *croft.Client {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(t.TempDir(), "state")
	}
	c, err := croft.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Client.Close: %v", err)
		}
	})
	return c
}

// started creates and starts a session.
func started(t *testing.T, c *croft.Client, opts croft.CreateOptions) *croft.Session {
	t.Helper()
	s, err := c.Create(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// sh runs a shell line that must succeed, and returns its output.
func sh(t *testing.T, s *croft.Session, line string) string {
	t.Helper()
	res, err := s.Exec(context.WithoutCancel(t.Context()), croft.Command{Shell: line})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if res.ExitCode != 0 {
		t.Fatalf("%s: exit code %d: %s%s", line, res.ExitCode, res.Stdout, res.Stderr)
	}
	return string(res.Stdout)
}

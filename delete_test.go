package croft_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/croftdev/croft"
)

// TestDeleteMeetsOthers: a Delete that waits while another call closes or deletes the
// session finds it gone, or closed, and never works on what is not held any more.
func TestDeleteMeetsOthers(t *testing.T) {
	for name, other := range map[string]func(*croft.Client, *croft.Session) error{
		"close":  func(_ *croft.Client, s *croft.Session) error { return s.Close(t.Context()) },
		"delete": func(c *croft.Client, s *croft.Session) error { return c.Delete(t.Context(), s.ID()) },
	} {
		t.Run(name, func(t *testing.T) {
			c := openClient(t, croft.Config{Dir: filepath.Join(t.TempDir(), "state")})
			for range 5 {
				s := started(t, c, croft.CreateOptions{})
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						if err := c.Delete(t.Context(), s.ID()); err != nil && !errors.Is(err, croft.SessionNotFound) && !errors.Is(err, croft.SessionBusy) {
							t.Errorf("Delete: %v", err)
						}
					})
					wg.Go(func() { _ = other(c, s) })
				}
				wg.Wait()
				if _, err := c.Get(t.Context(), s.ID()); !errors.Is(err, croft.SessionNotFound) {
					t.Errorf("the session is still there: %v", err)
				}
			}
		})
	}
}

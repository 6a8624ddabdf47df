//go:build linux

package fill_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/fill"
	"github.com/croftdev/croft/manifest"
)

// TestSourcesUnderSwaps fills from sources that change places with links to secret
// files all the time. A copy holds the source's own content, or there is none.
func TestSourcesUnderSwaps(t *testing.T) {
	p := newPlace(t)
	p.plant(t, p.outside, "f", "sub/g")
	must(t, os.WriteFile(p.outside+"/f", []byte("SECRET"), 0o644))
	must(t, os.WriteFile(p.outside+"/sub/g", []byte("SECRET"), 0o644))
	p.plant(t, p.host, "f", "link -> ../outside/f", "d/f", "d/sub/g", "dlink -> ../outside")
	stop := swapAll(t, [][2]string{
		{p.host + "/f", p.host + "/link"},
		{p.host + "/d", p.host + "/dlink"},
	})
	m, err := manifest.Parse([]byte("version: 1\nentries: {x: {type: local_file, src: f}, y: {type: local_file, src: d/f}, d: {type: local_dir, src: d, symlinks: keep}}\n"),
		manifest.Options{Format: manifest.YAML})
	must(t, err)
	done, refused := 0, 0
	for done+refused < 1000 || (done == 0 && refused < 100_000) {
		_, err := fill.Apply(t.Context(), p.tree, m, fill.Options{Base: p.host})
		switch {
		case err == nil:
			done++
		case errors.Is(err, fault.LocalFileReadError), errors.Is(err, fault.LocalDirReadError):
			refused++
		default:
			t.Fatal(err)
		}
		if s := secrets(p.ws); len(s) > 0 {
			t.Fatalf("copied from outside: %q", s)
		}
	}
	t.Logf("swaps %d, done %d, refused %d", stop(), done, refused)
	if refused == 0 || done == 0 {
		t.Error("the calls met no swap, or nothing else")
	}
}

// TestNaiveSourceUnderSwaps shows that the attack works on a copy by paths.
func TestNaiveSourceUnderSwaps(t *testing.T) {
	p := newPlace(t)
	must(t, os.WriteFile(p.outside+"/f", []byte("SECRET"), 0o644))
	p.plant(t, p.host, "f", "link -> ../outside/f")
	stop := swapAll(t, [][2]string{{p.host + "/f", p.host + "/link"}})
	for n := 1; n < 1_000_000; n++ {
		if fi, err := os.Lstat(p.host + "/f"); err != nil || !fi.Mode().IsRegular() {
			continue
		}
		if b, _ := os.ReadFile(p.host + "/f"); string(b) == "SECRET" {
			t.Logf("swaps %d, wrong after %d tries", stop(), n)
			return
		}
	}
	t.Error("the naive copy read nothing outside: this test does not attack")
}

// secrets lists the regular files below dir with the content from outside.
func secrets(dir string) []string {
	var found []string
	filepath.Walk(dir, func(path string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().IsRegular() {
			if b, _ := os.ReadFile(path); strings.Contains(string(b), "SECRET") {
				found = append(found, path)
			}
		}
		return nil
	})
	return found
}

// swapAll exchanges each pair of names on a thread of its own until stop is called.
func swapAll(t *testing.T, pairs [][2]string) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	counts := make(chan int)
	for _, pair := range pairs {
		go func() {
			n := 0
			for ctx.Err() == nil {
				if unix.Renameat2(unix.AT_FDCWD, pair[0], unix.AT_FDCWD, pair[1], unix.RENAME_EXCHANGE) == nil {
					n++
				}
			}
			counts <- n
		}()
	}
	total, ended := 0, false
	stop = func() int {
		if !ended {
			ended = true
			cancel()
			for range pairs {
				total += <-counts
			}
		}
		return total
	}
	t.Cleanup(func() { stop() })
	return stop
}

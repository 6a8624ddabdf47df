package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/creack/pty"

	"github.com/croftdev/croft"
)

// The bar is shown on a terminal, and nothing of it is left when it stops.
func TestProgressOnATerminal(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Skipf("needs a pseudo-terminal: %v", err)
	}
	defer func() { _ = master.Close() }()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	p := newProgress(tty)
	update := p.callback()
	if update == nil {
		t.Fatal("nobody listens on a terminal")
	}
	p.delay = 0
	update(croft.Progress{Op: "fill", Bytes: 1 << 20, Total: 4 << 20})
	var seen []byte
	for buf := make([]byte, 4096); !bytes.Contains(seen, []byte("filling the workspace 1.0 MiB / 4.0 MiB")); {
		n, err := master.Read(buf)
		if err != nil {
			t.Fatalf("after %q: %v", seen, err)
		}
		seen = append(seen, buf[:n]...)
	}
	p.stop()
	update(croft.Progress{Op: "fill", Bytes: 2 << 20, Total: 4 << 20}) // too late, and harmless
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	for buf := make([]byte, 4096); ; {
		n, err := master.Read(buf)
		seen = append(seen, buf[:n]...)
		if err != nil {
			break // EIO: the other end is closed
		}
	}
	// "up one line, erase to the end of the screen" (console_codes(4)).
	if !bytes.HasSuffix(seen, []byte("\x1b[1A\x1b[J")) {
		t.Errorf("the terminal is left with %q", seen[max(0, len(seen)-80):])
	}
}

func TestProgressElsewhere(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	p := newProgress(f)
	if p.callback() != nil {
		t.Error("the library is to count for nobody")
	}
	p.stop()
	if fi, err := f.Stat(); err != nil || fi.Size() != 0 {
		t.Errorf("%d bytes were written, %v", fi.Size(), err)
	}
}

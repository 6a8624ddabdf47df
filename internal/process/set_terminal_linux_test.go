package process_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/outlog"
	"github.com/croftdev/croft/internal/process"
)

func startTerminal(t testing.TB, s *process.Set, ws process.Winsize, line string) (*process.Process, *outlog.Reader) {
	t.Helper()
	p := mustStart(t, s, process.Command{Shell: line, ShellPath: "bash", TTY: &ws})
	return p, follow(t, p)
}

func typeIn(t testing.TB, p *process.Process, keys string) {
	t.Helper()
	if _, err := p.Write(t.Context(), []byte(keys)); err != nil {
		t.Fatalf("write %q: %v", keys, err)
	}
}

func TestTerminal(t *testing.T) {
	s := newSet(t)
	t.Run("it is one", func(t *testing.T) {
		p, _ := startTerminal(t, s, process.Winsize{Rows: 33, Cols: 120}, "tty; stty size; test -t 0 -a -t 1 -a -t 2 && echo terminal >&2; echo x >/dev/tty")
		if e := mustWait(t, p); e.ExitCode != 0 {
			t.Errorf("ended with %+v", e)
		}
		out, _ := all(t, p, outlog.Terminal)
		if lines := strings.Split(out, "\r\n"); len(lines) != 5 || !strings.HasPrefix(lines[0], "/dev/pts/") ||
			lines[1] != "33 120" || lines[2] != "terminal" || lines[3] != "x" {
			t.Errorf("output is %q", out)
		}
	})
	t.Run("a line is read", func(t *testing.T) {
		p, r := startTerminal(t, s, process.Winsize{}, `echo ready; IFS= read -r l; printf 'got:%s\n' "$l"`)
		until(t, r, "ready")
		typeIn(t, p, "hello\n")
		until(t, r, "got:hello\r\n")
		mustWait(t, p)
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		// Short sleeps: a key that comes between two commands of the shell reaches only the
		// shell, which runs its trap when the next one has ended.
		p, r := startTerminal(t, s, process.Winsize{}, "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.01; done")
		until(t, r, "ready")
		typeIn(t, p, "\x03")
		until(t, r, "interrupted")
		if e := mustWait(t, p); e.ExitCode != 7 || e.By != "" {
			t.Errorf("ended with %+v", e)
		}
	})
	t.Run("end of input", func(t *testing.T) {
		p, r := startTerminal(t, s, process.Winsize{}, "echo ready; cat; echo done")
		until(t, r, "ready")
		if err := p.CloseStdin(t.Context()); err != nil {
			t.Fatal(err)
		}
		until(t, r, "done")
		mustWait(t, p)
		_, err := p.Write(t.Context(), []byte("x"))
		if !errors.Is(err, fault.NotAvailable) {
			t.Errorf("a write after the end: %v", err)
		}
		if err := p.Resize(process.Winsize{Rows: 1, Cols: 1}); !errors.Is(err, fault.NotAvailable) {
			t.Errorf("another size after the end: %v", err)
		}
	})
	t.Run("another size", func(t *testing.T) {
		p, r := startTerminal(t, s, process.Winsize{Rows: 24, Cols: 80}, "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done")
		until(t, r, "ready")
		if err := p.Resize(process.Winsize{Rows: 50, Cols: 132}); err != nil {
			t.Fatal(err)
		}
		until(t, r, "50 132\r\n")
		mustWait(t, p)
	})
	t.Run("job control", func(t *testing.T) {
		p := mustStart(t, s, process.Command{
			Argv: []string{"bash", "--norc", "-i"}, TTY: &process.Winsize{Rows: 24, Cols: 80},
			Env: append([]string{"PS1=prompt-", "TERM=dumb", "HISTFILE="}, environ...)})
		r := follow(t, p)
		until(t, r, "prompt-")
		// When the job speaks, it is the foreground.
		typeIn(t, p, "sh -c 'echo job-$((1+1)); exec sleep "+long+"'\n")
		until(t, r, "job-2")
		typeIn(t, p, "\x1a")
		until(t, r, "Stopped")
		typeIn(t, p, "jobs; kill %1; wait; echo over-$((40+2))\n")
		until(t, r, "over-42")
		typeIn(t, p, "exit 6\n")
		if e := mustWait(t, p); e.ExitCode != 6 {
			t.Errorf("ended with %+v", e)
		}
	})
	t.Run("ending", func(t *testing.T) {
		p, r := startTerminal(t, s, process.Winsize{}, "echo ready; exec sleep "+long)
		until(t, r, "ready")
		e, err := p.End(t.Context())
		if err != nil || e.Signal != "SIGTERM" || e.By != process.ByRequest {
			t.Errorf("ended with %+v, %v", e, err)
		}
	})
}

// What a command writes to a terminal just before its end is in the log.
func TestTerminalLastWords(t *testing.T) {
	s := newSet(t)
	for range 60 {
		p := mustStart(t, s, process.Command{Shell: "seq 1 500; echo last", TTY: &process.Winsize{}})
		mustWait(t, p)
		if out, _ := all(t, p); !strings.HasSuffix(out, "\r\n500\r\nlast\r\n") {
			t.Fatalf("output ends with %q", out[max(0, len(out)-40):])
		}
	}
}

package process_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/process"
)

// environ is what most commands of these tests need.
var environ = []string{"PATH=" + process.DefaultPath}

func mustRun(t *testing.T, c process.Command) *process.Result {
	t.Helper()
	if c.Env == nil {
		c.Env = environ
	}
	res, err := process.Run(t.Context(), plain{}, c)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return res
}

func TestRunEnds(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		c    process.Command
		code int
		sig  string
		out  string
		errs string
	}{
		{name: "argv, no shell", c: process.Command{Argv: []string{"echo", "$HOME;", "a b"}}, out: "$HOME; a b\n"},
		{name: "both streams and a code", c: process.Command{Shell: "echo o; echo e >&2; exit 3"}, code: 3, out: "o\n", errs: "e\n"},
		{name: "a signal is a negative code", c: process.Command{Shell: "echo x; kill -9 $$"}, code: -9, sig: "SIGKILL", out: "x\n"},
		{name: "another signal", c: process.Command{Shell: "kill -TERM $$"}, code: -15, sig: "SIGTERM"},
		{name: "code 255 is no signal", c: process.Command{Shell: "exit 255"}, code: 255},
		{name: "a line of blanks", c: process.Command{Shell: " "}},
		{name: "named shell", c: process.Command{Shell: "echo $0 ${BASH_VERSION:+b}", ShellPath: "bash"}, out: "bash b\n"},
		{name: "no login shell", c: process.Command{Shell: "shopt -q login_shell && echo login || echo plain", ShellPath: "bash"}, out: "plain\n"},
		{name: "login shell", c: process.Command{
			Shell: "shopt -q login_shell && echo login || echo plain", ShellPath: "bash", Login: true,
			Env: append([]string{"HOME=" + dir}, environ...)}, out: "login\n"},
		{name: "directory", c: process.Command{Shell: "pwd", Dir: dir}, out: dir + "\n"},
		{name: "no stdin is the end of file", c: process.Command{Argv: []string{"cat"}}},
		{name: "stdin", c: process.Command{Argv: []string{"cat"}, Stdin: strings.NewReader("in\x00\xff")}, out: "in\x00\xff"},
		{name: "stdin that nobody reads", c: process.Command{Argv: []string{"true"}, Stdin: endless{}}},
		{name: "stdin that is closed early", c: process.Command{Argv: []string{"head", "-c", "3"}, Stdin: endless{}}, out: "aaa"},
		{name: "environment from nothing", c: process.Command{Argv: []string{"/usr/bin/env"}, Env: []string{"A=1"}}, out: "A=1\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res := mustRun(t, tt.c)
			if res.ExitCode != tt.code || res.Signal != tt.sig {
				t.Errorf("ended with %d %q, want %d %q", res.ExitCode, res.Signal, tt.code, tt.sig)
			}
			if string(res.Stdout) != tt.out || string(res.Stderr) != tt.errs {
				t.Errorf("wrote %q and %q, want %q and %q", res.Stdout, res.Stderr, tt.out, tt.errs)
			}
			if res.TimedOut || len(res.Ended) != 0 {
				t.Errorf("TimedOut = %v, Ended = %v of a command that ended by itself", res.TimedOut, res.Ended)
			}
		})
	}
}

// endless gives the letter a for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestRunRefuses(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	for _, tt := range []struct {
		reason string
		c      process.Command
	}{
		{"no_command", process.Command{}},
		{"no_command", process.Command{Argv: []string{""}}},
		{"two_commands", process.Command{Argv: []string{"true"}, Shell: "true"}},
		{"no_shell_line", process.Command{Argv: []string{"true"}, Login: true}},
		{"no_shell_line", process.Command{Argv: []string{"true"}, ShellPath: "bash"}},
		{"negative_timeout", process.Command{Argv: []string{"true"}, Timeout: -1}},
		{"nul_byte", process.Command{Argv: []string{"echo", "a\x00b"}}},
		{"nul_byte", process.Command{Argv: []string{"echo"}, Env: []string{"A=\x00"}}},
		{"incomplete_files", process.Command{Argv: []string{"true"}, Files: [3]*os.File{null}}},
		{"files_and_streams", process.Command{
			Argv: []string{"true"}, Files: [3]*os.File{null, null, null}, Stdin: strings.NewReader("")}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			_, err := process.Run(t.Context(), plain{}, tt.c)
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Code != fault.InvalidArgument || e.Reason != tt.reason {
				t.Errorf("error = %v, want %v (%s)", err, fault.InvalidArgument, tt.reason)
			}
		})
	}
}

// The check of a command must not write behind the end of the caller's Argv.
func TestRunLeavesArgvAlone(t *testing.T) {
	words := []string{"echo", "a", "kept"}
	mustRun(t, process.Command{Argv: words[:2], Dir: "/"})
	if words[2] != "kept" {
		t.Errorf("the caller's slice now holds %q", words[2])
	}
}

func TestRunCannotStart(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("plain", "text", 0o644)
	write("garbage", "\x00\x01\x02", 0o755)
	write("noshell", "#!/no/such/interpreter\n", 0o755)
	for _, tt := range []struct {
		name   string
		c      process.Command
		want   error
		reason string
		exit   any
	}{
		{"unknown name", process.Command{Argv: []string{"no-such-program-cf"}}, process.ErrNotFound, "not_found", 127},
		{"unknown path", process.Command{Argv: []string{"./none"}, Dir: dir}, process.ErrNotFound, "not_found", 127},
		{"below a file", process.Command{Argv: []string{"./plain/x"}, Dir: dir}, process.ErrNotFound, "not_found", 127},
		{"missing interpreter", process.Command{Argv: []string{"./noshell"}, Dir: dir}, process.ErrNotFound, "not_found", 127},
		{"unknown shell", process.Command{Shell: "true", ShellPath: "no-such-shell"}, process.ErrNotFound, "not_found", 127},
		{"no mode", process.Command{Argv: []string{"./plain"}, Dir: dir}, process.ErrNotExecutable, "not_executable", 126},
		{"no mode, on PATH", process.Command{Argv: []string{"plain"}, Env: []string{"PATH=" + dir}}, process.ErrNotExecutable, "not_executable", 126},
		{"a directory", process.Command{Argv: []string{dir}}, process.ErrNotExecutable, "not_executable", 126},
		{"no program", process.Command{Argv: []string{"./garbage"}, Dir: dir}, process.ErrNotExecutable, "not_executable", 126},
		{"no directory", process.Command{Argv: []string{"true"}, Dir: dir + "/none"}, process.ErrDir, "working_directory", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.c.Env == nil {
				tt.c.Env = environ
			}
			res, err := process.Run(t.Context(), plain{}, tt.c)
			if res != nil {
				t.Errorf("a command that did not start has the result %+v", res)
			}
			if !errors.Is(err, tt.want) || !errors.Is(err, fault.ExecTransportError) {
				t.Fatalf("error = %v, want %v and %v", err, tt.want, fault.ExecTransportError)
			}
			e, _ := errors.AsType[*fault.Error](err)
			if e.Reason != tt.reason || e.Details["exit_code"] != tt.exit || e.Retry != fault.RetryUnknown {
				t.Errorf("reason %q, exit code %v, retry %v; want %q, %v, unknown", e.Reason, e.Details["exit_code"], e.Retry, tt.reason, tt.exit)
			}
		})
	}
}

func TestRunOutputLimit(t *testing.T) {
	res := mustRun(t, process.Command{Shell: "seq 1 200000; echo err >&2", OutputLimit: 64})
	var want bytes.Buffer
	for i := 1; i <= 200000; i++ {
		want.WriteString(strconv.Itoa(i) + "\n")
	}
	all := want.Bytes()
	if got := string(res.Stdout); got != string(all[:32])+string(all[len(all)-32:]) {
		t.Errorf("kept %q", got)
	}
	if n := int64(len(all) - 64); res.StdoutDropped != n {
		t.Errorf("dropped %d bytes, want %d", res.StdoutDropped, n)
	}
	if string(res.Stderr) != "err\n" || res.StderrDropped != 0 {
		t.Errorf("stderr %q, dropped %d", res.Stderr, res.StderrDropped)
	}
	if res := mustRun(t, process.Command{Argv: []string{"echo", "x"}, OutputLimit: -1}); len(res.Stdout) != 0 || res.StdoutDropped != 2 {
		t.Errorf("a negative limit kept %q and dropped %d", res.Stdout, res.StdoutDropped)
	}
}

func TestRunLiveOutput(t *testing.T) {
	var out, errs bytes.Buffer
	res := mustRun(t, process.Command{Shell: "echo o; echo e >&2", Stdout: &out, Stderr: &errs})
	if out.String() != "o\n" || errs.String() != "e\n" || string(res.Stdout) != "o\n" || string(res.Stderr) != "e\n" {
		t.Errorf("live %q %q, kept %q %q", out.String(), errs.String(), res.Stdout, res.Stderr)
	}
}

// An audience that leaves is reported, and costs neither the command nor the result.
func TestRunLiveWriterFails(t *testing.T) {
	gone := errors.New("reader has left")
	w := &failing{err: gone}
	res, err := process.Run(t.Context(), plain{}, process.Command{Shell: "seq 1 100000; exit 4", Stdout: w, Env: environ})
	if !errors.Is(err, gone) || !errors.Is(err, fault.ExecTransportError) {
		t.Errorf("error = %v, want %v", err, gone)
	}
	if res.ExitCode != 4 || !bytes.HasSuffix(res.Stdout, []byte("\n100000\n")) || w.calls != 1 {
		t.Errorf("exit code %d, %d bytes kept, %d writes", res.ExitCode, len(res.Stdout), w.calls)
	}
}

type failing struct {
	err   error
	calls int
}

func (f *failing) Write([]byte) (int, error) { f.calls++; return 0, f.err }

// A failing reader is reported; the command sees the end of its input.
func TestRunStdinFails(t *testing.T) {
	broken := errors.New("broken source")
	res, err := process.Run(t.Context(), plain{}, process.Command{
		Argv: []string{"cat"}, Env: environ, Stdin: io.MultiReader(strings.NewReader("part"), errReader{broken}),
	})
	if !errors.Is(err, broken) || res == nil || string(res.Stdout) != "part" {
		t.Errorf("result %+v, error %v", res, err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// A reader that waits for bytes that never come must not hold up a command that has ended.
func TestRunStdinThatWaits(t *testing.T) {
	t.Run("closed", func(t *testing.T) {
		r, w := io.Pipe()
		defer func() { _ = w.Close() }()
		mustRun(t, process.Command{Argv: []string{"true"}, Stdin: r})
	})
	t.Run("deadline, and it stays usable", func(t *testing.T) {
		a, b := net.Pipe()
		defer func() { _ = a.Close() }()
		defer func() { _ = b.Close() }()
		mustRun(t, process.Command{Argv: []string{"true"}, Stdin: a})
		go func() { _, _ = b.Write([]byte("x")) }()
		if _, err := io.ReadFull(a, make([]byte, 1)); err != nil {
			t.Errorf("the next read of the caller's connection: %v", err)
		}
	})
	t.Run("a file is handed over", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Close() }()
		defer func() { _ = w.Close() }()
		mustRun(t, process.Command{Argv: []string{"true"}, Stdin: r})
	})
}

// Files pass untouched, and stay open for their owner.
func TestRunFilesAreByteClean(t *testing.T) {
	dir := t.TempDir()
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * 7)
	}
	if err := os.WriteFile(filepath.Join(dir, "in"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.Open(filepath.Join(dir, "in"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	res := mustRun(t, process.Command{Argv: []string{"cat"}, Files: [3]*os.File{in, out, out}})
	got, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(got) != sha256.Sum256(data) {
		t.Error("the bytes changed on their way")
	}
	if res.Stdout != nil || res.Stderr != nil {
		t.Error("something was kept")
	}
	if _, err := out.WriteString("still open"); err != nil {
		t.Error(err)
	}
}

func TestRunLostSpawner(t *testing.T) {
	killed := false
	res, err := process.Run(context.Background(), fixed{lostChild{&killed}}, process.Command{Argv: []string{"x"}})
	if !errors.Is(err, errLost) || !errors.Is(err, fault.ExecTransportError) || res == nil || !killed {
		t.Errorf("result %v, killed %v, error %v", res, killed, err)
	}
}

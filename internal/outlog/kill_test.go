package outlog_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/croftdev/croft/internal/durable"
	"github.com/croftdev/croft/internal/outlog"
)

// childDir, set in the environment, makes the test binary a writer that is to be killed.
const childDir = "CROFT_TEST_OUTLOG_DIR"

func TestMain(m *testing.M) {
	if path := os.Getenv(childDir); path != "" {
		fmt.Fprintln(os.Stderr, writeForEver(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForEver appends numbered lines and says on stdout which are in the log.
func writeForEver(path string) error {
	d, err := durable.Open(path)
	if err != nil {
		return err
	}
	l, err := outlog.Create(d, "1000", outlog.Options{})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		if err := l.Append(outlog.Stdout, fmt.Appendf(nil, "line %d\n", i)); err != nil {
			return err
		}
		if _, err := fmt.Println(i); err != nil {
			return err
		}
	}
}

// After a kill -9 everything that was appended is there, and the end is unknown.
func TestKilledWriter(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range []int{1, 50, 3000} {
		d, path := openDir(t)
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), childDir+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewScanner(out)
		for range lines {
			if !said.Scan() {
				t.Fatal("the writer ended early")
			}
		}
		if _, err := outlog.Open(d, "1000"); !errors.Is(err, outlog.ErrLive) {
			t.Errorf("opened while another process writes it: %v", err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for said.Scan() {
			lines++
		}
		_ = cmd.Wait() // says "killed"
		l, err := outlog.Open(d, "1000")
		if err != nil {
			t.Fatal(err)
		}
		if st := l.Stat(); !st.Ended || st.End != nil {
			t.Errorf("stat is %+v", st)
		}
		data, _, _ := join(drain(t, reader(t, l, 0), 0, 1<<20))
		var want strings.Builder
		for i := range lines {
			fmt.Fprintf(&want, "line %d\n", i)
		}
		if !strings.HasPrefix(string(data), want.String()) {
			t.Errorf("%d lines were appended, the log has %d bytes", lines, len(data))
		}
	}
}

package process_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/process"
)

func TestEnviron(t *testing.T) {
	for _, tt := range []struct {
		name   string
		base   process.Base
		layers []map[string]string
		want   []string
	}{
		{name: "nothing but the base",
			want: []string{"HOME=/", "LANG=C.UTF-8", "PATH=" + process.DefaultPath, "TERM=dumb", "TMPDIR=/tmp", "USER=user"}},
		{name: "later layers win, sorted by key",
			base:   process.Base{Path: "/bin", Home: "/w", User: "u", Lang: "C", Term: "vt100", TmpDir: "/t"},
			layers: []map[string]string{{"A": "1", "HOME": "/other"}, {"A": "2", "A.B": "x=y", "TERM": ""}},
			want:   []string{"A=2", "A.B=x=y", "HOME=/other", "LANG=C", "PATH=/bin", "TERM=", "TMPDIR=/t", "USER=u"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.base.Environ(tt.layers...)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %q, %v\nwant %q", got, err, tt.want)
			}
		})
	}
	for _, bad := range []map[string]string{{"": "x"}, {"A=B": "x"}, {"A\x00": "x"}, {"A": "x\x00"}} {
		if _, err := (process.Base{}).Environ(bad); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("Environ(%q) error = %v, want %v", bad, err, fault.InvalidArgument)
		}
	}
}

func TestPass(t *testing.T) {
	host := map[string]string{"SECRET": "s", "EMPTY": "", "NAMED": "n"}
	got := process.Pass([]string{"NAMED", "EMPTY", "ABSENT"}, func(k string) (string, bool) { v, ok := host[k]; return v, ok })
	if len(got) != 2 || got["NAMED"] != "n" {
		t.Errorf("passed %v", got)
	}
	if v, ok := got["EMPTY"]; !ok || v != "" {
		t.Error("a variable that is set to nothing was not passed")
	}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name, prog, dir, path, want string
		err                         error
	}{
		{name: "first on PATH", prog: "sh", path: "/none:/bin:/usr/bin", want: "/bin/sh"},
		{name: "with a slash", prog: "./x", dir: "/d", want: "/d/./x"},
		{name: "absolute", prog: "/x/y", dir: "/d", want: "/x/y"},
		{name: "an empty element is the working directory", prog: "sh", dir: "/bin", path: ":/none", want: "/bin/sh"},
		{name: "a relative element is below it", prog: "sh", dir: "/", path: "bin", want: "/bin/sh"},
		{name: "directories are passed over", prog: "bin", path: "/:/usr", err: process.ErrNotFound},
		{name: "not executable", prog: "passwd", path: "/etc:/none", err: process.ErrNotExecutable},
		{name: "missing", prog: "no-such-program-cf", path: "/bin", err: process.ErrNotFound},
		{name: "empty", prog: "", path: "/bin", err: process.ErrNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := process.Find(tt.prog, tt.dir, []string{"PATH=/wrong", "PATH=" + tt.path})
			if !errors.Is(err, tt.err) || got != tt.want {
				t.Errorf("Find = %q, %v; want %q, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

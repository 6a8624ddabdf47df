//go:build linux

package archive_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/croftdev/croft/internal/archive"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/tree"
)

// member writes a member in a few words: "name", "name/" for a directory,
// "name -> target" for a link, "name = target" for a hard link, "name ! p" for a
// fifo (p), a character (c) or block (b) device. A leading "+" writes the mark of
// a workspace archive before it.
func member(w *tar.Writer, s string) {
	if rest, ok := strings.CutPrefix(s, "+"); ok {
		s = rest
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: ".", Mode: 0o755,
			PAXRecords: map[string]string{"CROFT.workspace": "1"}})
	}
	h := &tar.Header{Name: s, Typeflag: tar.TypeReg, Mode: 0o644, Format: tar.FormatPAX}
	if name, target, ok := strings.Cut(s, " -> "); ok {
		h.Name, h.Linkname, h.Typeflag = name, target, tar.TypeSymlink
	} else if name, target, ok := strings.Cut(s, " = "); ok {
		h.Name, h.Linkname, h.Typeflag = name, target, tar.TypeLink
	} else if name, kind, ok := strings.Cut(s, " ! "); ok {
		h.Name, h.Typeflag = name, map[string]byte{"p": tar.TypeFifo, "c": tar.TypeChar, "b": tar.TypeBlock}[kind]
	} else if strings.HasSuffix(s, "/") {
		h.Typeflag, h.Mode = tar.TypeDir, 0o755
	} else {
		h.Size = 4
	}
	if err := w.WriteHeader(h); err != nil {
		panic(err)
	}
	if h.Size > 0 {
		w.Write([]byte("text"))
	}
}

func tarOf(members ...string) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, m := range members {
		member(w, m)
	}
	w.Close()
	return buf.Bytes()
}

// names lists a tree: directories end in a slash, links show their target.
func names(t *testing.T, dir string) []string {
	var got []string
	must(t, tree.Ordered(t.Context(), openDir(t, dir), tree.Options{}, func(e *tree.Entry) error {
		switch e.Kind {
		case tree.Dir:
			got = append(got, e.Rel()+"/")
		case tree.Symlink:
			target, _ := e.Readlink()
			got = append(got, e.Rel()+" -> "+target)
		default:
			got = append(got, e.Rel())
		}
		return e.Err
	}))
	return got
}

func TestStrangersMembers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		members []string
		reason  string // empty: accepted
		member  string
		want    []string
	}{
		{name: "parents are made", members: []string{"x/y/z"}, want: []string{"x/", "x/y/", "x/y/z"}},
		{name: "root under its names", members: []string{"./", "././", "a"}, want: []string{"a"}},
		{name: "directory twice", members: []string{"d/", "./d/", "d/f"}, want: []string{"d/", "d/f"}},
		{name: "parent listed after its child", members: []string{"d/f", "d/"}, want: []string{"d/", "d/f"}},
		{name: "colon and backslash are letters here", members: []string{"a:b", `n\e`}, want: []string{"a:b", `n\e`}},
		{name: "drive", members: []string{`C:\x`}, reason: "windows drive path", member: `C:\x`},
		{name: "absolute", members: []string{"/x"}, reason: "absolute path", member: "/x"},
		{name: "parent step", members: []string{"a/../../x"}, reason: "parent traversal", member: "a/../../x"},
		{name: "inner parent step", members: []string{"a/../b"}, reason: "parent traversal", member: "a/../b"},
		{name: "root as link", members: []string{". -> x"}, reason: "archive root symlink", member: "."},
		{name: "root as file", members: []string{"."}, reason: "archive root member must be directory", member: "."},
		{name: "link inside", members: []string{"n/py -> ../bin/py"}, want: []string{"n/", "n/py -> ../bin/py"}},
		{name: "link to the root", members: []string{"n/l -> .."}, want: []string{"n/", "n/l -> .."}},
		{name: "link out", members: []string{"n/l -> ../../x"}, reason: "symlink target escapes archive root: ../../x", member: "n/l"},
		{name: "link out and back", members: []string{"l -> ../ws/x"}, reason: "symlink target escapes archive root: ../ws/x", member: "l"},
		{name: "absolute link", members: []string{"l -> /etc/passwd"}, reason: "absolute symlink target not allowed: /etc/passwd", member: "l"},
		{name: "hard link", members: []string{"t", "h = t"}, reason: "hardlink member not allowed", member: "h"},
		{name: "fifo", members: []string{"p ! p"}, reason: "unsupported member type", member: "p"},
		{name: "character device", members: []string{"p ! c"}, reason: "unsupported member type", member: "p"},
		{name: "block device", members: []string{"p ! b"}, reason: "unsupported member type", member: "p"},
		{name: "duplicate file", members: []string{"a", "./a"}, reason: "duplicate archive path: a", member: "./a"},
		{name: "duplicate link", members: []string{"a -> b", "a -> b"}, reason: "duplicate archive path: a", member: "a"},
		{name: "link over file", members: []string{"a", "a -> b"}, reason: "duplicate archive path: a", member: "a"},
		{name: "file over link", members: []string{"a -> b", "a"}, reason: "duplicate archive path: a", member: "a"},
		{name: "directory over file", members: []string{"a", "a/"}, reason: "duplicate archive path: a", member: "a/"},
		{name: "directory over link", members: []string{"a -> b", "a/"}, reason: "duplicate archive path: a", member: "a/"},
		{name: "file over directory", members: []string{"a/", "a"}, reason: "duplicate archive path: a", member: "a"},
		{name: "below a link", members: []string{"e -> sub", "e/p"}, reason: "archive path descends through symlink: e", member: "e/p"},
		{name: "below a later link", members: []string{"e/p", "e -> sub"}, reason: "archive path descends through symlink: e", member: "e/p"},
		{name: "below a file", members: []string{"n", "n/a/b"}, reason: "archive path descends through non-directory: n", member: "n/a/b"},
		{name: "below a later file", members: []string{"n/h", "n"}, reason: "archive path descends through non-directory: n", member: "n/h"},
		{name: "directory below a link", members: []string{"e -> .", "e/d/"}, reason: "archive path descends through symlink: e", member: "e/d/"},

		{name: "own: links of any target", members: []string{"+l -> /etc", "u -> ../../x"}, want: []string{"l -> /etc", "u -> ../../x"}},
		{name: "own: any name but an escape", members: []string{"+a\\b"}, want: []string{"a\\b"}},
		{name: "own: parent step", members: []string{"+../x"}, reason: "parent traversal", member: "../x"},
		{name: "own: below a link", members: []string{"+e -> /etc", "e/p"}, reason: "archive path descends through symlink: e", member: "e/p"},
		{name: "own: hard link", members: []string{"+t", "d/h = ./t"}, want: []string{"d/", "d/h", "t"}},
		{name: "own: hard link outside", members: []string{"+h = ../../etc/passwd"}, reason: "hardlink target is no earlier file: ../../etc/passwd", member: "h"},
		{name: "own: hard link absolute", members: []string{"+h = /etc/passwd"}, reason: "hardlink target is no earlier file: /etc/passwd", member: "h"},
		{name: "own: hard link through a link", members: []string{"+e -> /etc", "h = e/passwd"}, reason: "hardlink target is no earlier file: e/passwd", member: "h"},
		{name: "own: hard link to a link", members: []string{"+e -> /etc/passwd", "h = e"}, reason: "hardlink target is no earlier file: e", member: "h"},
		{name: "own: hard link to a later file", members: []string{"+h = t", "t"}, reason: "hardlink target is no earlier file: t", member: "h"},
		{name: "own: mark after the first member", members: []string{"a", "+l -> /etc"}, reason: "absolute symlink target not allowed: /etc", member: "l"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := unpack(t, tarOf(tt.members...), dir, archive.UnpackOptions{})
			if tt.reason == "" {
				must(t, err)
				if got := names(t, dir); !slices.Equal(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				return
			}
			fe, ok := errors.AsType[*fault.Error](err)
			if !ok || fe.Code != fault.WorkspaceArchiveWriteError || fe.Reason != tt.reason || fe.Details["member"] != tt.member {
				t.Errorf("error = %v, want %q at %q", err, tt.reason, tt.member)
			}
		})
	}
}

func TestRestoredMode(t *testing.T) {
	for mode, want := range map[uint32]uint32{
		0o644: 0o644, 0o600: 0o600, 0o444: 0o644, 0: 0o600, 0o777: 0o755, 0o655: 0o644, 0o4755: 0o755,
		0o2755: 0o755, 0o1755: 0o755, 0o666: 0o644, 0o711: 0o711, 0o100: 0o700, 0o7777: 0o755, 0o500: 0o700,
	} {
		if got := archive.RestoredMode(mode); got != want {
			t.Errorf("RestoredMode(%04o) = %04o, want %04o", mode, got, want)
		}
	}
}

func TestShouldSkip(t *testing.T) {
	for _, tt := range []struct {
		member string
		skip   []string
		want   bool
	}{
		{"logs/e", []string{"logs/e"}, true},
		{"remote/x", []string{"/remote"}, true},
		{"/remote/x", []string{"remote"}, true},
		{"remote/x", []string{"remote/"}, true},
		{"./remote/x", []string{"remote"}, true},
		{"remote2/x", []string{"remote"}, false},
		{"Remote/x", []string{"remote"}, false},
		{".", []string{"a"}, false},
		{"a", []string{""}, true},
		{"a", []string{"."}, true},
		{"a", nil, false},
	} {
		if got := archive.ShouldSkip(tt.member, tt.skip); got != tt.want {
			t.Errorf("ShouldSkip(%q, %q) = %v", tt.member, tt.skip, got)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, tt := range []struct {
		name          string
		limits        archive.Limits
		members       []string
		reason        string
		limit, actual int64
	}{
		{name: "members reached", limits: archive.Limits{Members: 2}, members: []string{"./", "a", "b"}},
		{name: "members", limits: archive.Limits{Members: 1}, members: []string{"d/", "d/f"}, reason: "archive member count exceeds limit", limit: 1, actual: 2},
		{name: "size reached", limits: archive.Limits{ExtractedBytes: 8}, members: []string{"a", "b"}},
		{name: "size", limits: archive.Limits{ExtractedBytes: 7}, members: []string{"a", "b"}, reason: "archive extracted size exceeds limit", limit: 7, actual: 8},
		{name: "depth", limits: archive.Limits{Depth: 2}, members: []string{"a/b/c"}, reason: "archive path depth exceeds limit", limit: 2, actual: 3},
		{name: "input", limits: archive.Limits{InputBytes: 600}, members: []string{"a"}, reason: "archive input size exceeds limit", limit: 600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := unpack(t, tarOf(tt.members...), t.TempDir(), archive.UnpackOptions{Limits: tt.limits})
			if tt.reason == "" {
				must(t, err)
				return
			}
			fe, ok := errors.AsType[*fault.Error](err)
			if !ok || fe.Reason != tt.reason || fe.Details["limit"] != tt.limit || (tt.actual != 0 && fe.Details["actual"] != tt.actual) {
				t.Errorf("error = %v %v", err, fe.Details)
			}
		})
	}
	if err := (archive.Limits{Members: -1}).Check(); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("negative limit: %v", err)
	}
}

func TestDamagedInput(t *testing.T) {
	whole := tarOf("+a", "b")
	for name, data := range map[string][]byte{
		"empty": {}, "no tar": bytes.Repeat([]byte("not a tar archive\n"), 100),
		"cut in a header": whole[:700], "cut in a file": whole[:len(whole)-1024-100],
		"own archive without its end": whole[:len(whole)-1024],
	} {
		if _, err := unpack(t, data, t.TempDir(), archive.UnpackOptions{}); !errors.Is(err, fault.WorkspaceArchiveWriteError) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := unpack(t, tarOf(), t.TempDir(), archive.UnpackOptions{}); err != nil {
		t.Errorf("a tar of nothing: %v", err)
	}
}

func TestMergeInto(t *testing.T) {
	for _, tt := range []struct {
		name    string
		members []string
		setup   func(dst, outside string)
		reason  string
		member  string
		want    []string
	}{
		{name: "joined", members: []string{"d/", "d/n"}, setup: func(d, _ string) {
			os.MkdirAll(d+"/d", 0o755)
			os.WriteFile(d+"/d/o", nil, 0o644)
			os.WriteFile(d+"/stay", nil, 0o644)
		}, want: []string{"d/", "d/n", "d/o", "stay"}},
		{name: "link replaced by file", members: []string{"python"}, setup: func(d, o string) { os.Symlink(o+"/keep", d+"/python") },
			want: []string{"python"}},
		{name: "file replaced by listed directory", members: []string{"bin/", "bin/p"}, setup: func(d, _ string) { os.WriteFile(d+"/bin", nil, 0o644) },
			want: []string{"bin/", "bin/p"}},
		{name: "link replaced by listed directory", members: []string{"bin/", "bin/p"}, setup: func(d, o string) { os.Symlink(o, d+"/bin") },
			want: []string{"bin/", "bin/p"}},
		{name: "link replaced by link", members: []string{"l -> t2"}, setup: func(d, _ string) { os.Symlink("t1", d+"/l") }, want: []string{"l -> t2"}},
		{name: "directory in place of a link", members: []string{"a", "l -> t"}, setup: func(d, _ string) { os.Mkdir(d+"/l", 0o755) },
			reason: "destination directory already exists: l", member: "l", want: []string{"l/"}},
		{name: "directory in place of a file", members: []string{"a", "d/l"}, setup: func(d, _ string) { os.MkdirAll(d+"/d/l", 0o755) },
			reason: "destination directory already exists: d/l", member: "d/l", want: []string{"d/", "d/l/"}},
		{name: "parent link out", members: []string{"a", "esc/n/p"}, setup: func(d, o string) { os.Symlink(o, d+"/esc") },
			reason: "path escapes root after resolution", member: "esc/n/p"},
		{name: "parent link inside", members: []string{"in/p"}, setup: func(d, _ string) { os.Mkdir(d+"/real", 0o755); os.Symlink("real", d+"/in") },
			reason: "symlink in parent path", member: "in/p", want: []string{"in -> real", "real/"}},
		{name: "parent file", members: []string{"f/p"}, setup: func(d, _ string) { os.WriteFile(d+"/f", nil, 0o644) },
			reason: "parent is not a directory", member: "f/p", want: []string{"f"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base, outside := t.TempDir(), t.TempDir()
			dst, staging := filepath.Join(base, "dst"), filepath.Join(base, "staging")
			must(t, os.Mkdir(dst, 0o755))
			must(t, os.Mkdir(staging, 0o755))
			must(t, os.WriteFile(outside+"/keep", []byte("k"), 0o644))
			tt.setup(dst, outside)
			before := names(t, dst)
			up, err := unpack(t, tarOf(tt.members...), staging, archive.UnpackOptions{})
			must(t, err)
			err = up.MergeInto(t.Context(), openDir(t, staging), openDir(t, dst))
			if tt.reason == "" {
				must(t, err)
				if got := names(t, dst); !slices.Equal(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			} else {
				fe, ok := errors.AsType[*fault.Error](err)
				if !ok || fe.Reason != tt.reason || fe.Details["member"] != tt.member {
					t.Errorf("error = %v", err)
				}
				if got := names(t, dst); !slices.Equal(got, before) {
					t.Errorf("changed by a refused archive: %q, before %q", got, before)
				}
			}
			if b, err := os.ReadFile(outside + "/keep"); string(b) != "k" || len(names(t, outside)) != 1 {
				t.Errorf("outside was touched: %v", err)
			}
		})
	}
}

// FuzzUnpack: whatever the bytes, nothing appears outside the directory and every
// error is of the one code.
func FuzzUnpack(f *testing.F) {
	f.Add(tarOf("a", "d/", "d/f", "l -> d"))
	f.Add(tarOf("+l -> /etc", "h = l", "x/y"))
	f.Add(tarOf("e -> ..", "e/x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		base := t.TempDir()
		must(t, os.Mkdir(base+"/in", 0o755))
		_, err := unpack(t, data, base+"/in", archive.UnpackOptions{Limits: archive.Limits{ExtractedBytes: 1 << 20, Members: 100}})
		if err != nil && !errors.Is(err, fault.WorkspaceArchiveWriteError) {
			t.Errorf("error = %v", err)
		}
		if l, _ := os.ReadDir(base); len(l) != 1 {
			t.Errorf("outside: %v", l)
		}
	})
}

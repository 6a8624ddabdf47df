//go:build linux

package fill_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/fill"
	"github.com/croftdev/croft/internal/root"
	"github.com/croftdev/croft/internal/tree"
	"github.com/croftdev/croft/manifest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a workspace with a host directory beside it.
type place struct {
	base, ws, host, outside string
	tree                    *root.Tree
}

func newPlace(t testing.TB) *place {
	t.Helper()
	base := t.TempDir()
	p := &place{base: base, ws: base + "/ws", host: base + "/host", outside: base + "/outside"}
	for _, d := range []string{p.ws, p.host, p.outside} {
		must(t, os.Mkdir(d, 0o755))
	}
	var err error
	p.tree, err = root.Open(root.Options{Path: p.ws})
	must(t, err)
	t.Cleanup(func() { p.tree.Close() })
	return p
}

// plant makes files of the host: "name", "name/" or "name -> target".
func (p *place) plant(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, n := range names {
		n, target, link := strings.Cut(n, " -> ")
		full := filepath.Join(dir, n)
		must(t, os.MkdirAll(filepath.Dir(full), 0o755))
		switch {
		case link:
			must(t, os.Symlink(target, full))
		case strings.HasSuffix(n, "/"):
			must(t, os.MkdirAll(full, 0o755))
		default:
			must(t, os.WriteFile(full, []byte(n), 0o644))
		}
	}
}

func (p *place) apply(t testing.TB, yaml string, opts fill.Options) (fill.Report, error) {
	t.Helper()
	m, err := manifest.Parse([]byte("version: 1\n"+yaml), manifest.Options{Format: manifest.YAML})
	must(t, err)
	if opts.Base == "" {
		opts.Base = p.host
	}
	return fill.Apply(t.Context(), p.tree, m, opts)
}

// list shows the workspace: "mode name", a link as "name -> target".
func (p *place) list(t testing.TB) []string {
	t.Helper()
	d, err := os.Open(p.ws)
	must(t, err)
	defer d.Close()
	var got []string
	must(t, tree.Ordered(t.Context(), d, tree.Options{}, func(e *tree.Entry) error {
		switch e.Kind {
		case tree.Symlink:
			target, _ := e.Readlink()
			got = append(got, e.Rel()+" -> "+target)
		case tree.Dir:
			got = append(got, fmt.Sprintf("%04o %s/", e.Mode, e.Rel()))
		default:
			got = append(got, fmt.Sprintf("%04o %s", e.Mode, e.Rel()))
		}
		return e.Err
	}))
	return got
}

func TestApply(t *testing.T) {
	for _, tt := range []struct {
		name  string
		yaml  string
		host  []string
		ws    []string
		opts  fill.Options
		want  []string
		files []string
	}{
		{name: "content", yaml: "entries:\n  a.txt: {type: file, content: hi}\n  b.bin: {type: file, content_base64: aGk=}\n",
			want: []string{"0755 a.txt", "0755 b.bin"}, files: []string{"a.txt", "b.bin"}},
		{name: "modes, also ones that keep the owner out",
			yaml: "entries:\n  r: {type: file, content: x, permissions: {owner: 6, group: 4, other: 0}}\n" +
				"  d: {type: dir, permissions: {owner: 5, group: 0, other: 0}, children: {f: {type: file, content: x, permissions: {owner: 4, group: 4, other: 4}}}}\n",
			want: []string{"0500 d/", "0444 d/f", "0640 r"}, files: []string{"d/f", "r"}},
		{name: "parents", yaml: "entries: {x/y/z: {type: file, content: x}}\n", want: []string{"0755 x/", "0755 x/y/", "0755 x/y/z"}, files: []string{"x/y/z"}},
		{name: "existing file overwritten", ws: []string{"f", "d/other"},
			yaml: "entries:\n  f: {type: file, content: new}\n  d: {type: dir, children: {g: {type: file, content: x}}}\n",
			want: []string{"0755 d/", "0755 d/g", "0644 d/other", "0755 f"}, files: []string{"d/g", "f"}},
		{name: "local file and directory", host: []string{"data/in.txt", "data/sub/x", "data/empty/"},
			yaml:  "entries:\n  in: {type: local_file, src: data/in.txt}\n  d: {type: local_dir, src: data}\n",
			want:  []string{"0755 d/", "0755 d/empty/", "0644 d/in.txt", "0755 d/sub/", "0644 d/sub/x", "0755 in"},
			files: []string{"d/in.txt", "d/sub/x", "in"}},
		{name: "local directory without a source", yaml: "entries: {d: {type: local_dir}}\n", want: []string{"0755 d/"}},
		{name: "links kept as links", host: []string{"v/bin/python3 -> /usr/bin/python3", "v/bin/python -> python3", "v/f"},
			yaml: "entries: {v: {type: local_dir, src: v, symlinks: keep}}\n",
			want: []string{"0755 v/", "0755 v/bin/", "v/bin/python -> python3", "v/bin/python3 -> /usr/bin/python3", "0644 v/f"}, files: []string{"v/f"}},
		{name: "the more specific entry wins", host: []string{"data/a", "data/s/b", "more/b"},
			yaml: "entries:\n  d/a: {type: file, content: mine, permissions: {owner: 6, group: 0, other: 0}}\n  d/s: {type: local_dir, src: more}\n  d: {type: local_dir, src: data}\n",
			want: []string{"0755 d/", "0600 d/a", "0755 d/s/", "0644 d/s/b"}, files: []string{"d/a", "d/s/b"}},
		{name: "only ephemeral", ws: []string{"keep"}, opts: fill.Options{OnlyEphemeral: true},
			yaml: "entries:\n  keep: {type: file, content: fresh}\n  d: {type: dir, children: {k: {type: file, content: x}, x/t: {type: file, content: x, ephemeral: true}}}\n" +
				"  e: {type: dir, ephemeral: true, children: {a/b: {type: file, content: x}, c: {type: dir, children: {f: {type: file, content: x}}}}}\n",
			want:  []string{"0755 d/", "0755 d/x/", "0755 d/x/t", "0755 e/", "0755 e/a/", "0755 e/a/b", "0755 e/c/", "0755 e/c/f", "0644 keep"},
			files: []string{"d/x/t", "e/a/b", "e/c/f"}},
		{name: "the workspace itself", host: []string{"data/f"}, yaml: "entries: {\".\": {type: local_dir, src: data}}\n",
			want: []string{"0644 f"}, files: []string{"f"}},
		{name: "through a link inside", ws: []string{"real/", "l -> real"}, yaml: "entries: {l/x: {type: file, content: x}}\n",
			want: []string{"l -> real", "0755 real/", "0755 real/x"}, files: []string{"l/x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			t.Cleanup(func() { os.Chmod(p.ws+"/d", 0o755) })
			p.plant(t, p.host, tt.host...)
			p.plant(t, p.ws, tt.ws...)
			report, err := p.apply(t, tt.yaml, tt.opts)
			must(t, err)
			if got := p.list(t); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			files := map[string]bool{}
			for _, f := range report.Files {
				files[f.Path] = true
				b, err := os.ReadFile(filepath.Join(p.ws, f.Path))
				if os.Getuid() != 0 && errors.Is(err, os.ErrPermission) {
					continue
				}
				sum := sha256.Sum256(b)
				if err != nil || f.SHA256 != hex.EncodeToString(sum[:]) {
					t.Errorf("%s: digest %s, %v", f.Path, f.SHA256, err)
				}
			}
			if len(report.Files) != len(tt.files) {
				t.Errorf("files %v, want %q", files, tt.files)
			}
			for _, f := range tt.files {
				if !files[f] {
					t.Errorf("%s is not reported", f)
				}
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		yaml   string
		host   []string
		ws     []string
		code   fault.Code
		reason string
		want   []string // what is in the workspace afterwards
	}{
		{name: "outside the base", yaml: "entries: {ok: {type: file, content: x}, x: {type: local_file, src: ../outside/s}}\n",
			code: fault.LocalFileReadError, reason: "outside_base_dir"},
		{name: "out and back by text is inside", yaml: "entries: {x: {type: local_file, src: ../host/../host/none/f}}\n",
			code: fault.LocalFileReadError, reason: "path_not_found"},
		{name: "absolute outside", yaml: "entries: {x: {type: local_dir, src: /etc}}\n", code: fault.LocalDirReadError, reason: "outside_base_dir"},
		{name: "linked file", host: []string{"t", "l -> t"}, yaml: "entries: {x: {type: local_file, src: l}}\n",
			code: fault.LocalFileReadError, reason: "symlink_not_supported"},
		{name: "below a linked directory", host: []string{"r/t", "l -> r"}, yaml: "entries: {x: {type: local_file, src: l/t}}\n",
			code: fault.LocalFileReadError, reason: "symlink_not_supported"},
		{name: "directory holding a link", host: []string{"d/a", "d/l -> a"}, yaml: "entries: {x: {type: local_dir, src: d}}\n",
			code: fault.LocalDirReadError, reason: "symlink_not_supported", want: []string{"0755 x/"}},
		{name: "directory that is a link", host: []string{"d/", "l -> d"}, yaml: "entries: {x: {type: local_dir, src: l, symlinks: keep}}\n",
			code: fault.LocalDirReadError, reason: "symlink_not_supported"},
		{name: "file that is a directory", host: []string{"d/"}, yaml: "entries: {x: {type: local_file, src: d}}\n",
			code: fault.LocalFileReadError, reason: "path_changed_during_copy"},
		{name: "directory that is a file", host: []string{"f"}, yaml: "entries: {x: {type: local_dir, src: f}}\n",
			code: fault.LocalDirReadError, reason: "path_changed_during_copy"},
		{name: "missing directory", yaml: "entries: {x: {type: local_dir, src: none}}\n", code: fault.LocalDirReadError, reason: "path_not_found"},
		{name: "missing file", yaml: "entries: {x: {type: local_file, src: none}}\n", code: fault.LocalFileReadError, reason: "path_changed_during_copy"},
		{name: "users", yaml: "users: [{name: u}]\nentries: {a: {type: file, content: x}}\n", code: fault.InvalidArgument, reason: "users"},
		{name: "groups", yaml: "groups: [{name: g, users: []}]\nentries: {a: {type: file, content: x}}\n", code: fault.InvalidArgument, reason: "groups"},
		{name: "host_path", yaml: "extra_path_grants: [{path: /mnt/s, host_path: /tmp}]\nentries: {a: {type: file, content: x}}\n",
			code: fault.InvalidArgument, reason: "host_path"},
		{name: "unknown group", yaml: "entries: {a: {type: file, content: x, group: {name: no-such-group-zz}}}\n",
			code: fault.InvalidArgument, reason: "unknown_group"},
		{name: "mount", yaml: "entries: {a: {type: file, content: x}, m: {type: s3_mount, bucket: b, mount_strategy: {type: in_container, pattern: {type: mountpoint}}}}\n",
			code: fault.MountConfigInvalid, reason: "not_supported"},
		{name: "git", yaml: "entries: {a: {type: file, content: x}, g: {type: git_repo, repo: o/r, ref: main}}\n",
			code: fault.Unsupported, reason: "git_repo"},
		{name: "through a link that leaves", ws: []string{"l -> ../outside"}, yaml: "entries: {l/x: {type: file, content: x}}\n",
			code: fault.InvalidManifestPath, reason: "absolute", want: []string{"l -> ../outside"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			p.plant(t, p.outside, "s")
			p.plant(t, p.host, tt.host...)
			p.plant(t, p.ws, tt.ws...)
			_, err := p.apply(t, tt.yaml, fill.Options{})
			fe, ok := errors.AsType[*fault.Error](err)
			if !ok || fe.Code != tt.code || fe.Reason != tt.reason {
				t.Errorf("error = %v (%v, %q), want %v, %q", err, fault.CodeOf(err), fe.Reason, tt.code, tt.reason)
			}
			if got := p.list(t); !slices.Equal(got, tt.want) {
				t.Errorf("in the workspace: %q, want %q", got, tt.want)
			}
			if l, _ := os.ReadDir(p.outside); len(l) != 1 {
				t.Errorf("outside: %v", l)
			}
		})
	}
}

func TestGrantedSources(t *testing.T) {
	p := newPlace(t)
	p.plant(t, p.outside, "s", "d/f")
	p.plant(t, p.base, "spelled -> outside", "outside2")
	yaml := "entries: {x: {type: local_file, src: " + p.outside + "/s}, d: {type: local_dir, src: " + p.outside + "/d}}\n"
	if _, err := p.apply(t, yaml, fill.Options{}); !errors.Is(err, fault.LocalFileReadError) {
		t.Errorf("without a grant: %v", err)
	}
	for _, grant := range []string{p.outside, p.base + "/spelled"} {
		if _, err := p.apply(t, yaml, fill.Options{Sources: []string{grant}}); err != nil {
			t.Errorf("granted as %s: %v", grant, err)
		}
	}
	one := "entries: {x: {type: local_file, src: " + p.outside + "/s}}\n"
	if _, err := p.apply(t, one, fill.Options{Sources: []string{p.outside + "/s"}}); err != nil {
		t.Errorf("a grant of the file itself: %v", err)
	}
	two := "entries: {x: {type: local_file, src: " + p.base + "/outside2}}\n"
	if _, err := p.apply(t, two, fill.Options{Sources: []string{p.outside}}); !errors.Is(err, fault.LocalFileReadError) {
		t.Errorf("a name that only begins like the grant: %v", err)
	}
}

func TestOwnerOfWhatIsWritten(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: another owner")
	}
	p := newPlace(t)
	p.plant(t, p.host, "d/f", "g")
	owner := &root.Owner{UID: 54321, GID: 54322}
	ws, err := root.Open(root.Options{Path: p.ws, Owner: owner})
	must(t, err)
	defer ws.Close()
	m, err := manifest.Parse([]byte("version: 1\nentries: {a/b: {type: file, content: x}, d: {type: local_dir, src: d}, g: {type: local_file, src: g, group: {name: daemon}}}\n"),
		manifest.Options{Format: manifest.YAML})
	must(t, err)
	_, err = fill.Apply(t.Context(), ws, m, fill.Options{Base: p.host, Owner: owner})
	must(t, err)
	for _, n := range []string{"a", "a/b", "d", "d/f", "g"} {
		var st unix.Stat_t
		must(t, unix.Lstat(filepath.Join(p.ws, n), &st))
		if st.Uid != 54321 || (n != "g" && st.Gid != 54322) || (n == "g" && st.Gid == 54322) {
			t.Errorf("%s belongs to %d:%d", n, st.Uid, st.Gid)
		}
	}
}

func TestApplyCancelled(t *testing.T) {
	p := newPlace(t)
	for i := range 400 {
		p.plant(t, p.host, "d/"+strconv.Itoa(i%20)+"/"+strconv.Itoa(i))
	}
	m, err := manifest.Parse([]byte("version: 1\nentries: {d: {type: local_dir, src: d}, x: {type: file, content: x}}\n"),
		manifest.Options{Format: manifest.YAML})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	_, err = fill.Apply(ctx, p.tree, m, fill.Options{Base: p.host, Progress: func(tree.Progress) {
		if calls++; calls == 2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v", err)
	}
	buf := make([]byte, 1<<20)
	if stacks := string(buf[:runtime.Stack(buf, true)]); strings.Contains(stacks, "internal/tree.(*") {
		t.Errorf("a worker still runs:\n%s", stacks)
	}
	before := p.list(t)
	if after := p.list(t); len(after) != len(before) {
		t.Error("the workspace changed after the call")
	}
	cancel()
}

func TestProgressEndsAtTheTotal(t *testing.T) {
	p := newPlace(t)
	p.plant(t, p.host, "d/one", "d/two", "three")
	var last tree.Progress
	_, err := p.apply(t, "entries: {d: {type: local_dir, src: d}, t: {type: local_file, src: three}, c: {type: file, content: four}}\n",
		fill.Options{Progress: func(p tree.Progress) { last = p }})
	must(t, err)
	if last.Bytes != int64(len("d/one")+len("d/two")+len("three")+len("four")) || last.Total != last.Bytes || last.Entries != 5 {
		t.Errorf("progress %+v", last)
	}
}

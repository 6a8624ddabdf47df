package root

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/croftdev/croft/internal/fault"
)

func TestNames(t *testing.T) {
	n, err := NewNames("/srv/x/../ws", []string{"/workspace"}, []Grant{
		{Path: "/d"}, {Path: "/d/ro/", ReadOnly: true}, {Path: "/srv/ws/vendor", ReadOnly: true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, in  string
		abs, rel  string // "" for an error
		normalize string
		readOnly  bool // the normalized name may not be written
		reason    string
	}{
		{name: "empty is the root", in: "", abs: "/srv/ws", rel: ".", normalize: "/srv/ws"},
		{name: "slashes at the end", in: "a//b///", abs: "/srv/ws/a/b", rel: "a/b", normalize: "/srv/ws/a/b"},
		{name: "three slashes are one", in: "///srv/ws/a", abs: "/srv/ws/a", rel: "a", normalize: "/srv/ws/a"},
		{name: "two are not", in: "//srv/ws/a", reason: "absolute"},
		{name: "another spelling", in: "/workspace/a", abs: "/srv/ws/a", rel: "a", normalize: "/srv/ws/a"},
		{name: "back by another spelling", in: "../workspace/a", abs: "/srv/ws/a", rel: "a", normalize: "/srv/ws/a"},
		{name: "the spelling as configured", in: "/srv/x/../ws/a", abs: "/srv/ws/a", rel: "a", normalize: "/srv/ws/a"},
		{name: "backslashes separate", in: `a\b`, abs: "/srv/ws/a/b", rel: "a/b", normalize: "/srv/ws/a/b"},
		{name: "UNC path", in: `\\server\share`, reason: "absolute"},
		{name: "a colon is no drive without a separator", in: "c:x", abs: "/srv/ws/c:x", rel: "c:x", normalize: "/srv/ws/c:x"},
		{name: "drive", in: "c:/x", reason: "absolute"},
		{name: "grant", in: "/d/x", normalize: "/d/x"},
		{name: "grant within", in: "/d/ro/x", normalize: "/d/ro/x", readOnly: true},
		{name: "grant in the workspace", in: "vendor/x", abs: "/srv/ws/vendor/x", rel: "vendor/x", normalize: "/srv/ws/vendor/x", readOnly: true},
		{name: "prefix of a name only", in: "/dx", reason: "absolute"},
		{name: "out", in: "../../d/x", reason: "escape_root"},
		{name: "out of a grant", in: "/d/../e", reason: "absolute"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			abs, err := n.Absolute(tt.in)
			if abs != tt.abs {
				t.Errorf("Absolute = %q, %v; want %q", abs, err, tt.abs)
			}
			if rel, _ := n.Relative(tt.in); rel != tt.rel {
				t.Errorf("Relative = %q, want %q", rel, tt.rel)
			}
			got, err := n.Normalize(tt.in, false)
			if e, _ := errors.AsType[*fault.Error](err); got != tt.normalize || e != nil && e.Reason != tt.reason {
				t.Errorf("Normalize = %q, %v; want %q", got, err, tt.normalize)
			}
			if _, err := n.Normalize(tt.in, true); tt.normalize != "" && errors.Is(err, fault.WorkspaceArchiveWriteError) != tt.readOnly {
				t.Errorf("Normalize for writing: %v, want read-only = %v", err, tt.readOnly)
			}
		})
	}
	for _, bad := range []string{"", "ws", "~/ws", `C:\ws`} {
		if _, err := NewNames(bad, nil, nil); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("NewNames(%q) = %v, want invalid_argument", bad, err)
		}
	}
}

// The plain form of a name is what the general way makes of it.
func TestPlain(t *testing.T) {
	for in, want := range map[string]bool{"a": true, "a/b": true, "...": true, "a..b": true, ".a/..b": true, "": false, ".": false,
		"..": false, "a/": false, "/a": false, "a//b": false, "a/./b": false, "a/..": false, `a\b`: false, "c:/x": false, "a\x00": false} {
		if plain(in) != want {
			t.Errorf("plain(%q) = %v", in, !want)
		}
	}
}

func FuzzNames(f *testing.F) {
	for _, s := range []string{"", ".", "a/b", "../ws/x", "/srv/ws/../ws/a", "/d/ro/x", "//x", `..\x`, "C:/x", "/workspace/a", "a\x00b", "/d/../srv/ws", "///d"} {
		f.Add(s)
	}
	n, err := NewNames("/srv/ws", []string{"/workspace"}, []Grant{{Path: "/d"}, {Path: "/d/ro", ReadOnly: true}, {Path: "/srv/ws/v", ReadOnly: true}})
	if err != nil {
		f.Fatal(err)
	}
	inside := func(t *testing.T, p string, bases ...string) {
		if p != path.Clean(p) {
			t.Fatalf("%q is not clean", p)
		}
		for _, b := range bases {
			if p == b || strings.HasPrefix(p, b+"/") {
				return
			}
		}
		t.Fatalf("%q lies outside of %v", p, bases)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if abs, err := n.Absolute(name); err == nil {
			inside(t, abs, "/srv/ws")
			if again, err := n.Absolute(abs); err != nil || again != abs {
				t.Fatalf("Absolute(%q) = %q, %v", abs, again, err)
			}
			rel, err := n.Relative(name)
			if err != nil || path.IsAbs(rel) || rel == ".." || strings.HasPrefix(rel, "../") || path.Join("/srv/ws", rel) != abs {
				t.Fatalf("Relative(%q) = %q, %v; Absolute = %q", name, rel, err, abs)
			}
			if again, err := n.Relative(abs); err != nil || again != rel {
				t.Fatalf("Relative(%q) = %q, %v; want %q", abs, again, err, rel)
			}
		}
		if p, err := n.Normalize(name, false); err == nil {
			inside(t, p, "/srv/ws", "/d")
			if again, err := n.Normalize(p, false); err != nil || again != p {
				t.Fatalf("Normalize(%q) = %q, %v", p, again, err)
			}
			if w, err := n.Normalize(name, true); err == nil {
				if w != p || strings.HasPrefix(w+"/", "/d/ro/") || strings.HasPrefix(w+"/", "/srv/ws/v/") {
					t.Fatalf("Normalize(%q) for writing = %q", name, w)
				}
			}
		}
		pl, err := n.find(name)
		if err != nil {
			return
		}
		if pl.root < 0 != (pl.abs && path.IsAbs(pl.rest)) || pl.root >= 0 && path.IsAbs(pl.rest) {
			t.Fatalf("find(%q) = %+v", name, pl)
		}
		if !pl.abs && strings.HasPrefix(pl.rest+"/", "../") {
			t.Fatalf("find(%q) = %+v leaves by its text", name, pl)
		}
		if plain(name) && pl.rest != path.Clean(name) {
			t.Fatalf("find(%q) = %+v, though the name is clean", name, pl)
		}
	})
}

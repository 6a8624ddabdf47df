package snapshot_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/snapshot"
)

func TestSpecJSON(t *testing.T) {
	for _, tt := range []struct {
		name, in, want string // want: what is written back, or "" for invalid_argument
	}{
		{"none", `{"type":"noop","id":"i"}`, `{"type":"noop","id":"i"}`},
		{"tar", `{"type":"local","id":"i","base_path":"/s"}`, `{"type":"local","id":"i","base_path":"/s"}`},
		{"remote", `{"client_dependency_key":"k","id":"i","type":"remote"}`, `{"type":"remote","id":"i","client_dependency_key":"k"}`},
		{"field of another kind dropped", `{"type":"noop","id":"i","base_path":"/s"}`, `{"type":"noop","id":"i"}`},
		{"unknown field dropped", `{"type":"noop","id":"i","zzz":1}`, `{"type":"noop","id":"i"}`},
		{"unknown kind", `{"type":"zip","id":"i"}`, ""},
		{"kind is no text", `{"type":1,"id":"i"}`, ""},
		{"no kind", `{"id":"i"}`, ""},
		{"no id", `{"type":"noop"}`, ""},
		{"null id", `{"type":"noop","id":null}`, ""},
		{"id is no text", `{"type":"noop","id":1}`, ""},
		{"tar without directory", `{"type":"local","id":"i"}`, ""},
		{"remote without client", `{"type":"remote","id":"i"}`, ""},
		{"list", `[]`, ""},
		{"text", `"noop"`, ""},
		{"null", `null`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s snapshot.Spec
			err := s.UnmarshalJSON([]byte(tt.in))
			if tt.want == "" {
				if !errors.Is(err, fault.InvalidArgument) {
					t.Errorf("error = %v, want invalid_argument", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := json.Marshal(s); err != nil || string(got) != tt.want {
				t.Errorf("written back: %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

func TestForSession(t *testing.T) {
	for _, tt := range []struct {
		in   *snapshot.Spec
		want snapshot.Spec
	}{
		{nil, snapshot.Spec{Type: snapshot.None, ID: "sid"}},
		{&snapshot.Spec{Type: snapshot.Tar, BasePath: "/s"}, snapshot.Spec{Type: snapshot.Tar, ID: "sid", BasePath: "/s"}},
		{&snapshot.Spec{Type: snapshot.Tar, ID: "mine", BasePath: "/s"}, snapshot.Spec{Type: snapshot.Tar, ID: "mine", BasePath: "/s"}},
	} {
		if got := tt.in.ForSession("sid"); got != tt.want {
			t.Errorf("%+v: ForSession = %+v, want %+v", tt.in, got, tt.want)
		}
	}
}

func TestHasherSeesEveryByte(t *testing.T) {
	sum := func(parts ...string) snapshot.Fingerprint {
		h := snapshot.NewHasher()
		for _, p := range parts {
			h.Write([]byte(p))
		}
		return h.Fingerprint()
	}
	if sum("ab", "c") != sum("a", "bc") {
		t.Error("the fingerprint depends on how the bytes were cut")
	}
	if sum("abc") == sum("abd") {
		t.Error("different bytes have one fingerprint")
	}
}

// FuzzFileName: an accepted id names one file directly in the directory.
func FuzzFileName(f *testing.F) {
	for _, s := range []string{"a", "..", "../x", `..\x`, "c:x", "a\x00", "a\nb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, id string) {
		name, err := snapshot.FileName(id)
		if err != nil {
			return
		}
		if filepath.Dir(filepath.Join("/base", name)) != "/base" || filepath.Base(name) != name || strings.ContainsAny(name, "/\\\x00") {
			t.Errorf("FileName(%q) = %q leads elsewhere", id, name)
		}
	})
}

// FuzzSpec: what was read is written so that it is read the same.
func FuzzSpec(f *testing.F) {
	f.Add(`{"type":"local","id":"i","base_path":"/s"}`)
	f.Add(`{"type":"noop","id":"i"}`)
	f.Fuzz(func(t *testing.T, in string) {
		var a, b snapshot.Spec
		if json.Unmarshal([]byte(in), &a) != nil {
			return
		}
		data, err := json.Marshal(a)
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		if err := json.Unmarshal(data, &b); err != nil || a != b {
			t.Errorf("%q: %+v, read again %+v, %v", in, a, b, err)
		}
	})
}

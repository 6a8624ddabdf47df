package state

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/snapshot"
)

const fixtureID ID = "6f1c9a52-0d1e-4c55-9d0c-3a8f1f0f8e11"

// Records of every older version are read for ever. A change of the form adds a
// fixture and never edits one.
func TestFixtureOfVersion1(t *testing.T) {
	data, err := os.ReadFile("testdata/record-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	got, err := decode(fixtureID, data)
	if err != nil {
		t.Fatal(err)
	}
	want := Record{
		Version: 1, ID: fixtureID, Phase: Running,
		Created:   time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC),
		Updated:   time.Date(2026, 12, 1, 1, 2, 3, 4, time.UTC),
		Parent:    "00000000-0000-4000-8000-000000000001",
		RootReady: true, RootOwned: true, SeenRoot: "/workspace", Tier: "namespaces",
		Root:     "/home/u/.local/state/croft/sessions/" + fixtureID.String() + "/workspace",
		Manifest: json.RawMessage(`{"version": 1, "entries": {"a": {"type": "file", "content": "x"}}}`),
		Options:  json.RawMessage(`{"pass_env": ["LANG"]}`),
		Policy:   json.RawMessage(`{"network": "none"}`),
		Grants: []Grant{
			{Path: "/srv/data", ReadOnly: true, Description: "d", HostPath: "/mnt/data"}, {Path: "/tmp/x"},
		},
		ExposedPorts: []int{8080, 9000},
		Snapshot:     snapshot.Spec{Type: snapshot.Tar, ID: "s", BasePath: "/home/u/.local/state/croft/snapshots"},
		Fingerprint:  &snapshot.Fingerprint{Value: "f", Version: "workspace_tar_sha256_v1"},
		UID:          100123,
		Warden:       &Process{PID: 4711, StartTime: 123456, BootID: "b"},
		Kept:         &Kept{Why: "the save failed", When: time.Date(2026, 12, 1, 1, 0, 0, 0, time.UTC)},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decode = %+v\nwant %+v", got, want)
	}
	for i := range reflect.TypeFor[Record]().NumField() {
		if reflect.ValueOf(got).Field(i).IsZero() {
			t.Errorf("the fixture says nothing of %s", reflect.TypeFor[Record]().Field(i).Name)
		}
	}
	again, err := got.encode()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := decode(fixtureID, again); err != nil || back.Updated != want.Updated || len(back.Grants) != 2 {
		t.Errorf("written and read again: %+v, %v", back, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	fixture, err := os.ReadFile("testdata/record-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	whole := string(fixture)
	change := func(from, to string) string {
		if !strings.Contains(whole, from) {
			t.Fatalf("the fixture has no %s", from)
		}
		return strings.Replace(whole, from, to, 1)
	}
	for _, tt := range []struct{ name, in, reason string }{
		{"newer version", change(`"version": 1`, `"version": 2`), "unknown_version"},
		{"newer version with a new form", `{"version": 99, "id": {"new": "form"}}`, "unknown_version"},
		{"no version", `{"id": "x"}`, "unreadable"},
		{"empty", ``, "unreadable"},
		{"cut", whole[:len(whole)/2], "unreadable"},
		{"no JSON", "\x00\x00", "unreadable"},
		{"unknown field", change(`"phase"`, `"zzz": 1, "phase"`), "unreadable"},
		{"unknown phase", change(`"running"`, `"dancing"`), "unreadable"},
		{"another session's", change(fixtureID.String(), NewID().String()), "unreadable"},
		{"snapshot of an unknown kind", change(`"local"`, `"zip"`), "unreadable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decode(fixtureID, []byte(tt.in))
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Code != fault.StateCorrupt || e.Reason != tt.reason {
				t.Errorf("error = %v (%+v), want state_corrupt with reason %s", err, e, tt.reason)
			}
		})
	}
}

func TestParseID(t *testing.T) {
	for in, want := range map[string]ID{
		fixtureID.String():                  fixtureID,
		strings.ToUpper(fixtureID.String()): fixtureID,
		"6f1c9a520d1e4c559d0c3a8f1f0f8e11":  fixtureID,
		"nope":                              "", "": "", "..": "",
		fixtureID.String() + "/": "", "../" + fixtureID.String(): "",
	} {
		got, err := ParseID(in)
		if got != want || (want == "") != errors.Is(err, fault.InvalidArgument) {
			t.Errorf("ParseID(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestPorts(t *testing.T) {
	for in, want := range map[string]string{
		`null`: `[]`, `8080`: `[8080]`, `[]`: `[]`, `[8080,9000,8080]`: `[8080,9000]`, `[1,65535]`: `[1,65535]`,
		`0`: "", `[65536]`: "", `[-1]`: "", `"8080"`: "", `["8080"]`: "", `[80.0]`: "", `8e3`: "", `true`: "",
		`{}`: "", `[[80]]`: "", `[null]`: "", `99999999999999999999`: "",
	} {
		var p Ports
		err := json.Unmarshal([]byte(in), &p)
		if want == "" {
			if !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("%s: error = %v, want invalid_argument", in, err)
			}
			continue
		}
		if got, merr := json.Marshal(p); err != nil || merr != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", in, got, err, want)
		}
	}
	if got, err := json.Marshal(Ports(nil)); err != nil || string(got) != "[]" {
		t.Errorf("no ports: %s, %v", got, err)
	}
}

// FuzzRecord: damage is an error and never a panic, and what was read is written
// so that it is read the same.
func FuzzRecord(f *testing.F) {
	data, err := os.ReadFile("testdata/record-v1.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		rec, err := decode(fixtureID, in)
		if err != nil {
			if !errors.Is(err, fault.StateCorrupt) {
				t.Errorf("error = %v, want state_corrupt", err)
			}
			return
		}
		out, err := rec.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(fixtureID, out)
		if err != nil {
			t.Fatalf("read again: %v", err)
		}
		if third, err := again.encode(); err != nil || string(third) != string(out) {
			t.Errorf("written again: %s, %v, want %s", third, err, out)
		}
	})
}

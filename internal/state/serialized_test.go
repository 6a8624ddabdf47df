package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/manifest"
	"github.com/croftdev/croft/snapshot"
)

// payload returns a state with the manifest and further top-level fields.
func payload(manifest, more string) string {
	return fmt.Sprintf(`{"type":"croft","session_id":%q,"snapshot":{"type":"noop","id":"n"},"manifest":%s%s}`, fixtureID, manifest, more)
}

func entry(e string) string { return payload(`{"entries":{"m":`+e+`}}`, "") }

const inside = `"mount_strategy":{"type":"in_container","pattern":{"type":"rclone"}}`

// Everything that gives access to something is gone from what is written, and
// what was read so cannot be resumed.
func TestAuthorityIsTakenOut(t *testing.T) {
	const secret = "s3cr3t-invented"
	q := `"` + secret + `"`
	for name, in := range map[string]string{
		"azure key":              entry(`{"type":"azure_blob_mount","account":"a","container":"c","account_key":` + q + `,` + inside + `}`),
		"azure identity":         entry(`{"type":"azure_blob_mount","account":"a","container":"c","identity_client_id":` + q + `,` + inside + `}`),
		"box secret":             entry(`{"type":"box_mount","client_secret":` + q + `,` + inside + `}`),
		"box token":              entry(`{"type":"box_mount","token":` + q + `,` + inside + `}`),
		"gcs secret":             entry(`{"type":"gcs_mount","bucket":"b","secret_access_key":` + q + `,` + inside + `}`),
		"gcs credentials":        entry(`{"type":"gcs_mount","bucket":"b","service_account_credentials":` + q + `,` + inside + `}`),
		"r2 secret":              entry(`{"type":"r2_mount","bucket":"b","account_id":"i","secret_access_key":` + q + `,` + inside + `}`),
		"s3 token":               entry(`{"type":"s3_mount","bucket":"b","session_token":` + q + `,` + inside + `}`),
		"s3 URL":                 entry(`{"type":"s3_mount","bucket":"b","endpoint_url":"https://u:` + secret + `@h",` + inside + `}`),
		"s3 URL query":           entry(`{"type":"s3_mount","bucket":"b","endpoint_url":"https://h/?k=` + secret + `",` + inside + `}`),
		"wrong type":             entry(`{"type":"s3_mount","bucket":"b","secret_access_key":[` + q + `],` + inside + `}`),
		"below a directory":      entry(`{"type":"dir","children":{"d":{"type":"dir","children":{"m":{"type":"s3_mount","bucket":"b","secret_access_key":` + q + `,` + inside + `}}}}}`),
		"driver options":         entry(`{"type":"s3_mount","bucket":"b","mount_strategy":{"type":"docker_volume","driver":"rclone","driver_options":{"pass":` + q + `}}}`),
		"rclone remote":          entry(`{"type":"s3_mount","bucket":"b","mount_strategy":{"type":"in_container","pattern":{"type":"rclone","remote_name":":s3,secret_access_key=` + secret + `:"}}}`),
		"rclone argument":        entry(`{"type":"s3_mount","bucket":"b","mount_strategy":{"type":"in_container","pattern":{"type":"rclone","extra_args":["--s3-secret-access-key",` + q + `]}}}`),
		"rclone config":          entry(`{"type":"s3_mount","bucket":"b","mount_strategy":{"type":"in_container","pattern":{"type":"rclone","config_file_path":"/etc/` + secret + `"}}}`),
		"mountpoint URL":         entry(`{"type":"s3_mount","bucket":"b","mount_strategy":{"type":"in_container","pattern":{"type":"mountpoint","options":{"endpoint_url":"https://` + secret + `@h"}}}}`),
		"credential file beside": payload(`{"entries":{"sa.json":{"type":"file","content":`+q+`},"m":{"type":"gcs_mount","bucket":"b","service_account_file":"/workspace/sa.json",`+inside+`}}}`, ""),
	} {
		t.Run(name, func(t *testing.T) {
			s, err := ParseSerialized([]byte(in))
			if err != nil {
				t.Fatal(err)
			}
			out, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(out), secret) {
				t.Errorf("written: %s", out)
			}
			if !s.MountAuthorityRedacted() || !strings.Contains(string(out), `"__croft_redacted_mount_authority":true`) {
				t.Errorf("not marked: %s", out)
			}
			if err := s.CheckBound(); !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("CheckBound = %v, want invalid_argument", err)
			}
			if again, err := ParseSerialized(out); err != nil || !again.MountAuthorityRedacted() {
				t.Errorf("read again: marked %v, %v", again.MountAuthorityRedacted(), err)
			}
		})
	}
}

// A live session's manifest has its credentials; its state has not.
func TestAuthorityIsTakenOutOfALiveManifest(t *testing.T) {
	m, err := manifest.Parse([]byte(`{"extra_path_grants":[{"path":"/mnt/s","host_path":"/secret/host"},{"path":"/mnt/t"}],
		"entries":{"m":{"type":"s3_mount","bucket":"b","secret_access_key":"s3cr3t",`+inside+`}}}`), manifest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(Serialized{SessionID: fixtureID, Snapshot: snapshot.Spec{Type: snapshot.None, ID: "n"}, Manifest: m})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "s3cr3t") || strings.Contains(string(out), "/secret/host") {
		t.Errorf("written: %s", out)
	}
	if len(m.Grants) != 2 || m.Grants[0].HostPath != "/secret/host" {
		t.Errorf("the live manifest was changed: %+v", m.Grants)
	}
	s, err := ParseSerialized(out)
	if err != nil || !s.MountAuthorityRedacted() || !slices.Equal(s.NeedsRebind(), []string{"/mnt/s"}) {
		t.Errorf("read: %+v, %v", s, err)
	}
}

func TestMountsWithoutAuthorityAreNotMarked(t *testing.T) {
	for _, in := range []string{
		entry(`{"type":"s3_mount","bucket":"b","secret_access_key":null,"endpoint_url":"https://h:9000/p",` + inside + `}`),
		entry(`{"type":"s3_mount","bucket":"b","mount_strategy":{"type":"in_container","pattern":{"type":"rclone","remote_name":"my remote","extra_args":["--allow-other","--uid","7","--buffer-size=16M"]}}}`),
		entry(`{"type":"file","content":"secret_access_key"}`),
	} {
		s, err := ParseSerialized([]byte(in))
		if err != nil || s.MountAuthorityRedacted() {
			t.Errorf("%s: marked %v, %v", in, s.MountAuthorityRedacted(), err)
		}
	}
}

// What is refused is named, and never repeated.
func TestParseSerializedRefuses(t *testing.T) {
	const secret = "s3cr3t-invented"
	for _, tt := range []struct{ name, in, place string }{
		{"no JSON", secret, ""},
		{"two values", payload(`{}`, "") + `{}`, ""},
		{"a list", `["` + secret + `"]`, ""},
		{"no type", `{}`, "type"},
		{"another type", `{"type":"docker"}`, "type"},
		{"type is no text", `{"type":1}`, "type"},
		{"no snapshot", `{"type":"croft","manifest":{}}`, "snapshot"},
		{"null snapshot", `{"type":"croft","snapshot":null,"manifest":{}}`, "snapshot"},
		{"snapshot of an unknown kind", `{"type":"croft","snapshot":{"type":"` + secret + `","id":"i"},"manifest":{}}`, "snapshot"},
		{"no manifest", `{"type":"croft","snapshot":{"type":"noop","id":"n"}}`, "manifest"},
		{"manifest is a list", payload(`["`+secret+`"]`, ""), "manifest"},
		{"unknown manifest field", payload(`{"zzz":"`+secret+`"}`, ""), "manifest.zzz"},
		{"bad entry", entry(`{"type":"file","content":["` + secret + `"]}`), "manifest.entries.m.content"},
		{"bad id", strings.Replace(payload(`{}`, ""), fixtureID.String(), secret, 1), "session_id"},
		{"id is no text", strings.Replace(payload(`{}`, ""), `"`+fixtureID.String()+`"`, "7", 1), "session_id"},
		{"ports", payload(`{}`, `,"exposed_ports":"`+secret+`"`), "exposed_ports"},
		{"fingerprint", payload(`{}`, `,"snapshot_fingerprint":["`+secret+`"]`), "snapshot_fingerprint"},
		{"flag", payload(`{}`, `,"workspace_root_ready":"`+secret+`"`), "workspace_root_ready"},
		{"nested too deep", payload(strings.Repeat(`{"a":`, 1000)+`1`+strings.Repeat(`}`, 1000), ""), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseSerialized([]byte(tt.in))
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Code != fault.InvalidArgument {
				t.Fatalf("error = %v, want invalid_argument", err)
			}
			place, _ := e.Details["place"].(string)
			if place != tt.place {
				t.Errorf("place = %q, want %q (%v)", place, tt.place, err)
			}
			if strings.Contains(fmt.Sprintf("%v %+v", err, e.Details), secret) {
				t.Errorf("the error repeats the payload: %v", err)
			}
		})
	}
}

func TestRebind(t *testing.T) {
	in := payload(`{"extra_path_grants":[{"path":"/a"},{"path":"/b","host_path":"/hb"}]}`,
		`,"__croft_redacted_host_path_grant_paths":["/c",7,"/b"]`)
	s, err := ParseSerialized([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.NeedsRebind(); !slices.Equal(got, []string{"/c", "/b"}) {
		t.Errorf("NeedsRebind = %q", got)
	}
	for _, tt := range []struct {
		name    string
		trusted *manifest.Manifest
		ok      bool
	}{
		{"nothing trusted", nil, false},
		{"one missing", &manifest.Manifest{Grants: []manifest.Grant{{Path: "/b", HostPath: "/h"}}}, false},
		{"one without a host path", &manifest.Manifest{Grants: []manifest.Grant{{Path: "/b", HostPath: "/h"}, {Path: "/c"}}}, false},
		{"all", &manifest.Manifest{Grants: []manifest.Grant{{Path: "/c", HostPath: "/h"}, {Path: "/b", HostPath: "/h"}}}, true},
	} {
		got, err := s.Rebind(tt.trusted)
		if (err == nil) != tt.ok || err != nil && !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: Rebind = %v", tt.name, err)
		}
		if err != nil {
			continue
		}
		if len(got.NeedsRebind()) > 0 || !slices.Equal(got.Manifest.Grants, tt.trusted.Grants) {
			t.Errorf("%s: bound to %+v, still needs %q", tt.name, got.Manifest.Grants, got.NeedsRebind())
		}
		if len(s.NeedsRebind()) != 2 || len(s.Manifest.Grants) != 1 {
			t.Errorf("%s: Rebind changed the state it was called on", tt.name)
		}
	}
}

func TestOrderOfEntriesIsKept(t *testing.T) {
	s, err := ParseSerialized([]byte(payload(`{"entries":{"z":{"type":"file","content":"1"},"a":{"type":"s3_mount","bucket":"b","session_token":"t",`+inside+`},"m":{"type":"file","content":"2"}}}`, "")))
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	text := string(out)
	if z, a, m := strings.Index(text, `"z":`), strings.Index(text, `"a":`), strings.Index(text, `"m":`); z < 0 || a < z || m < a {
		t.Errorf("order of entries: %s", out)
	}
}

// FuzzSerialized: what was read is written so that it is read the same; no host
// path and no credential is in it; an error is invalid_argument.
func FuzzSerialized(f *testing.F) {
	f.Add(payload(`{}`, ""))
	f.Add(payload(`{"extra_path_grants":[{"path":"/mnt/s","host_path":"/h"},{"path":"/t","read_only":true}]}`, `,"exposed_ports":[1,2]`))
	f.Add(entry(`{"type":"s3_mount","bucket":"b","secret_access_key":"k",` + inside + `}`))
	f.Add(entry(`{"type":"gcs_mount","bucket":"b","service_account_file":"m",` + inside + `}`))
	f.Add(payload(`{"environment":{"value":{"A":"1","B":{"type":"str","value":"2"}}}}`, `,"snapshot_fingerprint":"f","zzz":{}`))
	f.Fuzz(func(t *testing.T, in string) {
		s, err := ParseSerialized([]byte(in))
		if err != nil {
			if !errors.Is(err, fault.InvalidArgument) {
				t.Errorf("error = %v, want invalid_argument", err)
			}
			return
		}
		out, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("%q: %v", in, err)
		}
		tree, err := parseValue(out)
		if err != nil {
			t.Fatal(err)
		}
		if redactMounts(tree.get("manifest")) {
			t.Errorf("%q: authority of a mount is in %s", in, out)
		}
		for _, g := range s.Manifest.Grants {
			if g.HostPath != "" {
				t.Errorf("%q: grant %+v kept its host path", in, g)
			}
		}
		again, err := ParseSerialized(out)
		if err != nil {
			t.Fatalf("%q: written as %s: %v", in, out, err)
		}
		if second, err := json.Marshal(again); err != nil || string(second) != string(out) {
			t.Errorf("%q: written as %s, then as %s, %v", in, out, second, err)
		}
	})
}

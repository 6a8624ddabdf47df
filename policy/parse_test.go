package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/croftdev/croft/internal/fault"
)

// texts are policy files with the faults that they have: line, column, place and reason.
var texts = []struct {
	name, text string
	want       Policy
	faults     []string
	// beyondSchema: only the parser can see the fault.
	beyondSchema bool
}{
	{name: "nothing asked", text: `{}`},
	{name: "every field", text: `{"version": 1, "tier": "namespaces", "floor": "landlock", "network": "host", "read_paths": ["/srv/a"],
		"write_paths": ["/srv/b"], "hidden_paths": ["/srv/c", "**/.env", "a/*.pem"], "protected": ["Makefile"],
		"limits": {"memory": "256M", "pids": 100, "cpu_time": 60, "cpu_share": "150%", "open_files": 64, "file_size": 4096, "disk": "2GiB", "wall_time": "1h30m"},
		"system_calls": {"deny": ["ptrace"], "allow": ["io_uring_setup"]}}`,
		want: Policy{Tier: Namespaces, Floor: Landlock, Network: NetworkHost, ReadPaths: []string{"/srv/a"}, WritePaths: []string{"/srv/b"},
			HiddenPaths: []string{"/srv/c", "**/.env", "a/*.pem"}, Protected: []string{"Makefile"},
			Limits: Limits{Memory: 256 << 20, PIDs: 100, CPUTime: time.Minute, CPUShare: 150, OpenFiles: 64, FileSize: 4096, Disk: 2 << 30,
				WallTime: 90 * time.Minute},
			SystemCalls: SystemCalls{Deny: []string{"ptrace"}, Allow: []string{"io_uring_setup"}}}},
	{name: "YAML", text: "network: none\nread_paths:\n- /srv\nlimits: {memory: 1G, wall_time: 90, cpu_share: 50%}\nprotected: []\n",
		want: Policy{Network: NetworkNone, ReadPaths: []string{"/srv"}, Protected: []string{},
			Limits: Limits{Memory: 1 << 30, WallTime: 90 * time.Second, CPUShare: 50}}},
	{name: "protected by nothing", text: `{"protected": []}`, want: Policy{Protected: []string{}}},

	{name: "unknown field", text: `{"netwrok": "host"}`, faults: []string{"1:2 netwrok unknown_field"}},
	{name: "unknown field, YAML", text: "tier: none\nnet: host\n", faults: []string{"2:1 net unknown_field"}},
	{name: "doubled field", text: "network: none\nnetwork: host\n", faults: []string{"2:1 network duplicate_field"}},
	{name: "doubled limit", text: "limits:\n  pids: 1\n  pids: 2\n", faults: []string{"3:3 limits.pids duplicate_field"}},
	{name: "several", text: "tier: vm\nfloor: 1\nlimits: {mem: 1G}\n",
		faults: []string{"1:7 tier value", "2:8 floor type", "3:10 limits.mem unknown_field"}},
	{name: "version 2", text: `{"version": 2}`, faults: []string{"1:13 version value"}},
	{name: "a list", text: `[]`, faults: []string{"1:1 . type"}},
	{name: "null", text: `{"network": null}`, faults: []string{"1:13 network type"}},
	{name: "unknown network", text: `{"network": "vpn"}`, faults: []string{"1:13 network value"}},
	{name: "a tier in capitals", text: `{"tier": "None"}`, faults: []string{"1:10 tier value"}},
	{name: "no list", text: `{"read_paths": "/srv"}`, faults: []string{"1:16 read_paths type"}},
	{name: "a number for a path", text: `{"read_paths": [1]}`, faults: []string{"1:17 read_paths.0 type"}},
	{name: "relative read path", text: `{"read_paths": ["/a", "srv"]}`, faults: []string{"1:23 read_paths.1 value"}},
	{name: "the whole host", text: `{"write_paths": ["/"]}`, faults: []string{"1:18 write_paths.0 value"}},
	{name: "a path that is not clean", text: `{"read_paths": ["/srv/../etc"]}`, faults: []string{"1:17 read_paths.0 value"}, beyondSchema: true},
	{name: "a path twice", text: `{"read_paths": ["/a", "/a"]}`, faults: []string{"1:23 read_paths.1 value"}},
	{name: "read and written", text: `{"read_paths": ["/a"], "write_paths": ["/a"]}`, faults: []string{"1:40 write_paths.0 value"}, beyondSchema: true},
	{name: "hidden and shown", text: `{"read_paths": ["/a/b"], "hidden_paths": ["/a"]}`, faults: []string{"1:43 hidden_paths.0 value"}, beyondSchema: true},
	{name: "hidden, climbing", text: `{"hidden_paths": ["../x"]}`, faults: []string{"1:19 hidden_paths.0 value"}, beyondSchema: true},
	{name: "hidden, no pattern", text: `{"hidden_paths": ["[a"]}`, faults: []string{"1:19 hidden_paths.0 value"}, beyondSchema: true},
	{name: "hidden, stars in a name", text: `{"hidden_paths": ["a**/b"]}`, faults: []string{"1:19 hidden_paths.0 value"}, beyondSchema: true},
	{name: "protected, absolute", text: `{"protected": ["/etc"]}`, faults: []string{"1:16 protected.0 value"}},
	{name: "a call in capitals", text: `{"system_calls": {"deny": ["SYS_mount"]}}`, faults: []string{"1:28 system_calls.deny.0 value"}},
	{name: "a call denied and allowed", text: `{"system_calls": {"deny": ["ptrace"], "allow": ["ptrace"]}}`,
		faults: []string{"1:49 system_calls.allow.0 value"}, beyondSchema: true},
	{name: "calls in a list", text: `{"system_calls": ["ptrace"]}`, faults: []string{"1:18 system_calls type"}},
	{name: "memory without a unit", text: `{"limits": {"memory": 256}}`, faults: []string{"1:23 limits.memory value"}},
	{name: "megabytes", text: `{"limits": {"memory": "256MB"}}`, faults: []string{"1:23 limits.memory value"}},
	{name: "no pids", text: `{"limits": {"pids": 0}}`, faults: []string{"1:21 limits.pids value"}},
	{name: "pids as text", text: `{"limits": {"pids": "100"}}`, faults: []string{"1:21 limits.pids type"}},
	{name: "half a file", text: `{"limits": {"open_files": 1.5}}`, faults: []string{"1:27 limits.open_files value"}},
	{name: "a share without percent", text: `{"limits": {"cpu_share": 2}}`, faults: []string{"1:26 limits.cpu_share type"}},
	{name: "a time below zero", text: `{"limits": {"wall_time": -1}}`, faults: []string{"1:26 limits.wall_time value"}},
	{name: "a time with an unknown unit", text: `{"limits": {"wall_time": "2 days"}}`, faults: []string{"1:26 limits.wall_time value"}},
	{name: "octal in YAML", text: "limits: {pids: 010}\n", faults: []string{"1:16 limits.pids value"}},
	{name: "not well-formed", text: `{"tier": `, faults: []string{"1:10 . syntax"}},
	{name: "empty", text: ``, faults: []string{"1:1 . syntax"}},
}

func TestFaults(t *testing.T) {
	for _, tt := range texts {
		t.Run(tt.name, func(t *testing.T) {
			p, faults := Faults([]byte(tt.text), Options{Name: "p"})
			var got []string
			for _, f := range faults {
				got = append(got, fmt.Sprintf("%v:%v %v %s", f.Details["line"], f.Details["column"], f.Details["place"], f.Reason))
				if !errors.Is(f, fault.InvalidArgument) || !strings.HasPrefix(f.Message, "p:") {
					t.Errorf("code %s, message %q", f.Code, f.Message)
				}
			}
			if diff := cmp.Diff(tt.faults, got); diff != "" {
				t.Fatalf("faults (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, p); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			if tt.faults == nil {
				checkAccepted(t, p)
			}
		})
	}
}

// checkAccepted checks what the package promises of an accepted policy: a program may build the
// same, and each of its forms is read back as itself.
func checkAccepted(t *testing.T, p Policy) {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Errorf("Check: %v", err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var record Policy
	if err := json.Unmarshal(b, &record); err != nil {
		t.Fatalf("the record %s: %v", b, err)
	}
	if got, want := record.Text(), p.Text(); got != want || (record.Protected == nil) != (p.Protected == nil) {
		t.Errorf("through a record:\n%s\nwant\n%s", got, want)
	}
	again, err := Parse([]byte(p.Text()), Options{Format: YAML})
	if err != nil {
		t.Fatalf("its own text is refused: %v\n%s", err, p.Text())
	}
	if got, want := again.Text(), p.Text(); got != want {
		t.Errorf("through its text:\n%s\nwant\n%s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range texts {
		f.Add(tt.text, strings.HasPrefix(tt.text, "{"))
	}
	f.Fuzz(func(t *testing.T, text string, asJSON bool) {
		format := YAML
		if asJSON {
			format = JSON
		}
		p, faults := Faults([]byte(text), Options{Format: format})
		for _, f := range faults {
			if line, _ := f.Details["line"].(int); line < 1 || f.Details["problem"] == "" {
				t.Errorf("a fault without a place: %v", f)
			}
		}
		if len(faults) == 0 {
			checkAccepted(t, p)
		}
	})
}

func TestWith(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Limits
		bad  bool
	}{
		{in: "memory=256M", want: Limits{Memory: 256 << 20}},
		{in: "memory=1048576", want: Limits{Memory: 1 << 20}},
		{in: "disk=2GiB", want: Limits{Disk: 2 << 30}},
		{in: "file_size=100", want: Limits{FileSize: 100}},
		{in: "pids=100", want: Limits{PIDs: 100}},
		{in: "open_files=64", want: Limits{OpenFiles: 64}},
		{in: "cpu_time=1m30s", want: Limits{CPUTime: 90 * time.Second}},
		{in: "wall_time=90", want: Limits{WallTime: 90 * time.Second}},
		{in: "cpu_share=150%", want: Limits{CPUShare: 150}},
		{in: "memory", bad: true},
		{in: "ram=1G", bad: true},
		{in: "memory=", bad: true},
		{in: "memory=256m", bad: true},
		{in: "memory=256MB", bad: true},
		{in: "memory=iB", bad: true},
		{in: "memory=1.5G", bad: true},
		{in: "memory=9000000T", bad: true},
		{in: "memory=99999999999999999999", bad: true},
		{in: "memory=512", bad: true},
		{in: "pids=0", bad: true},
		{in: "pids=-1", bad: true},
		{in: "pids=010", bad: true},
		{in: "pids=99999999999", bad: true},
		{in: "cpu_share=2", bad: true},
		{in: "cpu_share=0%", bad: true},
		{in: "wall_time=-5s", bad: true},
		{in: "wall_time=0", bad: true},
		{in: "wall_time=99999999999999", bad: true},
		{in: "wall_time=soon", bad: true},
	} {
		got, err := Limits{}.With(tt.in)
		if (err != nil) != tt.bad || tt.bad && !errors.Is(err, ErrInvalid) || got != tt.want {
			t.Errorf("With(%q) = %+v, %v; want %+v, an error: %v", tt.in, got, err, tt.want, tt.bad)
		}
		for name, value := range got.All() {
			if again, err := (Limits{}).With(name + "=" + value); err != nil || again != got {
				t.Errorf("%s is printed as %s=%s, which is %+v, %v", tt.in, name, value, again, err)
			}
		}
	}
	for _, l := range []Limits{{Memory: -1}, {Memory: 5}, {PIDs: -1}, {WallTime: -time.Second}} {
		if err := (Policy{Limits: l}).Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

// TestAsked: no field of a policy, also none that is added later, can ask for something unnoticed.
func TestAsked(t *testing.T) {
	if got := (Policy{}).Asked(); len(got) != 0 {
		t.Errorf("the zero value asks for %q", got)
	}
	seen := map[string]bool{}
	var each func(v reflect.Value, p *Policy)
	each = func(v reflect.Value, p *Policy) {
		for i := range v.NumField() {
			f := v.Field(i)
			switch f.Kind() {
			case reflect.Struct:
				each(f, p)
				continue
			case reflect.String:
				f.SetString("x")
			case reflect.Int64:
				f.SetInt(1)
			case reflect.Slice:
				f.Set(reflect.ValueOf([]string{"x"}))
			default:
				t.Fatalf("a field of the kind %s", f.Kind())
			}
			names := p.Asked()
			if len(names) != 1 || seen[names[0]] {
				t.Errorf("with one field set, %q are asked for", names)
			} else {
				seen[names[0]] = true
			}
			f.SetZero()
		}
	}
	var p Policy
	each(reflect.ValueOf(&p).Elem(), &p)
	if len(seen) != 7+len(LimitNames())+2 {
		t.Errorf("names: %v", seen)
	}
}

func TestPresets(t *testing.T) {
	for _, name := range PresetNames() {
		p, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		checkAccepted(t, p)
	}
	if p, err := Preset("default"); err != nil || len(p.Asked()) != 0 {
		t.Errorf("default = %+v, %v; want the zero value", p, err)
	}
	if _, err := Preset("lax"); !errors.Is(err, ErrInvalid) {
		t.Errorf("lax: %v", err)
	}
}

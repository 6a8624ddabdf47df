package policy_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croftdev/croft/policy"
)

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name string
		p    policy.Policy
		ok   bool
	}{
		{"the zero value", policy.Policy{}, true},
		{"every name", policy.Policy{Tier: policy.None, Floor: policy.Landlock, Network: policy.NetworkHost, ReadPaths: []string{"/srv"}, Protected: []string{".envrc"}}, true},
		{"an unknown tier", policy.Policy{Tier: "vm"}, false},
		{"an unknown floor", policy.Policy{Floor: "vm"}, false},
		{"an unknown network", policy.Policy{Network: "vpn"}, false},
		{"a relative read path", policy.Policy{ReadPaths: []string{"srv"}}, false},
		{"a read path that is not clean", policy.Policy{ReadPaths: []string{"/srv/../etc"}}, false},
		{"the whole host", policy.Policy{ReadPaths: []string{"/"}}, false},
		{"an absolute protected name", policy.Policy{Protected: []string{"/etc"}}, false},
		{"a protected name that climbs", policy.Policy{Protected: []string{"../x"}}, false},
		{"the workspace itself", policy.Policy{Protected: []string{"."}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.p.Check()
			if (err == nil) != tt.ok || err != nil && !errors.Is(err, policy.ErrInvalid) {
				t.Errorf("Check: %v, want ok=%v", err, tt.ok)
			}
		})
	}
	if err := (policy.Policy{Protected: policy.DefaultProtected()}).Check(); err != nil {
		t.Errorf("the default names: %v", err)
	}
}

func TestAtLeast(t *testing.T) {
	for _, tt := range []struct {
		tier, floor policy.Tier
		want        bool
	}{
		{policy.Namespaces, "", true},
		{policy.Landlock, "", true},
		{policy.None, "", false},
		{policy.None, policy.None, true},
		{policy.Landlock, policy.Namespaces, false},
		{policy.Namespaces, policy.Landlock, true},
		{policy.Seatbelt, policy.Landlock, true},
		{policy.None, policy.Seatbelt, false},
	} {
		if got := tt.tier.AtLeast(tt.floor); got != tt.want {
			t.Errorf("%q.AtLeast(%q) = %v", tt.tier, tt.floor, got)
		}
	}
}

func TestParse(t *testing.T) {
	for _, s := range []string{"namespaces", "landlock", "seatbelt", "none"} {
		if got, err := policy.ParseTier(s); err != nil || string(got) != s {
			t.Errorf("ParseTier(%q) = %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"none", "host"} {
		if got, err := policy.ParseNetwork(s); err != nil || string(got) != s {
			t.Errorf("ParseNetwork(%q) = %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "None", "vm"} {
		if _, err := policy.ParseTier(s); !errors.Is(err, policy.ErrInvalid) {
			t.Errorf("ParseTier(%q): %v", s, err)
		}
		if _, err := policy.ParseNetwork(s); !errors.Is(err, policy.ErrInvalid) {
			t.Errorf("ParseNetwork(%q): %v", s, err)
		}
	}
}

// TestProtectedNames: nil means the default, empty means none, and the caller cannot
// change either through what he gets.
func TestProtectedNames(t *testing.T) {
	p := policy.Policy{}
	p.ProtectedNames()[0] = "changed"
	if diff := cmp.Diff(policy.DefaultProtected(), p.ProtectedNames()); diff != "" {
		t.Errorf("default (-want +got):\n%s", diff)
	}
	p.Protected = []string{}
	if got := p.ProtectedNames(); len(got) != 0 {
		t.Errorf("none: %q", got)
	}
}

// TestReceiptJSON: the names in the file form are fixed.
func TestReceiptJSON(t *testing.T) {
	b, err := json.Marshal(policy.Receipt{})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"version", "tier", "floor", "namespaces", "mounts", "landlock", "seccomp", "capabilities", "no_new_privs",
		"network", "limits", "uid_map", "root", "not_enforced",
	} {
		if _, ok := got[name]; !ok {
			t.Errorf("the receipt has no field %s", name)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("further fields: %v", got)
	}
}

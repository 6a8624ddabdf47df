package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/policy"
)

func TestToolchains(t *testing.T) {
	home := t.TempDir()
	for _, d := range []string{
		".nvm/versions/node/v20/bin", ".nvm/versions/node/v20/lib", ".pyenv/shims", ".cargo/bin", ".cargo/registry",
		".local/bin", ".local/lib", "bin", "lib", "go/bin", "go/pkg", "conda/bin", "conda/lib", ".deno/bin",
	} {
		if err := os.MkdirAll(filepath.Join(home, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	homes := []string{home, "/root", "/home"}
	for _, tt := range []struct {
		name, dir string
		want      []string
	}{
		{"node of nvm: the one version", ".nvm/versions/node/v20/bin", []string{".nvm/versions/node/v20"}},
		{"pyenv: shims need all of it", ".pyenv/shims", []string{".pyenv"}},
		{"cargo: the programs and rustup's, never the credentials", ".cargo/bin", []string{".cargo/bin", ".rustup/toolchains", ".rustup/settings.toml"}},
		{"~/.local: the programs, not what lies beside them", ".local/bin", []string{".local/bin"}},
		{"~/bin: never the home directory", "bin", []string{"bin"}},
		{"GOPATH: the programs, not the sources", "go/bin", []string{"go/bin"}},
		{"a prefix with libraries", "conda/bin", []string{"conda"}},
		{"a directory without", ".deno/bin", []string{".deno/bin"}},
		{"the home directory itself", ".", nil},
		{"what contains it", "..", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want []string
			for _, w := range tt.want {
				want = append(want, filepath.Join(home, w))
			}
			if diff := cmp.Diff(want, toolchains(filepath.Join(home, tt.dir), homes)); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSortItems(t *testing.T) {
	got := sortItems([]item{
		{Target: "/a/b/c"}, {Target: "/a"}, {Target: "/tmp", Kind: itemTmpfs}, {Target: "/a/b"}, {Target: "/tmp", Kind: itemBind},
	})
	want := []item{{Target: "/a"}, {Target: "/tmp", Kind: itemBind}, {Target: "/a/b"}, {Target: "/a/b/c"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("parents first, the later of two (-want +got):\n%s", diff)
	}
}

// TestSetupTravels: what is sent arrives, whatever bytes its paths are made of.
func TestSetupTravels(t *testing.T) {
	s, _, err := layout(Spec{Workspace: Bind{Path: "/tmp/w\xff"}, PrivateHome: true, UID: 2_000_000_000}, readHost())
	if err != nil {
		t.Fatal(err)
	}
	s.NotEnforced = []policy.NotEnforced{{Asked: "a", Reason: "b"}}
	s.Items = append(s.Items, item{Kind: itemFile, Target: "/t\n", Content: "x", Mode: 0o1777, Devices: true, Optional: true, Dir: 7, Mount: 9})
	got, err := decodeSetup(s.encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Errorf("setup (-sent +received):\n%s", diff)
	}
}

func FuzzDecodeSetup(f *testing.F) {
	s := setup{Version: wireVersion, Root: "/w", Protected: []string{".envrc"}, Items: []item{{Kind: itemBind, Target: "/usr", Dir: 3}}}
	f.Add(s.encode())
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSetup(b)
		if err != nil {
			return
		}
		again, err := decodeSetup(s.encode())
		if diff := cmp.Diff(s, again); err != nil || diff != "" {
			t.Errorf("setup does not come back: %v (-in +out):\n%s", err, diff)
		}
	})
}

func TestCheckSpec(t *testing.T) {
	ws := Bind{Path: "/srv/ws"}
	for _, tt := range []struct {
		name string
		spec Spec
		want error
	}{
		{"a workspace", Spec{Workspace: ws}, nil},
		{"none by name", Spec{Workspace: ws, Policy: policy.Policy{Tier: policy.None}}, nil},
		{"none below a floor", Spec{Workspace: ws, Policy: policy.Policy{Tier: policy.None, Floor: policy.Landlock}}, fault.ConfinementUnavailable},
		{"none with the floor none", Spec{Workspace: ws, Policy: policy.Policy{Tier: policy.None, Floor: policy.None}}, nil},
		{"a tier that is not built", Spec{Workspace: ws, Policy: policy.Policy{Tier: policy.Landlock}}, fault.ConfinementUnavailable},
		{"a tier that does not exist", Spec{Workspace: ws, Policy: policy.Policy{Tier: "magic"}}, fault.InvalidArgument},
		{"every field that is applied", Spec{Workspace: ws, Policy: policy.Policy{Tier: policy.Namespaces, Floor: policy.Namespaces,
			Network: policy.NetworkHost, ReadPaths: []string{"/srv/x"}, Protected: []string{"a"}}}, nil},
		{"a limit", Spec{Workspace: ws, Policy: policy.Policy{Limits: policy.Limits{PIDs: 5}}}, fault.Unsupported},
		{"a limit without confinement", Spec{Workspace: ws, Policy: policy.Policy{Tier: policy.None, Limits: policy.Limits{PIDs: 5}}}, fault.Unsupported},
		{"a path to write", Spec{Workspace: ws, Policy: policy.Policy{WritePaths: []string{"/srv/x"}}}, fault.Unsupported},
		{"a path to hide", Spec{Workspace: ws, Policy: policy.Policy{HiddenPaths: []string{"**/.env"}}}, fault.Unsupported},
		{"a further call to deny", Spec{Workspace: ws, Policy: policy.Policy{SystemCalls: policy.SystemCalls{Deny: []string{"ptrace"}}}}, fault.Unsupported},
		{"a relative workspace", Spec{Workspace: Bind{Path: "ws"}}, fault.InvalidArgument},
		{"the workspace at /", Spec{Workspace: Bind{Path: "/"}}, fault.InvalidArgument},
		{"the workspace in /proc", Spec{Workspace: Bind{Path: "/x", Target: "/proc/x"}}, fault.InvalidArgument},
		{"a grant over /dev", Spec{Workspace: ws, Grants: []Bind{{Path: "/dev"}}}, fault.InvalidArgument},
		{"a grant by a spelling that is not clean", Spec{Workspace: ws, Grants: []Bind{{Path: "/x", Target: "/y/../x"}}}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := checkSpec(&tt.spec); !errors.Is(err, tt.want) {
				t.Errorf("checkSpec: %v, want %v", err, tt.want)
			}
		})
	}
}

// TestLayoutLimit: more grants than can be sent are refused before anything starts.
func TestLayoutLimit(t *testing.T) {
	spec := Spec{Workspace: Bind{Path: "/srv/ws"}, SearchPath: "/usr/bin"}
	for i := range 200 {
		spec.Grants = append(spec.Grants, Bind{Path: fmt.Sprintf("/srv/grant%d", i)})
	}
	if _, _, err := layout(spec, readHost()); !errors.Is(err, fault.LimitExceeded) {
		t.Errorf("layout: %v", err)
	}
	spec.Grants = spec.Grants[:50]
	if _, _, err := layout(spec, readHost()); err != nil {
		t.Errorf("layout: %v", err)
	}
}

// TestLayout: the rules of what is shown, which no machine's contents change.
func TestLayout(t *testing.T) {
	s, _, err := layout(Spec{Workspace: Bind{Path: "/tmp/project"}, PrivateHome: true, SearchPath: "/usr/bin:relative:/no/such"}, readHost())
	if err != nil {
		t.Fatal(err)
	}
	at := make(map[string]item)
	for i, it := range s.Items {
		at[it.Target] = it
		for j, other := range s.Items {
			if below(it.Target, other.Target) && j > i {
				t.Errorf("%s comes before %s, in which it lies", it.Target, other.Target)
			}
		}
		if it.Kind == itemBind && !it.ReadOnly && !it.Workspace && !it.Devices {
			t.Errorf("%s is writable", it.Target)
		}
	}
	if it := at["/tmp/project"]; !it.Workspace || it.Kind != itemBind || it.Access != accessWrite {
		t.Errorf("the workspace: %+v", it)
	}
	if it := at["/tmp"]; it.Kind != itemTmpfs {
		t.Errorf("/tmp: %+v", it)
	}
	if it := at[s.Home]; it.Kind != itemTmpfs || it.Mode != 0o700 {
		t.Errorf("the home %s: %+v", s.Home, it)
	}
	for _, secret := range []string{"/etc/shadow", "/etc", "/root", "/var", "/run", "/sys", "/boot", "/home"} {
		if it, ok := at[secret]; ok && it.Kind == itemBind {
			t.Errorf("%s is shown", secret)
		}
	}
	if s.SearchPath != "/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin" {
		t.Errorf("PATH %q", s.SearchPath)
	}
}

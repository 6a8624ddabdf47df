package confine_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/policy"
)

// TestReceipt compares the receipt with what a command sees of itself in /proc.
func TestReceipt(t *testing.T) {
	for _, network := range []policy.Network{policy.NetworkNone, policy.NetworkHost} {
		t.Run(string(network), func(t *testing.T) {
			cell := start(t, func(s *confine.Spec) { s.Policy.Network = network; s.Policy.Floor = policy.Namespaces })
			r := cell.Receipt()
			if r.Version != policy.ReceiptVersion || r.Tier != policy.Namespaces || r.Floor != policy.Namespaces ||
				r.Network != network || r.Root != "/workspace" || !r.NoNewPrivs || len(r.Capabilities) != 0 {
				t.Errorf("receipt %+v", r)
			}
			for _, ns := range []string{"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"} {
				seen := strings.TrimSuffix(strings.TrimPrefix(sh(t, cell, "readlink /proc/self/ns/"+ns).text, ns+":["), "]")
				host, err := os.Readlink("/proc/self/ns/" + ns)
				if err != nil {
					t.Fatal(err)
				}
				shared := strings.Contains(host, "["+seen+"]")
				if want := r.Namespaces[ns]; want != seen && !shared || (want == "") != shared {
					t.Errorf("namespace %s: the receipt says %q, a command sees %q, the host %s", ns, want, seen, host)
				}
				if shared != (ns == "net" && network == policy.NetworkHost) {
					t.Errorf("namespace %s: shared with the host: %v", ns, shared)
				}
			}
			status := sh(t, cell, "cat /proc/self/status").text
			for _, line := range []string{
				"NoNewPrivs:\t1", "Seccomp:\t2", "CapInh:\t0000000000000000", "CapPrm:\t0000000000000000",
				"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000",
			} {
				if !strings.Contains(status, line) {
					t.Errorf("a command's status lacks %q", line)
				}
			}
			var targets []string
			for line := range strings.Lines(sh(t, cell, "cat /proc/self/mountinfo").text) {
				targets = append(targets, strings.Fields(line)[4])
			}
			var told []string
			for _, m := range r.Mounts {
				told = append(told, m.Target)
			}
			if diff := cmp.Diff(targets, told); diff != "" {
				t.Errorf("mounts (-seen +told):\n%s", diff)
			}
			idmap := strings.Fields(sh(t, cell, "cat /proc/self/uid_map").text)
			if len(r.UIDMap) != 1 || len(idmap) != 3 {
				t.Errorf("uid map: %+v, seen %q", r.UIDMap, idmap)
			}
			if r.Landlock.ABI < 1 || len(r.Landlock.Rules) == 0 || !strings.HasPrefix(r.Seccomp.Digest, "sha256:") {
				t.Errorf("landlock %+v, seccomp %+v", r.Landlock, r.Seccomp)
			}
		})
	}
}

// TestReceiptOfNone says that nothing is enforced.
func TestReceiptOfNone(t *testing.T) {
	cell := start(t, func(s *confine.Spec) { s.Policy.Tier = policy.None })
	r := cell.Receipt()
	if r.Tier != policy.None || len(r.Namespaces) != 0 || r.Landlock.ABI != 0 || r.Seccomp.Policy != "" ||
		r.Network != policy.NetworkHost || len(r.NotEnforced) == 0 {
		t.Errorf("receipt %+v", r)
	}
	if got := sh(t, cell, "pwd").text; got != r.Root {
		t.Errorf("root %q, the receipt says %q", got, r.Root)
	}
}

// TestProtected: names that others run are read-only in a caller's root, and cannot be
// moved out of the way; names that are missing stand in the receipt.
func TestProtected(t *testing.T) {
	dir := t.TempDir()
	attackLines := []string{
		"echo evil > .git/hooks/pre-commit", "touch .git/hooks/post-merge", "rm -r .git/hooks", "mv .git/hooks .git/hooks2",
		"mv .git .git2", "rm -rf .git/hooks", "echo evil >> .git/config", "mv .git/config .git/c", "echo evil > .envrc",
		"rm .envrc", "ln -sf /tmp/x .envrc", "mv .envrc e", "echo evil > .vscode/tasks.json",
	}
	setup := `git init -q . && echo 'true' > .git/hooks/pre-commit && chmod 755 .git/hooks/pre-commit && echo a > .envrc && mkdir -p .vscode &&
		git config user.email a@b.c && git config user.name n && ln -s .envrc .mcp.json`
	control := start(t, func(s *confine.Spec) {
		s.Workspace, s.Owned, s.Policy = confine.Bind{Path: dir}, false, policy.Policy{Tier: policy.None}
	})
	if out := sh(t, control, setup); out.status.Code != 0 {
		t.Skipf("git is missing or too old: %s", out.text)
	}
	cell := callersRoot(t, dir)
	for _, line := range attackLines {
		if out := sh(t, cell, line); out.status.Code == 0 {
			t.Errorf("%q succeeded", line)
		}
	}
	if b, err := os.ReadFile(dir + "/.git/hooks/pre-commit"); err != nil || string(b) != "true\n" {
		t.Errorf("the hook holds %q, %v", b, err)
	}
	if out := sh(t, cell, "echo x > f && git add f && git commit -qm m && git checkout -qb other && git log --oneline | wc -l"); out.text != "1" {
		t.Errorf("git in the cell: %+v", out)
	}
	missing := func(name string) bool {
		return slices.ContainsFunc(cell.Receipt().NotEnforced, func(n policy.NotEnforced) bool { return n.Asked == "protected:"+name })
	}
	for name, want := range map[string]bool{".idea": true, ".mcp.json": true, ".envrc": false, ".git/hooks": false, ".git/config": false} {
		if missing(name) != want {
			t.Errorf("the receipt lists %s: %v, want %v", name, !want, want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 5 {
		t.Errorf("protecting left a trace: %v, %v", entries, err)
	}
	for _, line := range attackLines[8:] {
		if out := sh(t, control, line); out.status.Code != 0 {
			t.Errorf("control: %q: %+v", line, out)
		}
		sh(t, control, "mv e .envrc 2>/dev/null; echo a > .envrc")
	}
	if out := sh(t, control, attackLines[0]); out.status.Code != 0 {
		t.Errorf("control: %+v", out)
	}
}

// TestUnprotected: croft's own workspaces protect nothing, and a policy can say so.
func TestUnprotected(t *testing.T) {
	cell := start(t, nil)
	if out := sh(t, cell, "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit && echo x > .envrc"); out.status.Code != 0 {
		t.Errorf("own workspace: %+v", out)
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/.envrc", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cell = start(t, func(s *confine.Spec) {
		s.Workspace, s.Owned, s.Policy.Protected = confine.Bind{Path: dir}, false, []string{}
	})
	if out := sh(t, cell, "echo x > .envrc"); out.status.Code != 0 {
		t.Errorf("a policy without protected names: %+v", out)
	}
}

// TestInside is what programs expect to find.
func TestInside(t *testing.T) {
	cell := start(t, func(s *confine.Spec) { s.PrivateHome = true })
	for _, tt := range []struct{ name, line, want string }{
		{"hostname", "hostname", "croft"},
		{"the user has a name", `[ "$(id -un)" = "$(whoami)" ] && id -un`, cell.User()},
		{"home is private, empty and writable", `cd && pwd && ls -A && echo x > f && cat f`, cell.Home() + "\nx"},
		{"no other home", "ls /home | wc -l; ls -d /root/.ssh 2>/dev/null", "1"},
		{"tmp is private", "ls -A /tmp | wc -l; echo x > /tmp/f && cat /tmp/f", "0\nx"},
		{"shared memory", "echo x > /dev/shm/f && cat /dev/shm/f", "x"},
		{"devices", "head -c 4 /dev/urandom | wc -c; echo x > /dev/null; head -c 2 /dev/zero | od -An -tx1", "4\n 00 00"},
		{"no other devices", "ls /dev | tr '\\n' ' '", "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero"},
		{"stdio by name", "echo x > /dev/stderr; cat < /dev/stdin", "x"},
		{"the root is read-only", "touch /x /etc/x /run/x /dev/x 2>/dev/null || echo refused", "refused"},
		{"loopback only", "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '", "lo"},
		{"a pid namespace of one's own", "ls -d /proc/[0-9]* | wc -l | awk '{print ($1 < 8)}'", "1"},
		{"PID 1 does not show", "ls -d /proc/1 2>/dev/null; echo $?", "2"},
		{"environment as given", "env | grep -v -E '^(PATH|HOME|TMPDIR|LANG|PWD|OLDPWD|SHLVL|_)='", ""},
		{"a terminal", "script -qec 'tty' /dev/null | tr -d '\\r'", "/dev/pts/0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if out := sh(t, cell, tt.line); out.text != tt.want {
				t.Errorf("%s: %q, want %q", tt.line, out.text, tt.want)
			}
		})
	}
}

// TestLoopback: programs inside talk to each other.
func TestLoopback(t *testing.T) {
	cell := start(t, nil)
	out := sh(t, cell, `command -v python3 >/dev/null || { echo missing; exit; }
python3 - <<'END'
import socket, threading
s = socket.create_server(("127.0.0.1", 8080))
threading.Thread(target=lambda: s.accept()[0].sendall(b"hi")).start()
print(socket.create_connection(("localhost", 8080)).recv(2).decode())
try:
    socket.create_connection(("1.1.1.1", 53), 1)
except OSError as e:
    print(e.errno)
END`)
	if out.text == "missing" {
		t.Skip("python3 is missing")
	}
	if out.text != "hi\n101" {
		t.Errorf("loopback: %+v", out)
	}
}

// TestTools runs what is on this machine's PATH.
func TestTools(t *testing.T) {
	cell := start(t, nil)
	for _, line := range []string{"python3 -c 'print(1)'", "node -e 'console.log(1)'", "go version", "git --version", "cc --version", "cargo --version"} {
		tool := strings.Fields(line)[0]
		if here := sh(t, start(t, func(s *confine.Spec) { s.Policy.Tier = policy.None }), line); here.status.Code != 0 {
			t.Logf("%s does not run on this machine outside either", tool)
			continue
		}
		if out := sh(t, cell, line); out.status.Code != 0 {
			t.Errorf("%s: %+v", line, out)
		}
	}
}

package denial

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croftdev/croft/policy"
)

// host is a machine of a few paths. What is not in it does not exist.
var host = Host{
	Look: func(path string) Sight {
		hidden := Sight{Exists: true, Readable: true, Writable: true}
		mine := Sight{Exists: true, Visible: true, Readable: true, Writable: true}
		readOnly := Sight{Exists: true, Visible: true, Readable: true, Writable: true, ReadOnly: true}
		protected := func(name string) Sight { s := readOnly; s.Protected = name; return s }
		return map[string]Sight{
			"/home/u": hidden, "/home/u/.npmrc": hidden, "/home/u/data.csv": hidden, "/srv/out": hidden, "/var/run/docker.sock": hidden,
			"/home/other/key": {Exists: true}, // not for this user, with confinement or without
			"/ws":             mine, "/ws/closed": {Exists: true, Visible: true, Writable: false}, "/ws/mount": mine,
			"/ws/.envrc": protected(".envrc"), "/ws/.git/hooks/pre-commit": protected(".git/hooks"), "/ws/.vscode/x": protected(".vscode"),
			"/data": readOnly, "/data/set.db": readOnly, "/data/new": {Visible: false, ReadOnly: true, Writable: true},
			"/usr/bin/sh":   {Exists: true, Visible: true, Readable: true, ReadOnly: true},
			"/usr/lib/x.so": {Exists: true, Visible: true, Readable: true, ReadOnly: true},
			"/etc/shadow":   {Exists: true},
		}[path]
	},
	// Of the calls that the filter denies, the host allows these to the user.
	Denies: func(call string) bool {
		return map[string]bool{"unshare": true, "io_uring_setup": true, "perf_event_open": true, "bpf": true}[call]
	},
}

func evidence(code int, stderr string) Evidence {
	return Evidence{
		ExitCode: code, Stderr: []byte(stderr), Dir: "/ws",
		Policy: policy.Policy{Limits: policy.Limits{Memory: 256 << 20, PIDs: 100, CPUTime: 10e9, FileSize: 1 << 20}},
		Receipt: policy.Receipt{
			Tier: policy.Namespaces, Network: policy.NetworkNone, Seccomp: policy.SeccompReceipt{Policy: "deny-list-1"},
			Limits: []policy.Limit{{Name: "memory", Enforced: "256M"}, {Name: "pids", Enforced: "100"}, {Name: "cpu_time", Enforced: "10s"}, {Name: "file_size", Enforced: "1M"}},
		},
	}
}

func read(p string) Denial {
	return Denial{File, p, "not in read_paths", Grant{"read_paths", p}, Likely}
}
func write(p string) Denial {
	return Denial{File, p, "not in write_paths", Grant{"write_paths", p}, Likely}
}
func guard(p, name string) Denial {
	return Denial{File, p, "protected: " + name, Grant{"protected", name}, Likely}
}
func reach(h string) Denial {
	return Denial{Network, h, "network: none", Grant{"network", "host"}, Likely}
}
func call(name string) Denial {
	return Denial{Syscall, name, "system_calls: deny-list-1", Grant{"system_calls.allow", name}, Likely}
}
func limit(name, value string, c Confidence) Denial {
	return Denial{Limit, name, "limits." + name + ": " + value, Grant{Field: "limits." + name}, c}
}

// TestTrue: the confinement was the cause, and the hint says so. The texts are those of real programs.
func TestTrue(t *testing.T) {
	counted := evidence(137, "Killed\n")
	counted.ExitCode, counted.Limits = -9, []string{"memory"}
	forks := evidence(2, "sh: 1: Cannot fork\n")
	forks.Limits = []string{"pids"}
	twice := evidence(-24, "")
	twice.Limits = []string{"cpu_time"}
	for _, tt := range []struct {
		name string
		e    Evidence
		want Denial
	}{
		{"cat", evidence(1, "cat: /home/u/data.csv: No such file or directory\n"), read("/home/u/data.csv")},
		{"ls, quoted", evidence(2, "ls: cannot access '/home/u': No such file or directory\n"), read("/home/u")},
		{"python", evidence(1, "Traceback (most recent call last):\n  File \"/ws/a.py\", line 1, in <module>\nFileNotFoundError: [Errno 2] No such file or directory: '/home/u/data.csv'\n"), read("/home/u/data.csv")},
		{"node", evidence(1, "Error: ENOENT: no such file or directory, open '/home/u/.npmrc'\n    at Object.openSync (node:fs:573:18)\n"), read("/home/u/.npmrc")},
		{"go", evidence(1, "panic: open /home/u/data.csv: no such file or directory\n"), read("/home/u/data.csv")},
		{"the docker socket", evidence(1, "dial unix /var/run/docker.sock: connect: no such file or directory\n"), read("/var/run/docker.sock")},
		{"dash writes where nothing is", evidence(2, "sh: 1: cannot create /srv/out/x: Directory nonexistent\n"), write("/srv/out")},
		{"touch where nothing is", evidence(1, "touch: cannot touch '/srv/out/x': No such file or directory\n"), write("/srv/out")},
		{"a read-only grant", evidence(1, "touch: cannot touch '/data/set.db': Read-only file system\n"), write("/data/set.db")},
		{"sqlite in a read-only grant", evidence(1, "OSError: [Errno 30] Read-only file system: '/data/set.db'\n"), write("/data/set.db")},
		{"a protected name", evidence(1, "touch: cannot touch '.envrc': Read-only file system\n"), guard("/ws/.envrc", ".envrc")},
		{"a hook", evidence(2, "sh: 1: cannot create .git/hooks/pre-commit: Read-only file system\n"), guard("/ws/.git/hooks/pre-commit", ".git/hooks")},
		{"a protected name under landlock", evidence(1, "bash: line 1: .vscode/x: Permission denied\n"), guard("/ws/.vscode/x", ".vscode")},
		{"curl", evidence(6, "curl: (6) Could not resolve host: example.com\n"), reach("example.com")},
		{"git", evidence(128, "fatal: unable to access 'https://github.com/a/b/': Could not resolve host: github.com\n"), reach("github.com")},
		{"npm", evidence(1, "npm error request to https://registry.example/x failed, reason: getaddrinfo EAI_AGAIN registry.example\n"), reach("registry.example")},
		{"go", evidence(1, "dial tcp: lookup proxy.example on 10.0.0.2:53: dial udp 10.0.0.2:53: connect: network is unreachable\n"), reach("proxy.example")},
		{"ssh", evidence(255, "ssh: Could not resolve hostname build.example: Temporary failure in name resolution\n"), reach("build.example")},
		{"an address", evidence(1, "Error: connect ENETUNREACH 93.184.216.34:443 - Local (0.0.0.0:0)\n"), reach("93.184.216.34")},
		{"memory, counted", counted, limit("memory", "256M", Certain)},
		{"processes, counted", forks, limit("pids", "100", Certain)},
		{"processor time, by its signal", evidence(-24, ""), limit("cpu_time", "10s", Likely)},
		{"processor time, counted too", twice, limit("cpu_time", "10s", Certain)},
		{"file size, by its signal", evidence(-25, ""), limit("file_size", "1M", Likely)},
		{"unshare", evidence(1, "unshare: unshare failed: Operation not permitted\n"), call("unshare")},
		{"io_uring", evidence(1, "io_uring_setup: Function not implemented\n"), call("io_uring_setup")},
		{"perf", evidence(1, "Error: perf_event_open() failed: Operation not permitted\n"), call("perf_event_open")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff([]Denial{tt.want}, Explain(tt.e, host)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFalse: something else was the cause, and nothing is said.
func TestFalse(t *testing.T) {
	unconfined := evidence(1, "cat: /home/u/data.csv: No such file or directory\n")
	unconfined.Receipt.Tier = policy.None
	online := evidence(6, "curl: (6) Could not resolve host: no.such.example\n")
	online.Receipt.Network = policy.NetworkHost
	unlimited := evidence(-24, "")
	unlimited.Policy.Limits = policy.Limits{}
	unenforced := evidence(1, "")
	unenforced.Limits, unenforced.Receipt.Limits = []string{"memory"}, nil
	readOnlyDir := evidence(1, "error: Permission denied\n")
	readOnlyDir.Dir = "/data"
	nowhere := evidence(1, "cat: .envrc: Permission denied\n")
	nowhere.Dir = ""
	for _, tt := range []struct {
		name string
		e    Evidence
	}{
		{"success", evidence(0, "cat: /home/u/data.csv: No such file or directory\n")},
		{"silence", evidence(1, "")},
		{"no confinement", unconfined},
		{"its own chmod 000", evidence(1, "cat: closed: Permission denied\n")},
		{"its own chmod 000, by the path", evidence(1, "cat: /ws/closed: Permission denied\n")},
		{"a program that prints it", evidence(1, "Permission denied\n")},
		{"a program that prints it about itself", evidence(1, "error: Permission denied (publickey).\n")},
		{"the same where it may not write", readOnlyDir},
		{"a missing file", evidence(1, "cat: /ws/nothing: No such file or directory\n")},
		{"a missing file that the host does not have", evidence(1, "cat: /opt/nothing: No such file or directory\n")},
		{"a missing file in a hidden directory", evidence(1, "cat: /home/u/nothing: No such file or directory\n")},
		{"a missing name", evidence(1, "cat: nothing: No such file or directory\n")},
		{"a relative name, no directory known", nowhere},
		{"another user's, hidden too", evidence(1, "cat: /home/other/key: No such file or directory\n")},
		{"a system file that no user may read", evidence(1, "cat: /etc/shadow: Permission denied\n")},
		{"a system file that no user may write", evidence(1, "touch: cannot touch '/usr/lib/x.so': Read-only file system\n")},
		{"the shell's own path before a name", evidence(2, "/usr/bin/sh: 1: cannot open nothing: Permission denied\n")},
		{"an immutable file", evidence(1, "rm: cannot remove '/data/set.db': Operation not permitted\n")},
		{"connection refused on localhost", evidence(7, "curl: (7) Failed to connect to localhost port 8080 after 0 ms: Connection refused\n")},
		{"localhost that does not resolve", evidence(6, "curl: (6) Could not resolve host: localhost\n")},
		{"a loopback address", evidence(1, "Error: connect ENETUNREACH ::1:443\n")},
		{"connection refused elsewhere", evidence(7, "curl: (7) Failed to connect to db.example port 5432: Connection refused\n")},
		{"an unreachable network without a host", evidence(2, "ping: connect: Network is unreachable\n")},
		{"a name that does not exist, with the host's network", online},
		{"a signal at a limit that nobody set", unlimited},
		{"a limit that was not in force", unenforced},
		{"killed by somebody", evidence(-9, "Killed\n")},
		{"a fault of its own", evidence(-11, "Segmentation fault\n")},
		{"a file with the name of a call", evidence(1, "rm: cannot remove 'bpf': Operation not permitted\n")},
		{"a file with the name of a call, unquoted", evidence(1, "chmod: bpf: Operation not permitted\n")},
		{"a call that the host denies too", evidence(1, "mount: mount() failed: Operation not permitted\n")},
		{"a call that no kernel here has", evidence(1, "map_shadow_stack: Function not implemented\n")},
		{"a test that failed", evidence(1, "FAIL: want \"No such file or directory\", got nothing\n")},
		{"long ago", evidence(1, "cat: /home/u/data.csv: No such file or directory\n"+strings.Repeat("ok\n", maxLines))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Explain(tt.e, host); len(got) != 0 {
				t.Errorf("explained: %+v", got)
			}
		})
	}
}

// TestKnowsNothing: without answers of the host nothing of files and calls is explained.
func TestKnowsNothing(t *testing.T) {
	for _, line := range []string{"cat: /home/u/data.csv: No such file or directory\n", "unshare: unshare failed: Operation not permitted\n"} {
		if got := Explain(evidence(1, line), Host{}); len(got) != 0 {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

// TestBounds: what a command writes costs little and gives few hints, each once.
func TestBounds(t *testing.T) {
	line := "cat: /home/u/data.csv: No such file or directory\n"
	if got := Explain(evidence(1, strings.Repeat(line, 30)), host); len(got) != 1 {
		t.Errorf("the same 30 times: %+v", got)
	}
	hosts := ""
	for i := range 30 {
		hosts += "curl: (6) Could not resolve host: h" + string(rune('a'+i%26)) + ".example\n"
	}
	if got := Explain(evidence(1, hosts), host); len(got) != maxDenials {
		t.Errorf("%d denials, want %d", len(got), maxDenials)
	}
	if got := Explain(evidence(1, "cat: /home/u/data.csv"+strings.Repeat("/.", maxLine)+": No such file or directory\n"), host); len(got) != 0 {
		t.Errorf("a long line: %+v", got)
	}
}

// FuzzExplain: whatever a command writes, a hint names a file only where the host's answer
// says that the confinement refuses it.
func FuzzExplain(f *testing.F) {
	f.Add("cat: /home/u/data.csv: No such file or directory\n")
	f.Add("touch: cannot touch '.envrc': Read-only file system\n")
	f.Add("curl: (6) Could not resolve host: example.com\n")
	f.Fuzz(func(t *testing.T, stderr string) {
		for _, d := range Explain(evidence(1, stderr), host) {
			switch d.Kind {
			case File:
				if s := host.Look(d.Target); s.Visible && !s.ReadOnly {
					t.Errorf("%q: %+v is open to commands", stderr, d)
				}
			case Network:
				if local(d.Target) || d.Target == "" {
					t.Errorf("%q: %+v", stderr, d)
				}
			case Syscall:
				if !host.Denies(d.Target) {
					t.Errorf("%q: %+v", stderr, d)
				}
			case Limit:
				t.Errorf("%q: %+v", stderr, d)
			}
		}
	})
}

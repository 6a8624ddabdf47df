package confine

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/croftdev/croft/policy"
)

// namespaceNames are the namespaces of a receipt, as /proc/PID/ns names them.
var namespaceNames = []string{"user", "mnt", "pid", "ipc", "uts", "net", "cgroup"}

// readReceipt asks the kernel what confines the commands of this warden, and fails if
// that is less than was meant. The thread's own part is in c.
func readReceipt(s *setup, c confinement) (policy.Receipt, error) {
	r := policy.Receipt{
		Version: policy.ReceiptVersion, Tier: s.Tier, Floor: s.Floor, Network: s.Network, Root: s.Root,
		Namespaces: map[string]string{}, Mounts: []policy.Mount{}, Limits: []policy.Limit{}, UIDMap: []policy.IDMap{},
		Landlock: c.landlock, Seccomp: c.seccomp, NotEnforced: s.NotEnforced,
	}
	if r.Landlock.Rules == nil {
		r.Landlock.Rules = []policy.LandlockRule{}
	}
	if r.NotEnforced == nil {
		r.NotEnforced = []policy.NotEnforced{}
	}
	broken := func(format string, args ...any) (policy.Receipt, error) {
		return policy.Receipt{}, &failure{Step: stepReceipt, Text: fmt.Sprintf(format, args...)}
	}
	var err error
	// What a program that is executed may gain is bounded by the bounding set; all five
	// sets belong to what a command has or could gain.
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if r.Capabilities, err = capNames(c.status[set]); err != nil {
			return broken("%s: %v", set, err)
		}
		if len(r.Capabilities) > 0 && s.Tier != policy.None {
			return broken("%s is not empty: %v", set, r.Capabilities)
		}
		if set == "CapEff" && s.Tier == policy.None {
			break
		}
	}
	r.NoNewPrivs = c.status["NoNewPrivs"] == "1"
	if s.Tier == policy.None {
		return r, nil
	}
	if !r.NoNewPrivs {
		return broken("no_new_privs is not set")
	}
	if c.status["Seccomp"] != "2" {
		return broken("no system call filter is in force: Seccomp is %q", c.status["Seccomp"])
	}
	for _, name := range namespaceNames {
		if name == "net" && s.Network == policy.NetworkHost {
			continue
		}
		link, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return broken("read namespace: %v", err)
		}
		r.Namespaces[name] = strings.TrimSuffix(strings.TrimPrefix(link, name+":["), "]")
	}
	if r.Mounts, err = readMounts(s); err != nil {
		return broken("read mounts: %v", err)
	}
	if r.UIDMap, err = mappedUIDs(); err != nil {
		return broken("%v", err)
	}
	r.NotEnforced = append(r.NotEnforced, knownGaps(s, c)...)
	return r, nil
}

// knownGaps lists what a reader could expect of this tier and does not get here.
func knownGaps(s *setup, c confinement) []policy.NotEnforced {
	var gaps []policy.NotEnforced
	if !s.Privileged {
		if groups, err := os.Getgroups(); err == nil && len(groups) > 1 {
			gaps = append(gaps, policy.NotEnforced{Asked: "groups", Reason: "commands keep this user's supplementary groups: an ordinary user may not drop them in a user namespace"})
		}
	}
	if c.landlock.ABI < 6 && s.Network == policy.NetworkHost {
		gaps = append(gaps, policy.NotEnforced{Asked: "scope:abstract_unix_socket", Reason: "abstract sockets of the host can be reached with its network: landlock ABI 6 (Linux 6.12) hides them"})
	}
	return gaps
}

// readMounts reads /proc/self/mountinfo, see proc_pid_mountinfo(5).
func readMounts(s *setup) ([]policy.Mount, error) {
	text, err := readSmall("/proc/self/mountinfo", 16<<20)
	if err != nil {
		return nil, err
	}
	var mounts []policy.Mount
	for line := range strings.Lines(text) {
		head, tail, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(head), strings.Fields(tail)
		if !ok || len(f) < 6 || len(g) < 1 {
			return nil, errWire
		}
		m := policy.Mount{Target: unescapeMount(f[4]), Type: g[0]}
		for o := range strings.SplitSeq(f[5], ",") {
			switch o {
			case "ro":
				m.ReadOnly = true
			case "nosuid":
				m.NoSUID = true
			case "nodev":
				m.NoDev = true
			case "idmapped":
				m.IDMapped = true
			}
		}
		m.Workspace = m.Target == s.Root
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// unescapeMount undoes the octal escapes of mountinfo (space, tab, newline, backslash).
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

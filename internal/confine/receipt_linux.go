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

// readReceipt asks the kernel what the namespaces of this warden are. What belongs to
// the confined thread is added by [confinement.complete].
func readReceipt(s *setup) (policy.Receipt, error) {
	r := policy.Receipt{
		Version: policy.ReceiptVersion, Tier: s.Tier, Floor: s.Floor, Network: s.Network, Root: s.Root,
		Namespaces: map[string]string{}, Mounts: []policy.Mount{}, Limits: []policy.Limit{}, UIDMap: []policy.IDMap{},
		NotEnforced: append([]policy.NotEnforced{}, s.NotEnforced...),
	}
	if s.Tier == policy.None {
		return r, nil
	}
	for _, name := range namespaceNames {
		if name == "net" && s.Network == policy.NetworkHost {
			continue
		}
		link, err := os.Readlink("/proc/self/ns/" + name)
		if err != nil {
			return r, broken("read namespace: %v", err)
		}
		r.Namespaces[name] = strings.TrimSuffix(strings.TrimPrefix(link, name+":["), "]")
	}
	var err error
	if r.Mounts, err = readMounts(s); err != nil {
		return r, broken("read mounts: %v", err)
	}
	if r.UIDMap, err = mappedUIDs(); err != nil {
		return r, broken("%v", err)
	}
	return r, nil
}

func broken(format string, args ...any) error {
	return &failure{Step: stepReceipt, Text: fmt.Sprintf(format, args...)}
}

// complete adds to r what the confined thread is, as its status in /proc tells, and
// fails if that is less than was meant.
func (c confinement) complete(r *policy.Receipt) error {
	r.Landlock, r.Seccomp = c.landlock, c.seccomp
	if r.Landlock.Rules == nil {
		r.Landlock.Rules = []policy.LandlockRule{}
	}
	r.NoNewPrivs = c.status["NoNewPrivs"] == "1"
	effective, err := capNames(c.status["CapEff"])
	if err != nil {
		return broken("CapEff: %v", err)
	}
	r.Capabilities = effective
	if r.Tier == policy.None {
		return nil
	}
	// What a program that is executed may gain is bounded by the bounding set; all five
	// sets belong to what a command has or could gain.
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if names, err := capNames(c.status[set]); err != nil || len(names) > 0 {
			return broken("%s is not empty: %v %v", set, names, err)
		}
	}
	if !r.NoNewPrivs {
		return broken("no_new_privs is not set")
	}
	if c.status["Seccomp"] != "2" {
		return broken("no system call filter is in force: Seccomp is %q", c.status["Seccomp"])
	}
	r.NotEnforced = append(r.NotEnforced, c.gaps(r.Network)...)
	return nil
}

// gaps lists what a reader could expect of this tier and does not get here.
func (c confinement) gaps(network policy.Network) []policy.NotEnforced {
	var gaps []policy.NotEnforced
	if groups, err := os.Getgroups(); err == nil && len(groups) > 1 {
		gaps = append(gaps, policy.NotEnforced{
			Asked:  "groups",
			Reason: "commands keep this user's supplementary groups: an ordinary user may not drop them in a user namespace",
		})
	}
	if c.landlock.ABI < 6 && network == policy.NetworkHost {
		gaps = append(gaps, policy.NotEnforced{
			Asked:  "scope:abstract_unix_socket",
			Reason: "abstract sockets of the host can be reached with its network: landlock ABI 6 (Linux 6.12) hides them",
		})
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

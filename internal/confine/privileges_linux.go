package confine

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// wardenCaps are the capabilities that the warden holds inside its user namespace.
// They say nothing about anything outside of it.
var wardenCaps = []uintptr{
	unix.CAP_SYS_ADMIN,  // mounts, pivot_root, the host name
	unix.CAP_NET_ADMIN,  // bringing the loopback interface up
	unix.CAP_SETUID,     // becoming the session's user, and no other: none is mapped
	unix.CAP_SETGID,     // the same for groups
	unix.CAP_SETPCAP,    // emptying the bounding set
	unix.CAP_SYS_PTRACE, // finding the processes of a command in /proc
	unix.CAP_KILL,       // ending them
}

// dropPrivileges takes every capability from the calling thread and from everything
// that it will ever execute, and sets no_new_privs.
//
// What it stops: file capabilities and setuid programs giving anything back, and
// mounts, traces and network settings by a command. All of it is kept per thread
// (capabilities(7), "Per-thread"), so the caller is locked to the thread that
// forks commands.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	for c := uintptr(0); ; c++ {
		// EINVAL ends the list: the kernel knows no capability of that number.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err == unix.EINVAL {
			break
		} else if err != nil {
			return fmt.Errorf("drop capability %d from the bounding set: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// threadStatus returns the fields of /proc/thread-self/status that tell what confines
// the calling thread, as the kernel prints them.
func threadStatus() (map[string]string, error) {
	text, err := readSmall("/proc/thread-self/status", 64<<10)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			fields[key] = strings.TrimSpace(value)
		}
	}
	return fields, nil
}

// capNames returns the names of the capabilities in a mask of /proc/PID/status.
func capNames(hex string) ([]string, error) {
	mask, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		return nil, fmt.Errorf("read capabilities: %w", err)
	}
	names := []string{}
	for c := range 64 {
		if mask&(1<<c) == 0 {
			continue
		}
		if c < len(capabilityNames) {
			names = append(names, capabilityNames[c])
		} else {
			names = append(names, "CAP_"+strconv.Itoa(c))
		}
	}
	return names, nil
}

// capabilityNames are the names by number, from capabilities(7).
var capabilityNames = strings.Fields(`CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID CAP_KILL
	CAP_SETGID CAP_SETUID CAP_SETPCAP CAP_LINUX_IMMUTABLE CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_NET_ADMIN
	CAP_NET_RAW CAP_IPC_LOCK CAP_IPC_OWNER CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_CHROOT CAP_SYS_PTRACE CAP_SYS_PACCT
	CAP_SYS_ADMIN CAP_SYS_BOOT CAP_SYS_NICE CAP_SYS_RESOURCE CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_MKNOD CAP_LEASE
	CAP_AUDIT_WRITE CAP_AUDIT_CONTROL CAP_SETFCAP CAP_MAC_OVERRIDE CAP_MAC_ADMIN CAP_SYSLOG CAP_WAKE_ALARM
	CAP_BLOCK_SUSPEND CAP_AUDIT_READ CAP_PERFMON CAP_BPF CAP_CHECKPOINT_RESTORE`)

// isRoot reports whether this process is root with more than itself in its user
// namespace: only then another uid can be given to commands.
func isRoot() bool {
	if os.Geteuid() != 0 {
		return false
	}
	ranges, err := mappedUIDs()
	if err != nil {
		return false
	}
	var n uint64
	for _, r := range ranges {
		n += uint64(r.Count)
	}
	return n > 1
}

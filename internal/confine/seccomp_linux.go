package confine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seccompPolicy names the deny list in receipts; it changes with the list.
const seccompPolicy = "deny-list-1"

// denial is one entry of the filter: the system call nr answers errno if every
// condition holds.
type denial struct {
	nr    uint32
	errno syscall.Errno
	when  []condition
}

// condition compares the low 32 bits of one argument. The kernel looks at 32 bits of
// flags, domains and ioctl requests too: a filter that compared all 64 was passed by
// setting a high bit (CVE-2019-10063).
type condition struct {
	arg  uint32
	op   operator
	mask uint32
	vals []uint32
}

type operator uint8

const (
	anyBit operator = iota // arg & mask != 0
	isOne                  // arg & mask is one of vals
	isNone                 // arg & mask is none of vals
)

const all32 = 0xffffffff

// namespaceFlags are the CLONE_NEW* flags that clone and unshare share.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// denials returns the deny list. What a process needs no rights for, and no ordinary
// program calls, is denied because of what the kernel does for it: most local kernel
// exploits of the last years went through a namespace, a key ring, bpf, perf, io_uring or an
// odd socket family. Calls that answer ENOSYS make programs use the older call;
// EPERM would make them give up.
//
// setgid tells whether the setgid bit is denied like the setuid bit.
func denials(setgid bool) []denial {
	list := setIDDenials(setgid)
	list = append(list,
		// TIOCSTI and TIOCLINUX put input into the terminal that croft was started from
		// (CVE-2017-5226); TIOCSETD loads line disciplines into the kernel.
		denial{unix.SYS_IOCTL, unix.EPERM, []condition{{1, isOne, all32, []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD}}}},
		denial{unix.SYS_SOCKET, unix.EAFNOSUPPORT, []condition{{0, isNone, all32,
			[]uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}}}},
		denial{unix.SYS_SOCKET, unix.EPERM, []condition{
			{0, isOne, all32, []uint32{unix.AF_INET, unix.AF_INET6}},
			{1, isOne, 0xf, []uint32{unix.SOCK_RAW, unix.SOCK_PACKET}}}},
		denial{unix.SYS_SOCKET, unix.EPROTONOSUPPORT, []condition{
			{0, isOne, all32, []uint32{unix.AF_NETLINK}},
			{2, isNone, all32, []uint32{unix.NETLINK_ROUTE, unix.NETLINK_SOCK_DIAG, unix.NETLINK_KOBJECT_UEVENT}}}},
		// A namespace of one's own gives capabilities inside it, and with them most of
		// the kernel's surface. clone3 passes its flags by pointer, so it cannot be judged.
		denial{unix.SYS_CLONE, unix.EPERM, []condition{{0, anyBit, namespaceFlags, nil}}},
		denial{unix.SYS_UNSHARE, unix.EPERM, []condition{{0, anyBit, namespaceFlags | unix.CLONE_NEWTIME, nil}}},
		denial{unix.SYS_CLONE3, unix.ENOSYS, nil},
		denial{unix.SYS_IO_URING_SETUP, unix.ENOSYS, nil},
		denial{unix.SYS_IO_URING_ENTER, unix.ENOSYS, nil},
		denial{unix.SYS_IO_URING_REGISTER, unix.ENOSYS, nil},
	)
	for _, nr := range append(deniedCalls, deniedArch...) {
		list = append(list, denial{nr, unix.EPERM, nil})
	}
	return list
}

// deniedCalls answer EPERM whatever their arguments.
var deniedCalls = []uint32{
	// Mounts and roots.
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT,
	unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
	unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS,
	// Files by handle pass every path rule (CVE-2014-9357); fanotify watches whole mounts.
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
	// Key rings are not bound to namespaces.
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	// Programs, counters and page faults inside the kernel.
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	// The machine.
	unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	unix.SYS_LSM_SET_SELF_ATTR, unix.SYS_KEXEC_FILE_LOAD,
}

// setIDDenials keeps commands from making setuid files. Without it a command could
// leave one in the workspace that belongs, on the host's disk, to whoever runs croft, for
// another user of the host to execute; nosuid holds only inside. It does not stop a
// command that keeps such a file as it is, if it was there before.
//
// openat2 passes its mode by pointer, so it is answered as an old kernel would.
func setIDDenials(setgid bool) []denial {
	bits := uint32(unix.S_ISUID)
	if setgid {
		bits |= unix.S_ISGID
	}
	mode := func(arg uint32) condition { return condition{arg, anyBit, bits, nil} }
	creates := func(arg uint32) condition {
		// O_TMPFILE holds the bits of O_DIRECTORY too, which mean nothing by themselves.
		return condition{arg, anyBit, unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY, nil}
	}
	list := []denial{
		{unix.SYS_OPENAT, unix.EPERM, []condition{creates(2), mode(3)}},
		{unix.SYS_FCHMOD, unix.EPERM, []condition{mode(1)}},
		{unix.SYS_FCHMODAT, unix.EPERM, []condition{mode(2)}},
		{unix.SYS_FCHMODAT2, unix.EPERM, []condition{mode(2)}},
		{unix.SYS_MKNODAT, unix.EPERM, []condition{mode(2)}},
		{unix.SYS_OPENAT2, unix.ENOSYS, nil},
	}
	return append(list, setIDArch(mode, creates)...)
}

// Offsets in struct seccomp_data, see seccomp(2). The low half of an argument comes
// first on the little-endian architectures that croft is built for.
const (
	offsetNr   = 0
	offsetArch = 4
	offsetArgs = 16
)

// assemble returns the program that denies what the list says, allows the rest,
// and kills a process that uses another architecture's call numbers: they would be read
// as other calls.
func assemble(list []denial) []unix.SockFilter {
	const load, jeq, jge, jset = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K,
		unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	stmt := func(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
	jump := func(code uint16, k uint32, yes, no int) unix.SockFilter {
		return unix.SockFilter{Code: code, K: k, Jt: uint8(yes), Jf: uint8(no)}
	}
	ret := func(k uint32) unix.SockFilter { return stmt(unix.BPF_RET|unix.BPF_K, k) }
	prog := []unix.SockFilter{
		stmt(load, offsetArch), jump(jeq, auditArch, 1, 0), ret(unix.SECCOMP_RET_KILL_PROCESS), stmt(load, offsetNr),
	}
	if x32Bit != 0 {
		prog = append(prog, jump(jge, x32Bit, 0, 1), ret(unix.SECCOMP_RET_KILL_PROCESS))
	}
	for _, d := range list {
		// The body is built first, so that the jump over it knows its length. Each
		// condition that does not hold jumps to the end of the body, which loads the
		// number of the call again for the next entry.
		var body []unix.SockFilter
		var misses []int
		for _, c := range d.when {
			body = append(body, stmt(load, offsetArgs+8*c.arg))
			if c.op != anyBit && c.mask != all32 {
				body = append(body, stmt(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, c.mask))
			}
			switch c.op {
			case anyBit:
				misses = append(misses, len(body))
				body = append(body, jump(jset, c.mask, 0, 0))
			case isOne:
				// A value that matches jumps over the JA that ends the list.
				for i, v := range c.vals {
					body = append(body, jump(jeq, v, len(c.vals)-i, 0))
				}
				misses = append(misses, len(body))
				body = append(body, stmt(unix.BPF_JMP|unix.BPF_JA, 0))
			case isNone:
				// A value that matches jumps to the JA; the last one that does not, over it.
				for i, v := range c.vals {
					body = append(body, jump(jeq, v, len(c.vals)-1-i, 0))
				}
				body[len(body)-1].Jf = 1
				misses = append(misses, len(body))
				body = append(body, stmt(unix.BPF_JMP|unix.BPF_JA, 0))
			}
		}
		body = append(body, ret(unix.SECCOMP_RET_ERRNO|uint32(d.errno)))
		for _, m := range misses {
			away := len(body) - m - 1
			if body[m].Code == unix.BPF_JMP|unix.BPF_JA {
				body[m].K = uint32(away)
			} else {
				body[m].Jf = uint8(away)
			}
		}
		if len(d.when) > 0 {
			body = append(body, stmt(load, offsetNr))
		}
		prog = append(prog, jump(jeq, d.nr, 0, len(body)))
		prog = append(prog, body...)
	}
	return append(prog, ret(unix.SECCOMP_RET_ALLOW))
}

// digest returns the SHA-256 of the program as the kernel gets it.
func digest(prog []unix.SockFilter) string {
	h := sha256.New()
	for _, f := range prog {
		h.Write(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint16(nil, f.Code), f.K))
		h.Write([]byte{f.Jt, f.Jf})
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// restrictCalls installs the filter on the calling thread, which has set no_new_privs.
// What it executes keeps the filter for good.
func restrictCalls(prog []unix.SockFilter) error {
	p := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return fmt.Errorf("install the system call filter: %w", errno)
	}
	return nil
}

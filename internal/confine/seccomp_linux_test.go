package confine

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// callFilter runs the program on one system call in the interpreter of x/net/bpf. That
// reads its input big-endian, so the words are laid out so.
func callFilter(t *testing.T, prog []unix.SockFilter, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	raw := make([]bpf.RawInstruction, len(prog))
	for i, f := range prog {
		raw[i] = bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K}
	}
	insts, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program cannot be disassembled")
	}
	vm, err := bpf.NewVM(insts)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offsetNr:], nr)
	binary.BigEndian.PutUint32(data[offsetArch:], arch)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[offsetArgs+8*i:], uint32(a))
		binary.BigEndian.PutUint32(data[offsetArgs+8*i+4:], uint32(a>>32))
	}
	verdict, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(verdict)
}

func TestFilter(t *testing.T) {
	errno := func(e uint32) uint32 { return unix.SECCOMP_RET_ERRNO | e }
	const allow, kill = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_KILL_PROCESS
	prog := assemble(denials(false))
	strict := assemble(denials(true))
	for _, tt := range []struct {
		name string
		prog []unix.SockFilter
		nr   uint32
		args []uint64
		want uint32
	}{
		{"read is allowed", prog, unix.SYS_READ, nil, allow},
		{"ptrace stays for debuggers", prog, unix.SYS_PTRACE, nil, allow},
		{"a mount", prog, unix.SYS_MOUNT, nil, errno(uint32(unix.EPERM))},
		{"the last entry", prog, unix.SYS_KEXEC_FILE_LOAD, nil, errno(uint32(unix.EPERM))},
		{"clone3 looks unknown", prog, unix.SYS_CLONE3, nil, errno(uint32(unix.ENOSYS))},
		{"a thread", prog, unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, allow},
		{"a user namespace by clone", prog, unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | 17}, errno(uint32(unix.EPERM))},
		{"a high bit hides no namespace", prog, unix.SYS_CLONE, []uint64{1<<40 | unix.CLONE_NEWUSER}, errno(uint32(unix.EPERM))},
		{"unshare of files", prog, unix.SYS_UNSHARE, []uint64{unix.CLONE_FILES}, allow},
		{"unshare of time", prog, unix.SYS_UNSHARE, []uint64{unix.CLONE_NEWTIME}, errno(uint32(unix.EPERM))},
		{"TIOCSTI", prog, unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, errno(uint32(unix.EPERM))},
		{"TIOCSTI with a high bit, CVE-2019-10063", prog, unix.SYS_IOCTL, []uint64{0, 1<<32 | unix.TIOCSTI}, errno(uint32(unix.EPERM))},
		{"TIOCSETD, last of its list", prog, unix.SYS_IOCTL, []uint64{0, unix.TIOCSETD}, errno(uint32(unix.EPERM))},
		{"TCGETS", prog, unix.SYS_IOCTL, []uint64{0, unix.TCGETS}, allow},
		{"unix socket", prog, unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_RAW}, allow},
		{"tcp", prog, unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, allow},
		{"raw inet", prog, unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_RAW | unix.SOCK_CLOEXEC}, errno(uint32(unix.EPERM))},
		{"vsock", prog, unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, errno(uint32(unix.EAFNOSUPPORT))},
		{"packet", prog, unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW}, errno(uint32(unix.EAFNOSUPPORT))},
		{"route netlink", prog, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
		{"netfilter netlink", prog, unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, errno(uint32(unix.EPROTONOSUPPORT))},
		{"chmod 755", prog, unix.SYS_FCHMODAT, []uint64{0, 0, 0o755}, allow},
		{"chmod u+s", prog, unix.SYS_FCHMODAT, []uint64{0, 0, 0o4755}, errno(uint32(unix.EPERM))},
		{"chmod g+s", prog, unix.SYS_FCHMODAT, []uint64{0, 0, 0o2755}, allow},
		{"chmod g+s as root", strict, unix.SYS_FCHMODAT, []uint64{0, 0, 0o2755}, errno(uint32(unix.EPERM))},
		{"open leaves garbage in the mode", prog, unix.SYS_OPENAT, []uint64{0, 0, unix.O_RDONLY | unix.O_DIRECTORY, 0o4777}, allow},
		{"open creates a setuid file", prog, unix.SYS_OPENAT, []uint64{0, 0, unix.O_CREAT, 0o4777}, errno(uint32(unix.EPERM))},
		{"open makes a nameless setuid file", prog, unix.SYS_OPENAT, []uint64{0, 0, unix.O_TMPFILE, 0o4777}, errno(uint32(unix.EPERM))},
		{"open creates a file", prog, unix.SYS_OPENAT, []uint64{0, 0, unix.O_CREAT, 0o666}, allow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := callFilter(t, tt.prog, auditArch, tt.nr, tt.args...); got != tt.want {
				t.Errorf("verdict = %#x, want %#x", got, tt.want)
			}
		})
	}
	if got := callFilter(t, prog, unix.AUDIT_ARCH_I386, 4); got != kill {
		t.Errorf("i386 call: verdict = %#x, want kill", got)
	}
	if x32Bit != 0 {
		if got := callFilter(t, prog, auditArch, x32Bit|1); got != kill {
			t.Errorf("x32 call: verdict = %#x, want kill", got)
		}
	}
}

// TestFilterDigest: the digest names the program, so another program has another.
func TestFilterDigest(t *testing.T) {
	prog := assemble(denials(false))
	changed := slices.Clone(prog)
	changed[len(changed)-1].K = unix.SECCOMP_RET_KILL_PROCESS
	if digest(prog) == digest(changed) {
		t.Error("two programs with one digest")
	}
}

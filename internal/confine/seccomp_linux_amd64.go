package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// x32Bit marks a call number of the x32 architecture, which shares AUDIT_ARCH_X86_64
// (see seccomp(2), "Caveats").
const x32Bit = 0x40000000

// deniedArch: port access and segments.
var deniedArch = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT}

// setIDArch covers the calls that arm64 never had.
func setIDArch(mode, creates func(arg uint32) condition) []denial {
	return []denial{
		{unix.SYS_OPEN, unix.EPERM, []condition{creates(1), mode(2)}},
		{unix.SYS_CREAT, unix.EPERM, []condition{mode(1)}},
		{unix.SYS_CHMOD, unix.EPERM, []condition{mode(1)}},
		{unix.SYS_MKNOD, unix.EPERM, []condition{mode(1)}},
	}
}

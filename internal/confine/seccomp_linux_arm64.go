package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// x32Bit is 0: arm64 has no second set of call numbers under one architecture.
const x32Bit = 0

var deniedArch []uint32

func setIDArch(mode, creates func(arg uint32) condition) []denial { return nil }

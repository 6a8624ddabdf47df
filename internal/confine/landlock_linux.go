package confine

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/policy"
)

// Rights by landlock(7). Each level of rules names what it grants; what a kernel does
// not know yet is masked away by abiRights.
const (
	readRights  = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeRights = readRights | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// Without IOCTL_DEV terminals answer EACCES.
	deviceRights = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR |
		unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// A command writes its own oom_score_adj and the like; the rest of /proc is the kernel's.
	procRights = readRights | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// What a rule for a file that is no directory may hold.
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	// handledRights are denied where no rule grants them.
	handledRights = writeRights | deviceRights | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
)

var rightsOf = map[access]uint64{
	accessList: unix.LANDLOCK_ACCESS_FS_READ_DIR, accessRead: readRights, accessWrite: writeRights,
	accessDevice: deviceRights, accessProc: procRights,
}

// abiRights returns the file rights that a kernel of the given ABI knows.
func abiRights(abi int) uint64 {
	rights := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1)
	if abi >= 2 {
		rights |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		rights |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// landlockABI returns the ABI that the running kernel offers.
func landlockABI() (int, error) {
	abi, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(abi), nil
}

// restrictFiles puts the calling thread, and all that it executes, into a landlock
// domain with one rule for each item that has an access, and for the root that it be
// listed.
//
// What it stops, beyond the mounts: reaching a file that lies outside of this root by a
// descriptor or a magic link, such as the helper's own program through /proc/self/exe
// (CVE-2019-5736) or the host's root through a leaked directory (CVE-2024-21626); signals
// to the warden's threads and, with the host's network, abstract sockets of the host,
// from ABI 6 on. It does not judge stat, chmod and the like: there the mounts decide.
func restrictFiles(items []item) (policy.LandlockReceipt, error) {
	var receipt policy.LandlockReceipt
	abi, err := landlockABI()
	if err != nil {
		return receipt, fmt.Errorf("ask for landlock: %w", err)
	}
	receipt.ABI = abi
	known := abiRights(abi)
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handledRights & known}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		receipt.Scopes = []string{"signal", "abstract_unix_socket"}
	}
	// A kernel that knows a shorter struct takes a longer one whose rest is zero.
	r, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return receipt, fmt.Errorf("make a landlock ruleset: %w", errno)
	}
	ruleset := int(r)
	defer unix.Close(ruleset)

	for _, it := range append([]item{{Target: "/", Access: accessList}}, items...) {
		if it.Access == accessNone {
			continue
		}
		if err := addRule(ruleset, it.Target, rightsOf[it.Access]&known); err != nil {
			if it.Optional && errors.Is(err, unix.ENOENT) {
				continue
			}
			return receipt, fmt.Errorf("add a landlock rule for %s: %w", it.Target, err)
		}
		receipt.Rules = append(receipt.Rules, policy.LandlockRule{Path: it.Target, Access: string(it.Access)})
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return receipt, fmt.Errorf("enter the landlock domain: %w", errno)
	}
	return receipt, nil
}

func addRule(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	dir, err := isDir(fd)
	if err != nil {
		return err
	}
	if !dir {
		rights &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

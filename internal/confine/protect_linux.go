package confine

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/policy"
)

// protect makes the protected names of a caller's root read-only to commands.
//
// The attack: a command writes .git/hooks/pre-commit or .envrc, and the person whose
// directory it is runs it later, unconfined. A read-only mount over the name stops
// writing, and since nothing can rename or remove a mount point, replacing it.
// Each directory on the way (.git) is mounted over itself, or a command would rename that
// and put another in its place.
//
// What it does not stop: names that do not exist yet. A mount needs something to lie on,
// and making that would leave a trace in the caller's directory; landlock cannot
// take back one name below a directory that it grants. Nor a name that is a symbolic
// link: mounts follow links. Both are listed in the receipt.
func (b *rootBuilder) protect() error {
	for _, name := range b.setup.Protected {
		missing, err := b.protectName(name)
		if err != nil {
			return failed(stepProtect, name, err)
		}
		if missing != "" {
			b.notEnforced = append(b.notEnforced, policy.NotEnforced{Asked: "protected:" + name, Reason: missing})
		}
	}
	return nil
}

// protectName protects one name, or returns why it cannot.
func (b *rootBuilder) protectName(name string) (missing string, err error) {
	root, err := openIn(b.root, strings.TrimPrefix(b.setup.Root, "/"), unix.O_DIRECTORY)
	if err != nil {
		return "", err
	}
	defer unix.Close(root)
	for _, dir := range parents(name) {
		missing, err := b.cover(root, dir, false)
		if missing != "" || err != nil {
			return missing, err
		}
	}
	return b.cover(root, name, true)
}

// cover mounts what name is over itself. A name that is a mount point already is left
// as it is, unless it is to become read-only.
func (b *rootBuilder) cover(root int, name string, readOnly bool) (missing string, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	target, err := unix.Openat2(root, name, &how)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR:
		return "it does not exist, and nothing can be mounted where nothing is", nil
	case unix.ELOOP:
		return "it is, or lies behind, a symbolic link", nil
	default:
		return "", err
	}
	defer unix.Close(target)
	if !readOnly {
		mounted, err := isMountPoint(target)
		if err != nil || mounted {
			return "", err
		}
	}
	fd, err := cloneMount(target, "", readOnly, false)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return "", attach(fd, target)
}

// isMountPoint reports whether the open entry is the root of a mount, by
// STATX_ATTR_MOUNT_ROOT (statx(2), Linux 5.8).
func isMountPoint(fd int) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, 0, &st); err != nil {
		return false, err
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

package archive

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// xattrPrefix is how GNU tar, star and bsdtar write extended attributes in PAX.
const xattrPrefix = "SCHILY.xattr."

// maxXattr is the kernel's limit of one value and of one list, see xattr(7).
const maxXattr = 64 << 10

// userXattrs returns the attributes of the user namespace as PAX records, or nil.
// A file system without attributes has none.
func userXattrs(f *os.File) map[string]string {
	var records map[string]string
	withFD(f, func(fd int) {
		var small [1024]byte
		list := small[:]
		n, err := unix.Flistxattr(fd, list)
		if err == unix.ERANGE {
			list = make([]byte, maxXattr)
			n, err = unix.Flistxattr(fd, list)
		}
		if err != nil || n == 0 {
			return
		}
		val := make([]byte, maxXattr)
		for name := range strings.SplitSeq(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
			if !strings.HasPrefix(name, "user.") || strings.ContainsRune(name, '=') {
				continue // a PAX key cannot hold "="
			}
			if n, err := unix.Fgetxattr(fd, name, val); err == nil {
				if records == nil {
					records = map[string]string{}
				}
				records[xattrPrefix+name] = string(val[:n])
			}
		}
	})
	return records
}

// setUserXattrs restores them. Attributes are not content: what the file system
// cannot hold is lost without an error.
func setUserXattrs(fd int, records map[string]string) {
	for key, val := range records {
		if name, ok := strings.CutPrefix(key, xattrPrefix); ok && strings.HasPrefix(name, "user.") {
			_ = unix.Fsetxattr(fd, name, []byte(val), 0)
		}
	}
}

// withFD calls f with the descriptor of file, which stays open meanwhile.
func withFD(file *os.File, f func(fd int)) {
	if raw, err := file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

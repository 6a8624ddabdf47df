package root

import (
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// errNotReplaced says that the old file has something that a new one could not be
// given, or that the directory does not allow the exchange.
var errNotReplaced = errors.New("cannot be replaced without a loss")

// replace puts a new file with the payload in the place of the old one, in one
// step. If the old one has become something else meanwhile, the kernel replaces
// that, if it is no directory; it lies in the same directory.
func (w *putter) replace(ctx context.Context, s *spot, old *oldFile) error {
	t, own, err := w.temp(ctx, s)
	if denied(err) {
		return errNotReplaced // the directory may not be changed
	}
	if err != nil {
		return err
	}
	if own {
		defer t.close()
	}
	if err := w.alike(t, old); err != nil {
		return err
	}
	if err := w.nameTemp(t); err != nil {
		if denied(err) {
			return errNotReplaced
		}
		return gone(err)
	}
	switch err := unix.Renameat(t.dir, t.name, s.dir, s.leaf); {
	case err == nil:
		t.name = ""
		w.how = Replaced
		return nil
	case denied(err), err == unix.EBUSY: // a sticky directory; a mount on the file
		return errNotReplaced
	case err == unix.EISDIR || err == unix.ENOTEMPTY:
		return errAgain
	default:
		return gone(err)
	}
}

// nameTemp gives the file a temporary name, from which it is renamed over the
// target: in the caller's staging directory, where a name that outlives a killed
// process is cleared away, else beside the target. The kernel cannot replace a
// file by one that has no name.
func (w *putter) nameTemp(t *tempFile) error {
	if t.name != "" {
		return nil
	}
	name := tempName()
	if stage := w.t.stage; stage >= 0 && w.opts.User == nil {
		dir, err := unix.FcntlInt(uintptr(stage), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := t.link(dir, name); err == nil {
			closeFD(t.dir)
			t.dir, t.dirID, t.name = dir, ident{}, name
			return nil
		}
		closeFD(dir) // another mount, or another project's quota
	}
	if err := t.link(t.dir, name); err != nil {
		return err
	}
	t.name = name
	return nil
}

// denied reports whether the kernel refused a right.
func denied(err error) bool {
	return err == unix.EACCES || err == unix.EPERM || err == unix.EROFS
}

// alike gives the new file the owner, the mode and the attributes of the old one.
// errNotReplaced says that one of them cannot be given.
func (w *putter) alike(t *tempFile, old *oldFile) error {
	var st unix.Stat_t
	if err := fstat(t.fd, &st); err != nil {
		return err
	}
	t.used = true
	if st.Uid != old.st.Uid || st.Gid != old.st.Gid {
		if unix.Fchown(t.fd, int(old.st.Uid), int(old.st.Gid)) != nil {
			return errNotReplaced
		}
	}
	mode := withoutSetID(old.st.Mode & 0o7777)
	if w.opts.Mode != nil {
		mode = modeBits(*w.opts.Mode)
	}
	if err := unix.Fchmod(t.fd, mode); err != nil {
		return err
	}
	if !sameAttributes(t.fd, old.fd) {
		return errNotReplaced
	}
	if w.opts.Mode != nil { // an access list carries mode bits with it
		return unix.Fchmod(t.fd, mode)
	}
	return nil
}

// sameAttributes gives the file to the extended attributes of from, access lists
// among them, and reports whether that worked. What the system itself attaches to
// each file it makes (security labels) is not compared; file capabilities belong
// to the old content and are dropped like setuid.
func sameAttributes(to, from int) bool {
	want, ok := attributes(from)
	if !ok {
		return false
	}
	have, ok := attributes(to)
	if !ok {
		return false
	}
	for _, name := range have { // an access list that the directory passed on
		if !slices.Contains(want, name) && unix.Fremovexattr(to, name) != nil {
			return false
		}
	}
	for _, name := range want {
		value, err := attribute(from, name)
		if err != nil || unix.Fsetxattr(to, name, value, 0) != nil {
			return false
		}
	}
	return true
}

// attributes returns the names of the attributes that matter. A file system
// without attributes has none.
func attributes(fd int) ([]string, bool) {
	buf := make([]byte, 256)
	n, err := unix.Flistxattr(fd, buf)
	if err == unix.ERANGE {
		buf = make([]byte, 64<<10) // the kernel's limit, xattr(7)
		n, err = unix.Flistxattr(fd, buf)
	}
	if err == unix.EOPNOTSUPP {
		return nil, true
	}
	if err != nil {
		return nil, false
	}
	var names []string
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if name != "" && !strings.HasPrefix(name, "security.") {
			names = append(names, name)
		}
	}
	return names, true
}

func attribute(fd int, name string) ([]byte, error) {
	n, err := unix.Fgetxattr(fd, name, nil)
	if err != nil {
		return nil, err
	}
	value := make([]byte, n)
	if n > 0 {
		n, err = unix.Fgetxattr(fd, name, value)
	}
	return value[:n], err
}

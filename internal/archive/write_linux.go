package archive

import (
	"archive/tar"
	"context"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxHeldDirs bounds the descriptors held while directories are finished.
const maxHeldDirs = 64

func quote(s string) string           { return strconv.Quote(s) }
func joinParts(parts []string) string { return strings.Join(parts, "/") }

// file writes a regular file. O_EXCL: a second member of the name, whatever kind
// the first one was, is an error and never written through.
func (u *unpacker) file(ctx context.Context, r io.Reader, at int, name string, h *tar.Header) error {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openat(at, name, flags, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(u.buf)
		if werr := writeAll(fd, u.buf[:n]); werr != nil {
			return werr
		}
		if n > 0 {
			u.progress(0, int64(n))
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	mode := RestoredMode(uint32(h.Mode))
	if u.out.Marked {
		mode = uint32(h.Mode) & 0o1777
	}
	u.out.Files++
	u.out.Bytes += h.Size
	return u.attributes(fd, mode, h.ModTime, h.PAXRecords)
}

func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// attributes sets what the archive says of an open file or directory. A change
// of the owner clears mode bits, so it comes first.
func (u *unpacker) attributes(fd int, mode uint32, mtime time.Time, xattrs map[string]string) error {
	if o := u.opts.Owner; o != nil {
		if err := unix.Fchown(fd, o.UID, o.GID); err != nil {
			return err
		}
	}
	setUserXattrs(fd, xattrs)
	if mode != 0o600 {
		if err := unix.Fchmod(fd, mode); err != nil {
			return err
		}
	}
	if mtime.IsZero() {
		return nil
	}
	ts := timespec(mtime)
	// futimens(3) is utimensat without a name.
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts[0])), 0, 0, 0)
	runtime.KeepAlive(ts)
	if errno != 0 {
		return errno
	}
	return nil
}

func timespec(mtime time.Time) []unix.Timespec {
	m := unix.NsecToTimespec(mtime.UnixNano())
	if mtime.Year() < 1700 || mtime.Year() > 2250 {
		m = unix.Timespec{Sec: mtime.Unix(), Nsec: int64(mtime.Nanosecond())}
	}
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, m}
}

func (u *unpacker) symlink(at int, parts []string, h *tar.Header) error {
	if !u.out.Marked {
		if reason := insideTarget(parts, h.Linkname); reason != "" {
			return refuse(h.Name, reason)
		}
	}
	name := parts[len(parts)-1]
	err := retry(func() error { return unix.Symlinkat(h.Linkname, at, name) })
	if err == nil && u.opts.Owner != nil {
		err = unix.Fchownat(at, name, u.opts.Owner.UID, u.opts.Owner.GID, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil && !h.ModTime.IsZero() {
		err = unix.UtimesNanoAt(at, name, timespec(h.ModTime), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		u.out.Symlinks++
	}
	return err
}

// hardlink gives an earlier file of the archive a second name. The first name is
// opened component by component like every other, and must be a regular file: a
// hard link to a link, or to something outside, would be a way around the rules.
func (u *unpacker) hardlink(at int, name string, h *tar.Header) error {
	if !u.out.Marked {
		return refuse(h.Name, "hardlink member not allowed")
	}
	parts, reason := components(h.Linkname)
	if reason != "" || len(parts) == 0 {
		return refuse(h.Name, "hardlink target is no earlier file: "+refusal(h.Linkname))
	}
	d := u.top
	for _, p := range parts[:len(parts)-1] {
		if d = d.children[p]; d == nil {
			return refuse(h.Name, "hardlink target is no earlier file: "+refusal(h.Linkname))
		}
	}
	// The second call may close the first one's descriptor: keep a copy.
	here, err := unix.FcntlInt(uintptr(at), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(here)
	from, err := u.dirs.fd(d)
	if err != nil {
		return err
	}
	old := parts[len(parts)-1]
	var st unix.Stat_t
	err = unix.Fstatat(from, old, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT || (err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG) {
		return refuse(h.Name, "hardlink target is no earlier file: "+refusal(h.Linkname))
	}
	if err == nil {
		err = retry(func() error { return unix.Linkat(from, old, here, name, 0) })
	}
	if err == nil {
		u.out.Links++
	}
	return err
}

// finishDirs sets modes and times of the directories below d, the deepest first,
// so that no parent is locked or touched after it is done. fd is d's descriptor.
// Below a certain depth d's own descriptor is closed meanwhile and found again
// through ".." of a subdirectory.
func (u *unpacker) finishDirs(d *dirNode, fd, held int) error {
	u.dirs.close()
	_, err := u.finishDir(d, fd, held)
	return err
}

// finishDir works below d and returns d's descriptor, which may be a new one.
func (u *unpacker) finishDir(d *dirNode, fd, held int) (int, error) {
	for name, c := range d.children {
		child, err := openat(fd, name, openDirFlags, 0)
		if err != nil {
			return fd, &memberError{member: c.first, err: err}
		}
		again := held >= maxHeldDirs
		if again {
			unix.Close(fd)
		}
		child, err = u.finishDir(c, child, held+1)
		if again {
			var uerr error
			if fd, uerr = openat(child, "..", openDirFlags, 0); err == nil {
				err = uerr
			}
		}
		if err == nil {
			err = u.finishOne(c, child)
		}
		unix.Close(child)
		if err != nil {
			return fd, err
		}
	}
	return fd, nil
}

func (u *unpacker) finishOne(d *dirNode, fd int) error {
	mode, mtime := uint32(0o755), d.mtime
	if d.listed {
		mode = d.mode
	}
	if err := u.attributes(fd, mode, mtime, d.xattrs); err != nil {
		return &memberError{member: d.first, err: err}
	}
	return nil
}

// reopen opens the caller's directory anew, so that its offset does not matter.
func reopen(dir *os.File) (fd int, err error) {
	err = os.ErrClosed
	withFD(dir, func(p int) { fd, err = openat(p, ".", openDirFlags, 0) })
	return fd, err
}

// onThread runs f as opts.Thread wants it, and waits.
func onThread(thread func(func()), f func() error) (err error) {
	if thread == nil {
		return f()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		thread(func() { err = f() })
	}()
	<-done
	return err
}

package tree

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// piece is how much is copied between two looks at the cancellation.
const piece = 4 << 20

// bufferSize is what one read takes; smaller files are not worth the further
// system calls of copy_file_range.
const bufferSize = 128 << 10

// errNoCopyRange says that copy_file_range does not serve these two files.
var errNoCopyRange = errors.New("copy_file_range does not serve")

// file copies the regular file name of n and returns the identity of the copy
// and, where it was asked for, its digest.
func (v *copier) file(w *worker, n *node, name string, st *unix.Statx_t) (ident, Copied, error) {
	src, err := openFile(n.fd[0], name, device(st.Dev_major, st.Dev_minor), st.Ino)
	if err != nil {
		return ident{}, Copied{}, readErr(n.join(name), err)
	}
	defer unix.Close(src)
	// The descriptor's own data: what is copied is this file, whatever its name
	// stands for by now.
	if err := statAt(src, "", st); err != nil {
		return ident{}, Copied{}, readErr(n.join(name), err)
	}
	dst, err := v.create(n.fd[1], name)
	if err != nil {
		return ident{}, Copied{}, writeErr(n.join(name), err)
	}
	defer unix.Close(dst)
	var sum hash.Hash
	if v.opts.Done != nil {
		sum = sha256.New()
	}
	size, err := v.content(w, src, dst, st, sum)
	if err == nil && v.opts.Stable {
		err = v.unchanged(src, st, size)
	}
	if err != nil {
		if _, ok := err.(sideErr); ok {
			return ident{}, Copied{}, writeErr(n.join(name), errors.Unwrap(err))
		}
		return ident{}, Copied{}, readErr(n.join(name), err)
	}
	var made unix.Statx_t
	if err = statAt(dst, "", &made); err == nil {
		err = v.finish(src, dst, st)
	}
	if err != nil {
		return ident{}, Copied{}, writeErr(n.join(name), err)
	}
	v.files.Add(1)
	v.bytes.Add(size)
	var c Copied
	if v.opts.Done != nil {
		c = Copied{Rel: n.join(name), Size: size}
		sum.Sum(c.SHA256[:0])
		v.opts.Done(c)
	}
	return identOf(&made), c, nil
}

// sideErr marks an error of the destination.
type sideErr struct{ error }

func (e sideErr) Unwrap() error { return e.error }

// unchanged compares the source with what it was before its content was read.
func (v *copier) unchanged(src int, st *unix.Statx_t, size int64) error {
	var now unix.Statx_t
	if err := statAt(src, "", &now); err != nil {
		return err
	}
	if now.Size != st.Size || now.Mtime != st.Mtime || now.Ctime != st.Ctime || size != int64(st.Size) {
		return ErrChanged
	}
	return nil
}

// create makes a new file; one that exists is unlinked first where that was
// asked for. O_EXCL: whatever stands there is never opened, so no link is
// written through.
func (v *copier) create(dirfd int, name string) (int, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, err := openat(dirfd, name, flags, 0o600)
	if err == unix.EEXIST && v.opts.Replace {
		if err = unix.Unlinkat(dirfd, name, 0); err == nil || err == unix.ENOENT {
			fd, err = openat(dirfd, name, flags, 0o600)
		}
	}
	return fd, err
}

// content copies the bytes in the cheapest way that both file systems know.
func (v *copier) content(w *worker, src, dst int, st *unix.Statx_t, sum hash.Hash) (int64, error) {
	size := int64(st.Size)
	if sum == nil {
		if size > 0 && !v.noClone.Load() {
			err := unix.IoctlFileClone(dst, src)
			if err == nil {
				v.e.counting.add(0, size)
				return size, nil
			}
			v.noClone.Store(true)
		}
		sparse := int64(st.Blocks)*512 < size
		if sparse || size > bufferSize {
			n, err := v.extents(w, src, dst, size, sparse)
			if err != errNoCopyRange {
				return n, err
			}
			if _, err := unix.Seek(src, 0, unix.SEEK_SET); err != nil {
				return 0, err
			}
		}
	}
	return v.plain(w, src, dst, st, sum)
}

// extents copies only what is data in the source, so that holes stay holes.
func (v *copier) extents(w *worker, src, dst int, size int64, sparse bool) (int64, error) {
	for from := int64(0); from < size; {
		to := size
		if sparse {
			at, err := unix.Seek(src, from, unix.SEEK_DATA)
			if err == unix.ENXIO {
				break
			}
			if err == nil {
				from = at
				if to, err = unix.Seek(src, from, unix.SEEK_HOLE); err != nil || to > size {
					to = size
				}
			}
		}
		n, err := v.span(src, dst, from, to)
		if err != nil {
			return 0, err
		}
		if n < to-from {
			size = from + n // the file became shorter meanwhile
		}
		from = to
	}
	if err := unix.Ftruncate(dst, size); err != nil {
		return 0, sideErr{err}
	}
	return size, nil
}

// span copies the bytes from..to by copy_file_range, in pieces.
func (v *copier) span(src, dst int, from, to int64) (int64, error) {
	if v.noRange.Load() {
		return 0, errNoCopyRange
	}
	in, out := from, from
	for in < to {
		if v.e.stopped() {
			return 0, errStopped
		}
		n, err := unix.CopyFileRange(src, &in, dst, &out, int(min(piece, to-in)), 0)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EXDEV, err == unix.ENOSYS, err == unix.EINVAL, err == unix.EOPNOTSUPP, err == unix.EPERM:
			v.noRange.Store(true)
			return 0, errNoCopyRange
		case err != nil:
			return 0, sideErr{err}
		case n == 0:
			return in - from, nil
		}
		v.e.counting.add(0, int64(n))
	}
	return to - from, nil
}

// plain copies by read and write, at most the size that the file had when it was
// opened: one that grows faster than it is read must not hold the caller. In a
// file with holes a buffer full of zeros becomes a hole.
func (v *copier) plain(w *worker, src, dst int, st *unix.Statx_t, sum hash.Hash) (int64, error) {
	if w.data == nil {
		w.data = make([]byte, bufferSize)
	}
	limit := int64(st.Size)
	sparse := int64(st.Blocks)*512 < limit
	var size int64
	for size < limit {
		if v.e.stopped() {
			return 0, errStopped
		}
		n, err := readFD(src, w.data[:min(int64(len(w.data)), limit-size)])
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, err
		}
		data := w.data[:n]
		if sum != nil {
			sum.Write(data)
		}
		if sparse && allZero(data) {
			_, err = unix.Seek(dst, int64(n), unix.SEEK_CUR)
		} else {
			err = writeFD(dst, data)
		}
		if err != nil {
			return 0, sideErr{err}
		}
		size += int64(n)
		v.e.counting.add(0, int64(n))
	}
	if sparse {
		if err := unix.Ftruncate(dst, size); err != nil {
			return 0, sideErr{err}
		}
	}
	return size, nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func readFD(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

func writeFD(fd int, buf []byte) error {
	for len(buf) > 0 {
		n, err := unix.Write(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		buf = buf[n:]
	}
	return nil
}

// finish gives the copy dst the owner, attributes, mode and times of src, in
// this order: a change of the owner clears mode bits, and attributes can only be
// set while the mode still allows it. Setuid and setgid are never carried over.
func (v *copier) finish(src, dst int, st *unix.Statx_t) error {
	if o := v.opts.Owner; o != nil {
		if err := unix.Fchown(dst, o.UID, o.GID); err != nil {
			return err
		}
	}
	if err := copyXattrs(src, dst); err != nil {
		return err
	}
	if err := unix.Fchmod(dst, uint32(st.Mode)&0o1777); err != nil {
		return err
	}
	return setTimes(dst, times(st))
}

func times(st *unix.Statx_t) []unix.Timespec {
	return []unix.Timespec{
		{Sec: st.Atime.Sec, Nsec: int64(st.Atime.Nsec)},
		{Sec: st.Mtime.Sec, Nsec: int64(st.Mtime.Nsec)},
	}
}

// setTimes is futimens(3): utimensat with no name acts on the descriptor itself.
func setTimes(fd int, ts []unix.Timespec) error {
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts[0])), 0, 0, 0)
	runtime.KeepAlive(ts)
	if errno != 0 {
		return errno
	}
	return nil
}

// copyXattrs copies the attributes of the user namespace. A destination that
// knows none loses them silently: they are not content.
func copyXattrs(src, dst int) error {
	var list [4096]byte
	n, err := unix.Flistxattr(src, list[:])
	buf := list[:]
	if err == unix.ERANGE {
		buf = make([]byte, 64<<10) // the kernel's limit, see xattr(7)
		n, err = unix.Flistxattr(src, buf)
	}
	if err != nil || n == 0 {
		return nil
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		val := make([]byte, 64<<10)
		n, err := unix.Fgetxattr(src, name, val)
		if err != nil {
			continue
		}
		err = unix.Fsetxattr(dst, name, val[:n], 0)
		if err == unix.EOPNOTSUPP {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

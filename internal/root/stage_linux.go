package root

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// memoryPayload is how much of a payload is kept in memory; more goes to a file.
const memoryPayload = 256 << 10

// payload is what a write will put into a file: read to its end, and in memory or
// in a file that nobody else can name.
type payload struct {
	mem  []byte
	temp *tempFile // nil if mem holds it
	size int64
}

func (p *payload) close() {
	if p.temp != nil {
		p.temp.close()
	}
}

// tempFile is a new file that has no name yet, or one that nobody expects.
type tempFile struct {
	fd    int
	dir   int    // descriptor of its own for the directory, or -1
	dirID ident  // which directory that is
	name  string // its name there; empty if it has none
	// used says that it was made like a file that it should have replaced.
	used bool
}

// tempName returns a name for a file that is not complete. It is random so that
// two writers do not meet. It need not be secret: whoever guesses it can only do
// what he can do to the file it will become.
func tempName() string {
	var b [8]byte
	rand.Read(b[:])
	return ".croft-" + hex.EncodeToString(b[:]) + ".tmp"
}

// unnamedTemps is false only in a test of what is done where O_TMPFILE is missing.
var unnamedTemps = true

// newTemp makes a file in the directory dir: without a name (open(2), O_TMPFILE),
// where the file system can, so that a crash leaves nothing.
func newTemp(dir int) (*tempFile, error) {
	var st unix.Stat_t
	if err := fstat(dir, &st); err != nil {
		return nil, err
	}
	own, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	t := &tempFile{dir: own, dirID: identOf(&st)}
	t.fd, err = -1, unix.EOPNOTSUPP
	if unnamedTemps {
		t.fd, err = openat(dir, ".", unix.O_TMPFILE|unix.O_RDWR, 0o666)
	}
	switch err {
	case nil:
		return t, nil
	case unix.EOPNOTSUPP, unix.EISDIR, unix.EINVAL: // the file system cannot
		t.name = tempName()
		t.fd, err = openat(dir, t.name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_RDWR, 0o666)
	}
	if err != nil {
		closeFD(own)
		return nil, gone(err)
	}
	return t, nil
}

// spoolTemp makes a file without a name in the directory for temporary files.
func spoolTemp() (*tempFile, error) {
	fd, err := openat(unix.AT_FDCWD, os.TempDir(), unix.O_TMPFILE|unix.O_RDWR, 0o600)
	if err != nil { // no such directory, or a file system that cannot: memory instead
		fd, err = unix.MemfdCreate("croft-payload", unix.MFD_CLOEXEC)
	}
	return &tempFile{fd: fd, dir: -1}, err
}

// close closes the file. If it still has its temporary name, that goes too.
func (t *tempFile) close() {
	if t.name != "" {
		_ = unix.Unlinkat(t.dir, t.name, 0) // nobody else knows the name, and there is nothing to do about it
	}
	closeFD(t.fd)
	closeFD(t.dir)
}

// readPayload reads r to its end. A long payload goes to a file from newTemp, or
// to the process's own temporary files if that gives an error that does not mean a
// full disk. R is read on the calling goroutine.
func readPayload(ctx context.Context, r io.Reader, newTemp func() (*tempFile, error)) (*payload, error) {
	p := &payload{}
	head := make([]byte, 4096)
	for {
		n, err := r.Read(head[len(p.mem):])
		p.mem = head[:len(p.mem)+n]
		switch {
		case err == io.EOF:
			p.size = int64(len(p.mem))
			return p, nil
		case err != nil:
			return nil, sourceError{err}
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		if len(p.mem) == memoryPayload {
			break
		}
		if len(p.mem) == len(head) {
			head = append(make([]byte, 0, min(4*len(head), memoryPayload)), head...)
			head = head[:cap(head)]
		}
	}
	temp, err := newTemp()
	if err != nil && !full(err) {
		temp, err = spoolTemp()
	}
	if err != nil {
		return nil, err
	}
	p.temp = temp
	if err := p.spool(ctx, r); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// spool writes the payload's beginning and the rest of r to its file.
func (p *payload) spool(ctx context.Context, r io.Reader) error {
	head := p.mem
	p.mem = nil
	if err := write(p.temp.fd, head); err != nil {
		return err
	}
	p.size = int64(len(head))
	buf := head[:cap(head)]
	for {
		n, err := r.Read(buf)
		if werr := write(p.temp.fd, buf[:n]); werr != nil {
			return werr
		}
		p.size += int64(n)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return sourceError{err}
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// sourceError is a failure of the caller's reader.
type sourceError struct{ err error }

func (e sourceError) Error() string { return "read the new content: " + e.err.Error() }
func (e sourceError) Unwrap() error { return e.err }

// full reports whether the error is about room on the disk.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}

// writeTo writes the payload to fd, at its current offset.
func (p *payload) writeTo(ctx context.Context, fd int) error {
	if p.temp == nil {
		return write(fd, p.mem)
	}
	buf := make([]byte, memoryPayload)
	for at := int64(0); at < p.size; {
		n, err := pread(p.temp.fd, buf, at)
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			err = write(fd, buf[:n])
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

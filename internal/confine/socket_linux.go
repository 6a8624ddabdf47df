package confine

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxDescriptors is the most that one packet carries; the kernel's bound is 253
// (SCM_MAX_FD, see unix(7)).
const maxDescriptors = 253

// socketPair returns two connected ends of a socket that keeps packets whole.
func socketPair() (ours, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("make a socket pair: %w", err)
	}
	return fds[0], fds[1], nil
}

// send sends one packet with descriptors. It raises no SIGPIPE.
func send(fd int, b []byte, fds ...int) error {
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for {
		_, err := unix.SendmsgN(fd, b, rights, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

// receive receives one packet into buf, with at most limit descriptors, all
// close-on-exec. It returns io.EOF when the other end is closed, and [errWire],
// holding no descriptor, for a packet that is cut off or brings too many.
func receive(fd int, buf []byte, limit int) (int, []int, error) {
	oob := make([]byte, unix.CmsgSpace(4*limit))
	var n, oobn, flags int
	var err error
	for {
		n, oobn, flags, _, err = unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, nil, err
	}
	fds := descriptors(oob[:oobn])
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 || len(fds) > limit {
		closeAll(fds)
		return 0, nil, errWire
	}
	// A packet of ours is never empty, so nothing received is the end.
	if n == 0 {
		closeAll(fds)
		return 0, nil, io.EOF
	}
	return n, fds, nil
}

func descriptors(oob []byte) []int {
	if len(oob) == 0 {
		return nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	var fds []int
	for _, m := range messages {
		if got, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// link is croft's own end of a socket to a helper: waiting on it holds no thread.
type link struct {
	f  *os.File
	rc syscall.RawConn
}

func newLink(fd int, name string) (*link, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("make socket non-blocking: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	rc, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("poll socket: %w", err)
	}
	return &link{f: f, rc: rc}, nil
}

// newLinkPair returns a link and the other end of its socket.
func newLinkPair(name string) (*link, int, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, -1, err
	}
	l, err := newLink(ours, name)
	if err != nil {
		unix.Close(theirs)
		return nil, -1, err
	}
	return l, theirs, nil
}

func (l *link) send(b []byte, fds ...int) error {
	var err error
	werr := l.rc.Write(func(fd uintptr) bool {
		err = send(int(fd), b, fds...)
		return err != unix.EAGAIN
	})
	// Without deadlines, the only error of the wait itself is that the link was closed.
	if werr != nil {
		return os.ErrClosed
	}
	return err
}

func (l *link) receive(buf []byte, limit int) (int, []int, error) {
	var n int
	var fds []int
	var err error
	rerr := l.rc.Read(func(fd uintptr) bool {
		n, fds, err = receive(int(fd), buf, limit)
		return err != unix.EAGAIN
	})
	if rerr != nil {
		return 0, nil, os.ErrClosed
	}
	return n, fds, err
}

func (l *link) close() { _ = l.f.Close() }

// memoryFile returns a close-on-exec descriptor of a file in memory that holds b, at
// its start.
func memoryFile(name string, b []byte) (int, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("make a memory file: %w", err)
	}
	for off := 0; off < len(b); {
		n, err := unix.Pwrite(fd, b[off:], int64(off))
		if err != nil && err != unix.EINTR {
			unix.Close(fd)
			return -1, fmt.Errorf("write a memory file: %w", err)
		}
		off += max(n, 0)
	}
	return fd, nil
}

// readMemoryFile returns what the file holds, up to limit bytes; more is [errWire].
func readMemoryFile(fd int, limit int64) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > limit {
		return nil, errWire
	}
	b := make([]byte, st.Size)
	for off := 0; off < len(b); {
		n, err := unix.Pread(fd, b[off:], int64(off))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, errWire
		}
		off += n
	}
	return b, nil
}

// shutdown tells the other end that nothing more will come, and leaves the way back
// open.
func (l *link) shutdown() error {
	var err error
	cerr := l.rc.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) })
	if cerr != nil {
		return cerr
	}
	return err
}

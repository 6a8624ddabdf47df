package process

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// pipeEnds wraps the raw ends of a pipe, croft's own one non-blocking.
func pipeEnds(p [2]int, writeOurs bool) (ours, theirs *os.File, err error) {
	our, their := p[0], p[1]
	if writeOurs {
		our, their = p[1], p[0]
	}
	if err := unix.SetNonblock(our, true); err != nil {
		_ = unix.Close(our)
		_ = unix.Close(their)
		return nil, nil, fmt.Errorf("make a pipe non-blocking: %w", err)
	}
	return os.NewFile(uintptr(our), "croft-pipe"), os.NewFile(uintptr(their), "command-pipe"), nil
}

// pipeMax is the most that a pipe holds unless root has enlarged it (pipe(7),
// /proc/sys/fs/pipe-max-size).
const pipeMax = 1 << 20

// drainNow hands to sink what lies in the pipe f at this moment and waits for
// nothing. It ends after pipeMax bytes, so that a background process which goes on
// writing cannot hold it up.
func drainNow(f *os.File, buf []byte, sink io.Writer) error {
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	for total := 0; total < pipeMax; {
		var n int
		var rerr error
		if err := rc.Read(func(fd uintptr) bool {
			n, rerr = unix.Read(int(fd), buf)
			return true
		}); err != nil {
			return err
		}
		switch {
		case errors.Is(rerr, unix.EINTR):
			continue
		case errors.Is(rerr, unix.EAGAIN), errors.Is(rerr, unix.EIO):
			return nil
		case rerr != nil:
			return rerr
		case n == 0:
			return nil
		}
		total += n
		if _, err := sink.Write(buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

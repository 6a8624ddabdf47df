package process

import (
	"os"

	"golang.org/x/sys/unix"
)

// Winsize is the size of a terminal in characters. The zero value is what the
// kernel gives a new terminal: a size that nobody knows.
type Winsize struct {
	Rows, Cols uint16
}

// SetWinsize gives the terminal f the size ws. Its foreground process group gets
// SIGWINCH if that is a change (ioctl_tty(2), TIOCSWINSZ).
func SetWinsize(f *os.File, ws Winsize) error {
	rc, err := f.SyscallConn() // f.Fd would make it blocking, and end its deadlines
	if err != nil {
		return err
	}
	var serr error
	err = rc.Control(func(fd uintptr) {
		serr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: ws.Rows, Col: ws.Cols})
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("set the size of the terminal", serr)
}

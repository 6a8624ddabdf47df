//go:build !linux

package process

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipe does what its Linux twin does. Without pipe2 the fork lock keeps a fork of this
// process from falling between the pipe and its close-on-exec flags.
func pipe(writeOurs bool) (ours, theirs *os.File, err error) {
	var p [2]int
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := unix.Pipe(p[:]); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	unix.CloseOnExec(p[0])
	unix.CloseOnExec(p[1])
	return pipeEnds(p, writeOurs)
}

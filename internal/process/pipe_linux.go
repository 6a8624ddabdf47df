package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pipe returns the two ends of a new pipe. croft's own end (the writing one if
// writeOurs) is non-blocking, so that a deadline breaks off its reads and writes; the
// command's end blocks, as programs expect. Each end has its own file description:
// nothing that the command does to its end reaches the other.
func pipe(writeOurs bool) (ours, theirs *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	return pipeEnds(p, writeOurs)
}

package state

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ProcessOf returns the record of a process of this boot.
func ProcessOf(pid int, startTime uint64) *Process {
	return &Process{PID: pid, StartTime: startTime, BootID: bootID()}
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "" // a masked /proc; pid and start time still tell most processes apart
	}
	return strings.TrimSpace(string(id))
}

// WaitGone returns when the process has ended: at once if it has already, if the
// machine was booted since, or if its pid belongs to another process by now. The
// only error is ctx's.
//
// The process is opened before it is compared, so that its pid cannot pass to
// another between the two (pidfd_open(2)).
func (p *Process) WaitGone(ctx context.Context) error {
	if p.BootID != bootID() {
		return nil
	}
	fd, err := unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil // ESRCH: there is none
	}
	defer unix.Close(fd)
	if start, err := startTime(p.PID); err != nil || start != p.StartTime {
		return nil
	}
	wake, stop, err := wakeOn(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case fds[0].Revents != 0:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// wakeOn returns a descriptor that becomes readable when ctx ends.
func wakeOn(ctx context.Context) (fd int, stop func(), err error) {
	fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, nil, err
	}
	done := make(chan struct{})
	end := context.AfterFunc(ctx, func() {
		defer close(done)
		_, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	return fd, func() {
		if !end() {
			<-done // the write is done before the number can be another file's
		}
		unix.Close(fd)
	}, nil
}

// startTime returns field 22 of /proc/PID/stat. The second field, a name in
// parentheses, may itself hold blanks and parentheses.
func startTime(pid int) (uint64, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	s := string(data)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 {
		return 0, errors.New("unexpected form of /proc/PID/stat")
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

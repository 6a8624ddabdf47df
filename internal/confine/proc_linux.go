package confine

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// procStat is what croft needs of /proc/PID/stat, see proc_pid_stat(5).
type procStat struct {
	state     byte
	ppid      int
	pgrp      int
	session   int
	startTime uint64
}

// alive reports whether the process still runs code.
func (p procStat) alive() bool { return p.state != 'Z' && p.state != 'X' }

func readProcStat(pid int) (procStat, error) {
	text, err := readSmall(fmt.Sprintf("/proc/%d/stat", pid), 4096)
	if err != nil {
		return procStat{}, err
	}
	return parseProcStat(text)
}

// parseProcStat parses a stat line. The second field is the program's name, which may
// hold anything, also ") R 1": what follows the last parenthesis is the kernel's.
func parseProcStat(text string) (procStat, error) {
	i := strings.LastIndexByte(text, ')')
	f := strings.Fields(text[max(i, 0):])
	if i < 0 || len(f) < 21 || len(f[1]) != 1 {
		return procStat{}, errWire
	}
	// f[0] is ")", so f[n] is field n+2.
	p := procStat{state: f[1][0]}
	var err error
	num := func(s string) int {
		n, e := strconv.Atoi(s)
		if e != nil {
			err = errWire
		}
		return n
	}
	p.ppid, p.pgrp, p.session = num(f[2]), num(f[3]), num(f[4])
	if p.startTime, _ = strconv.ParseUint(f[20], 10, 64); err != nil {
		return procStat{}, err
	}
	return p, nil
}

func startTimeOf(pid int) uint64 {
	p, err := readProcStat(pid)
	if err != nil {
		return 0
	}
	return p.startTime
}

// allProcs returns the processes that /proc shows.
func allProcs() map[int]procStat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	procs := make(map[int]procStat)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readProcStat(pid); err == nil {
			procs[pid] = p
		}
	}
	return procs
}

// descendants returns the living descendants of root, leaving out every subtree whose
// top skip names.
func descendants(procs map[int]procStat, root int, skip func(pid int) bool) []int {
	children := make(map[int][]int)
	for pid, p := range procs {
		children[p.ppid] = append(children[p.ppid], pid)
	}
	var list []int
	for todo := children[root]; len(todo) > 0; {
		pid := todo[0]
		todo = todo[1:]
		if skip != nil && skip(pid) {
			continue
		}
		if procs[pid].alive() {
			list = append(list, pid)
		}
		todo = append(todo, children[pid]...)
	}
	return list
}

// killWhile kills what choose picks from the running processes until it picks none.
// A process that forks while it is being killed leaves children that the next round
// sees, so it ends.
func killWhile(choose func(procs map[int]procStat) []int) {
	for {
		procs := allProcs()
		list := choose(procs)
		if len(list) == 0 {
			return
		}
		var dying []unix.PollFd
		for _, pid := range list {
			if fd, ok := killExactly(pid, procs[pid]); ok {
				dying = append(dying, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			}
		}
		// A pidfd is readable when its process has ended (pidfd_open(2)). The bound is for
		// one that hangs in the kernel.
		for i := range dying {
			_, _ = unix.Poll(dying[i:i+1], 1000)
			unix.Close(int(dying[i].Fd))
		}
	}
}

// killExactly kills the process that was seen as p and returns a pidfd of it. The
// number may have gone to another one since, so it is held by the pidfd and looked at
// again.
func killExactly(pid int, p procStat) (pidfd int, ok bool) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, false
	}
	now, err := readProcStat(pid)
	if err != nil || now.startTime != p.startTime || unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		unix.Close(fd)
		return -1, false
	}
	return fd, true
}

// siginfoPid returns si_pid of a SIGCHLD siginfo: the first field of its union, which
// x/sys leaves unnamed. It follows three ints and, on 64 bit, padding.
func siginfoPid(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 16)))
}

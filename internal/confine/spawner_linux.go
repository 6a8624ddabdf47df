package confine

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/process"
	"github.com/croftdev/croft/policy"
)

// warden is the state of a warden that serves.
type warden struct {
	setup   *setup
	spawn   int // from croft: the commands to start
	null    int // /dev/null inside
	garbage int // of the forking thread: bytes since the last collection

	mu      sync.Mutex
	changed *sync.Cond      // forking
	forking uint32          // the command that is between fork and its entry in running, or 0
	running map[int]uint32  // command by the pid of its first process, which is not reaped
	pids    map[uint32]int  // the other way round, also of commands that have ended
	latest  map[int]uint32  // the last command whose first process had the pid
	ended   []uint32        // commands that have ended, oldest first
	called  map[uint32]bool // killed before their start was seen here
}

// maxEnded is how many commands that have ended are remembered, so that what they left
// behind can be killed.
const maxEnded = 4096

// job is one command to start.
type job struct {
	id    uint32
	cmd   command
	stdio [3]int
}

func newWarden(s *setup, spawn, null int) *warden {
	w := &warden{
		setup: s, spawn: spawn, null: null, running: make(map[int]uint32), pids: make(map[uint32]int), latest: make(map[int]uint32), called: make(map[uint32]bool),
	}
	w.changed = sync.NewCond(&w.mu)
	return w
}

func (w *warden) tell(p packet) error { return send(fdSocket, p.append(nil)) }

// sendReady reports; a long report travels in a memory file.
func (w *warden) sendReady(body []byte) error {
	fd, err := memoryFile("croft-ready", body)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return send(fdSocket, packet{kind: msgReady}.append(nil), fd)
}

// serve handles croft's messages about running commands until croft closes its end.
// It never waits for the confined thread, so that a command which hangs can be ended.
func (w *warden) serve() {
	go w.reap()
	buf := make([]byte, maxPacket)
	for {
		n, fds, err := receive(fdSocket, buf, 1)
		if err != nil {
			return
		}
		closeAll(fds)
		p, err := parsePacket(buf[:n])
		if err != nil {
			return
		}
		switch p.kind {
		case msgSignal:
			w.signal(p.id, syscall.Signal(p.a))
		case msgKill:
			go w.kill(p.id)
		}
	}
}

// parseJob returns the command that a packet of the spawn socket asks for. It owns fds.
func parseJob(p packet, fds []int) (job, error) {
	body := p.body
	var err error
	if p.kind == msgSpawnBig && len(fds) == 4 {
		body, err = readMemoryFile(fds[0], maxCommand)
		unix.Close(fds[0])
		fds = fds[1:]
	}
	var cmd command
	if err == nil {
		cmd, err = parseCommand(body)
	}
	if err == nil && len(fds) != 3 {
		err = errWire
	}
	if err != nil {
		closeAll(fds)
		return job{}, err
	}
	return job{p.id, cmd, [3]int(fds)}, nil
}

func (w *warden) refuse(id uint32, step process.Step, errno syscall.Errno) {
	_ = w.tell(packet{kind: msgRefused, id: id, a: uint64(step), b: uint64(errno)})
}

// forkCommands confines its thread, says so, and forks every command of the cell. The
// thread reads the requests itself: to be woken by another one would take a noticeable
// part of the time of a fork.
func (w *warden) forkCommands(confined chan<- confinement) {
	// Never unlocked: the thread is of no use for anything else.
	runtime.LockOSThread()
	c := confineThread(w.setup)
	confined <- c
	if c.err != nil {
		return
	}
	buf := make([]byte, maxPacket)
	for {
		n, fds, err := receive(w.spawn, buf, 4)
		if err != nil {
			return
		}
		p, err := parsePacket(buf[:n])
		if err != nil {
			closeAll(fds)
			return
		}
		j, err := parseJob(p, fds)
		if err != nil {
			w.refuse(p.id, process.StepOther, unix.EBADMSG)
			continue
		}
		w.fork(&j)
		w.collectGarbage(len(p.body))
		for _, fd := range j.stdio {
			if fd != w.null {
				unix.Close(fd)
			}
		}
	}
}

// collectGarbage is called by the forking thread when it has started a command of size
// bytes, and collects now and then.
func (w *warden) collectGarbage(size int) {
	const perCommand, enough = 4 << 10, 1 << 20
	w.garbage += size + perCommand
	if w.garbage > enough {
		w.garbage = 0
		runtime.GC()
	}
}

// fork starts one command. The search for the program and the change of directory
// happen here, on the confined thread, with the command's own rights.
func (w *warden) fork(j *job) {
	dir := j.cmd.dir
	if dir == "" {
		dir = w.setup.Root
	}
	if err := unix.Chdir(dir); err != nil {
		w.refuse(j.id, process.StepDir, errnoOf(err))
		return
	}
	path, err := process.Find(j.cmd.argv[0], dir, j.cmd.env)
	if err != nil {
		w.refuse(j.id, process.StepExec, errnoOf(err))
		return
	}
	attr := &syscall.ProcAttr{Env: j.cmd.env, Files: make([]uintptr, 3), Sys: &syscall.SysProcAttr{Setsid: true}}
	for i := range j.stdio {
		w.replaceNull(&j.stdio[i])
		attr.Files[i] = uintptr(j.stdio[i])
	}
	if attr.Env == nil {
		attr.Env = []string{}
	}
	w.mu.Lock()
	if w.called[j.id] {
		delete(w.called, j.id)
		w.mu.Unlock()
		w.refuse(j.id, process.StepOther, unix.ECANCELED)
		return
	}
	w.forking = j.id
	w.mu.Unlock()
	pid, err := syscall.ForkExec(path, j.cmd.argv, attr)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forking = 0
	w.changed.Broadcast()
	if err != nil {
		w.refuse(j.id, process.StepExec, errnoOf(err))
		return
	}
	w.running[pid], w.pids[j.id], w.latest[pid] = j.id, pid, j.id
	_ = w.tell(packet{kind: msgStarted, id: j.id, a: uint64(pid)})
}

// replaceNull puts the cell's own /dev/null in place of the host's. A command could read
// and write that one, but not open it again as /dev/stdin.
func (w *warden) replaceNull(fd *int) {
	var st unix.Stat_t
	if w.setup.Tier == policy.None || unix.Fstat(*fd, &st) != nil {
		return
	}
	if st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3) {
		unix.Close(*fd)
		*fd = w.null
	}
}

// reap collects every process that ends inside, also orphans, and tells how commands
// ended. WNOWAIT keeps the pid taken until the table is locked, so no signal that goes
// by the table meets another process.
//
// Nothing is allocated here: a build can orphan millions of processes without a new
// command, at which the garbage would be collected.
func (w *warden) reap() {
	runtime.LockOSThread()
	var info unix.Siginfo
	var status syscall.WaitStatus
	for {
		if err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			if err == unix.ECHILD {
				w.awaitChild()
			}
			continue
		}
		w.collect(siginfoPid(&info), &status)
	}
}

// awaitChild waits until there is a command. Without one there are no children: an
// orphan had a command as ancestor, and was this process's child when that ended.
func (w *warden) awaitChild() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.running) == 0 {
		w.changed.Wait()
	}
}

func (w *warden) collect(pid int, status *syscall.WaitStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if _, known := w.running[pid]; known || w.forking == 0 {
			break
		}
		w.changed.Wait()
	}
	// WNOHANG: a fork that failed has collected its child itself.
	got, err := syscall.Wait4(pid, status, syscall.WNOHANG, nil)
	id, known := w.running[pid]
	if err != nil || got != pid || !known {
		return
	}
	delete(w.running, pid)
	w.forget(id)
	p := packet{kind: msgExited, id: id, b: uint64(status.ExitStatus())}
	if status.Signaled() {
		p.a, p.b = 1, uint64(status.Signal())
	}
	_ = w.tell(p)
}

// forget remembers that id has ended and drops what is too old.
func (w *warden) forget(id uint32) {
	w.ended = append(w.ended, id)
	if len(w.ended) > maxEnded {
		old := w.ended[0]
		w.ended = w.ended[1:]
		if pid := w.pids[old]; w.latest[pid] == old {
			delete(w.latest, pid)
		}
		delete(w.pids, old)
	}
}

// signal sends sig to the process group of a command whose first process has not been
// reaped, so that the group is its own.
func (w *warden) signal(id uint32, sig syscall.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pid, ok := w.pids[id]; ok && w.running[pid] == id && pid > 1 {
		_ = syscall.Kill(-pid, sig)
	}
}

// kill ends everything of a command that can be named: its process group, its session
// and its descendants, again until none is left. What it does not find: a process
// that made a session of its own and whose parent has ended.
func (w *warden) kill(id uint32) {
	w.mu.Lock()
	_, started := w.pids[id]
	if !started && w.forking != id {
		// The two sockets are not in order. What was refused is called off for nothing;
		// the bound keeps that from growing.
		if len(w.called) >= maxEnded {
			clear(w.called)
		}
		w.called[id] = true
	}
	w.mu.Unlock()
	if !started {
		w.endFork(id)
		return
	}
	killWhile(func(procs map[int]procStat) []int {
		w.mu.Lock()
		defer w.mu.Unlock()
		pid, ok := w.pids[id]
		if !ok || pid <= 1 {
			return nil
		}
		if w.running[pid] != id {
			// The first process has been reaped. If its number is, or was, another process,
			// the session of that number is somebody else's.
			if _, taken := procs[pid]; taken || w.latest[pid] != id {
				return nil
			}
		}
		// The first process goes first, or it would see its children die and end by itself.
		var list []int
		if procs[pid].alive() && w.running[pid] == id {
			list = append(list, pid)
		}
		list = append(list, descendants(procs, pid, nil)...)
		for p, st := range procs {
			if p != os.Getpid() && p != pid && st.alive() && (st.session == pid || st.pgrp == pid) {
				list = append(list, p)
			}
		}
		return list
	})
}

// endFork kills the process of command id if it is between fork and exec. The confined thread waits for
// its exec, so a command that stops it there (SIGSTOP cannot be blocked) holds up every
// later one. Such a process still runs the warden's program, which no command can
// execute.
func (w *warden) endFork(id uint32) {
	own, err := os.Stat(selfProgram)
	if err != nil || w.setup.Tier == policy.None {
		return
	}
	killWhile(func(procs map[int]procStat) []int {
		w.mu.Lock()
		forking := w.forking == id
		w.mu.Unlock()
		if !forking {
			return nil
		}
		var list []int
		for pid, p := range procs {
			if p.ppid != os.Getpid() || !p.alive() {
				continue
			}
			if exe, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid)); err == nil && os.SameFile(exe, own) {
				list = append(list, pid)
			}
		}
		return list
	})
}

// end is the end of a warden whose croft is gone. With a pid namespace it is enough to
// exit; without, everything that came from here is a descendant of this subreaper.
func (w *warden) end() {
	if w.setup == nil || w.setup.Tier != policy.None {
		return
	}
	killWhile(func(procs map[int]procStat) []int { return descendants(procs, os.Getpid(), nil) })
	if w.setup.PrivateHome {
		_ = os.RemoveAll(w.setup.Home)
	}
}

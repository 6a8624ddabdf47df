package confine

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/policy"
)

// forker forks wardens. It belongs to one thread that never ends before them, since
// they die with it, and serves either in the starter or, in a program that is small
// enough for fast forks, in croft itself.
type forker struct {
	program string // what is executed as warden
	log     int    // standard error of wardens

	// Made by prepare and prepareBinds, and used up by the next launch.
	spare  *embryo
	paused int             // process of a user namespace without maps, or 0
	binds  map[string]item // by target, with their mounts
	stale  bool            // a launch has used them up: nothing more is to be prepared
}

// embryo is a warden that has been forked and waits to be told what to do.
type embryo struct {
	pid, pidfd int
	link       int // the forker's end of its first socket
	mounts     int // descriptor of /proc/self/mounts that was open before the fork, or -1
}

// prepare makes what the next launch needs most probably: a warden without network, and
// for root a user namespace for idmapped mounts. A failure shows at the launch.
//
// A spare warden keeps the host's mounts as they are now from going away entirely, so
// one is made only when a launch is about to follow.
func (f *forker) prepare() {
	if f.spare == nil {
		f.spare, _ = f.fork(policy.Namespaces, policy.NetworkNone)
	}
	if f.paused == 0 && isRoot() {
		f.paused, _ = forkPaused(uintptr(os.Getpid()))
	}
}

// prepareBinds makes, for root, the mounts that every session has.
func (f *forker) prepareBinds(items []item) {
	if f.stale || !isRoot() || f.binds != nil {
		return
	}
	f.binds = make(map[string]item)
	for _, it := range items {
		if it.Kind == itemBind && cloneItem(&it, true) == nil {
			f.binds[it.Target] = it
		}
	}
}

// useBinds gives set the mounts that are there already.
func (f *forker) useBinds(set *setup) {
	for i := range set.Items {
		it := set.Items[i]
		made := f.binds[it.Target]
		it.Mount = made.Mount
		if made.Mount != 0 && it == made {
			set.Items[i].Mount = made.Mount
			delete(f.binds, it.Target)
		}
	}
}

func (f *forker) dropBinds() {
	for _, it := range f.binds {
		unix.Close(it.Mount)
	}
	f.binds = nil
}

// discard ends what prepare and prepareBinds made.
func (f *forker) discard() {
	f.dropBinds()
	if f.spare != nil {
		f.spare.end()
		f.spare = nil
	}
	if f.paused != 0 {
		endChild(f.paused)
		f.paused = 0
	}
}

// endChild kills and reaps a child that is waited for nowhere else but in a reaper of
// every child.
func endChild(pid int) {
	_ = unix.Kill(pid, unix.SIGKILL)
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); err != unix.EINTR {
			return
		}
	}
}

func (e *embryo) end() {
	_ = unix.PidfdSendSignal(e.pidfd, unix.SIGKILL, nil, 0)
	endChild(e.pid)
	e.close()
	unix.Close(e.pidfd)
}

// close lets go of all but the pidfd.
func (e *embryo) close() {
	unix.Close(e.link)
	if e.mounts >= 0 {
		unix.Close(e.mounts)
	}
}

// fork makes a warden, in all namespaces at once, so that the user namespace owns the
// others. It has no ids mapped yet.
func (f *forker) fork(tier policy.Tier, network policy.Network) (*embryo, error) {
	e := &embryo{mounts: -1}
	sys := &syscall.SysProcAttr{Setsid: true, PidFD: &e.pidfd}
	if tier != policy.None {
		sys.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
		if network == policy.NetworkNone {
			sys.Cloneflags |= unix.CLONE_NEWNET
		}
		sys.AmbientCaps = wardenCaps
		if fd, err := unix.Open("/proc/self/mounts", unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
			e.mounts = fd
		}
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer unix.Close(theirs)
	e.link = ours
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		e.close()
		return nil, err
	}
	defer unix.Close(null)
	e.pid, err = syscall.ForkExec(f.program, []string{wardenName}, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Sys: sys,
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(f.log), uintptr(theirs)},
	})
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// take returns the spare warden if it fits the setup, else a new one.
func (f *forker) take(set *setup) (*embryo, error) {
	if e := f.spare; e != nil && set.Tier == policy.Namespaces && set.Network == policy.NetworkNone {
		f.spare = nil
		return e, nil
	}
	return f.fork(set.Tier, set.Network)
}

// stale reports whether the host's mounts have changed since the fork: the warden might
// not see what it is to show. See proc_pid_mounts(5) for the poll.
func (e *embryo) stale() bool {
	p := []unix.PollFd{{Fd: int32(e.mounts), Events: unix.POLLPRI}}
	n, err := unix.Poll(p, 0)
	return e.mounts < 0 || err != nil || n > 0
}

// ended reports whether the process ends by itself, after its files in /proc could not
// be written: they belong to root from the moment on in which its memory is gone,
// which is a little before the pidfd tells of the end.
func (e *embryo) ended() bool {
	const littleMS = 200
	p := []unix.PollFd{{Fd: int32(e.pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, littleMS)
		if err != unix.EINTR {
			return err == nil && n > 0
		}
	}
}

// launch makes what only this side can make and sends a warden its setup, with croft's
// ends of its sockets. The caller owns the descriptors, and the pid and pidfd of the
// result.
func (f *forker) launch(set *setup, control, spawn int) (*embryo, error) {
	f.stale = true
	if f.spare != nil && f.spare.stale() {
		f.discard()
	}
	defer f.dropBinds()
	if set.Privileged {
		defer closeMounts(set)
		f.useBinds(set)
		if err := f.prepareMounts(set); err != nil {
			return nil, err
		}
	}
	e, err := f.take(set)
	switch errno := errnoOf(err); errno {
	case 0:
	case unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ENOEXEC:
		return nil, failed(stepHelper, "", errno)
	default:
		return nil, failed(stepFork, "", errno)
	}
	if set.Tier != policy.None {
		if err := mapUser(e.pid, set); err != nil {
			at := stepFork
			if e.ended() {
				at = stepHelper // a helper waits for its setup: this program was none
			}
			e.end()
			return nil, failed(at, "", errnoOf(err))
		}
	}
	if err := e.tell(set, control, spawn); err != nil {
		e.end()
		return nil, failed(stepHelper, "", errnoOf(err))
	}
	e.close()
	return e, nil
}

// mapUser maps the one id of each kind that the cell has. Root's groups go, with the
// session's own in their place; an ordinary user has to give up changing his.
func mapUser(pid int, set *setup) error {
	proc := fmt.Sprintf("/proc/%d/", pid)
	if !set.Privileged {
		if err := writeProc(proc+"setgroups", []byte("deny")); err != nil {
			return err
		}
	}
	u := set.User
	if err := writeMap(proc+"uid_map", []syscall.SysProcIDMap{{ContainerID: u.InsideUID, HostID: u.HostUID, Size: 1}}); err != nil {
		return err
	}
	return writeMap(proc+"gid_map", []syscall.SysProcIDMap{{ContainerID: u.InsideGID, HostID: u.HostGID, Size: 1}})
}

// tell sends the setup. The descriptors it refers to follow the first three; their
// numbers in the message count from 1.
func (e *embryo) tell(set *setup, control, spawn int) error {
	passed := *set
	passed.Items = append([]item(nil), set.Items...)
	var fds []int
	pass := func(fd *int) {
		if *fd != 0 {
			fds = append(fds, *fd)
			*fd = len(fds)
		}
	}
	for i := range passed.Items {
		if set.Privileged {
			passed.Items[i].Dir = 0
		}
		pass(&passed.Items[i].Dir)
		pass(&passed.Items[i].Mount)
	}
	mem, err := memoryFile("croft-setup", passed.encode())
	if err != nil {
		return err
	}
	defer unix.Close(mem)
	return send(e.link, packet{kind: msgSetup}.append(nil), append([]int{control, mem, spawn}, fds...)...)
}

// resolveDirs puts descriptors in place of the numbers of a setup that came from layout:
// item.Dir n is the n-th, counted from 1.
func resolveDirs(set *setup, dirs []int) error {
	for i := range set.Items {
		switch n := set.Items[i].Dir; {
		case n > len(dirs):
			return failed(stepSetup, set.Items[i].Source, errWire)
		case n > 0:
			set.Items[i].Dir = dirs[n-1]
		}
	}
	return nil
}

// asFailure returns err as one; anything else is a failed fork.
func asFailure(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return failed(stepFork, "", errnoOf(err))
}

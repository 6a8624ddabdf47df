package confine

import (
	"encoding/json"
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/policy"
)

// starter forks wardens for one client. It is small, so its forks are fast, and it
// stays on one thread, since the wardens die with that thread. It outlives croft only
// to see that nothing else does.
type starter struct {
	mu      sync.Mutex
	changed *sync.Cond         // wardens or closing
	wardens map[int]wardenProc // by pid
	closing bool
	orphans bool // a warden without a pid namespace was started

	namespaces idmapNamespaces // of the main thread
}

type wardenProc struct {
	id    uint32
	pidfd int
	tier  policy.Tier
}

// launchRequest is one msgLaunch with its descriptors.
type launchRequest struct {
	id  uint32
	fds []int
}

func runStarter() {
	// Orphans of cells without a pid namespace come to the starter, which ends them.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	_ = unix.Chdir("/")
	s := &starter{wardens: make(map[int]wardenProc)}
	s.changed, s.namespaces.mu = sync.NewCond(&s.mu), &s.mu
	requests := make(chan launchRequest)
	go s.reap()
	go s.read(requests)
	for {
		// Only root maps owners. Between two starts there is time for it.
		if isRoot() {
			s.namespaces.prepare()
		}
		r, ok := <-requests
		if !ok {
			break
		}
		s.launch(r)
	}
	s.endAll()
}

// read passes on what croft asks for until croft is gone.
func (s *starter) read(requests chan<- launchRequest) {
	defer close(requests)
	buf := make([]byte, maxPacket)
	for {
		n, fds, err := receive(fdSocket, buf, maxDescriptors)
		if err != nil {
			return
		}
		p, err := parsePacket(buf[:n])
		switch {
		case err == nil && p.kind == msgHello:
			closeAll(fds)
			s.tell(packet{kind: msgHello, a: wireVersion})
			if p.a != wireVersion {
				return
			}
		case err == nil && p.kind == msgLaunch && len(fds) >= 3:
			requests <- launchRequest{p.id, fds}
		default:
			closeAll(fds)
			return
		}
	}
}

// tell sends to croft. If croft is gone the reader sees it.
func (s *starter) tell(p packet, fds ...int) { _ = send(fdSocket, p.append(nil), fds...) }

func (s *starter) launch(r launchRequest) {
	defer closeAll(r.fds)
	w, pid, err := s.fork(r)
	if err != nil {
		f, ok := errors.AsType[*failure](err)
		if !ok {
			f = failed(stepFork, "", errnoOf(err))
		}
		body, _ := json.Marshal(f)
		s.tell(packet{kind: msgFailed, id: r.id, body: body})
		return
	}
	s.tell(packet{kind: msgLaunched, id: r.id, a: uint64(pid), b: startTimeOf(pid)}, w.pidfd)
}

// fork makes what only this side can make and forks the warden.
func (s *starter) fork(r launchRequest) (wardenProc, int, error) {
	control, spawn, dirs := r.fds[0], r.fds[2], r.fds[3:]
	var set setup
	text, err := readMemoryFile(r.fds[1], maxCommand)
	if err == nil {
		set, err = decodeSetup(text)
	}
	if err != nil {
		return wardenProc{}, 0, failed(stepSetup, "", err)
	}
	for i := range set.Items {
		if n := set.Items[i].Dir; n > len(dirs) {
			return wardenProc{}, 0, failed(stepSetup, set.Items[i].Source, errWire)
		} else if n > 0 {
			set.Items[i].Dir = dirs[n-1]
		}
	}
	if set.Privileged {
		defer closeMounts(&set)
		if err := prepareMounts(&set, &s.namespaces); err != nil {
			return wardenProc{}, 0, err
		}
	}
	files, err := wardenFiles(&set, control, spawn)
	if err != nil {
		return wardenProc{}, 0, err
	}
	defer unix.Close(int(files[fdSetup]))

	w := wardenProc{id: r.id, tier: set.Tier}
	attr := &syscall.ProcAttr{Dir: "/", Env: []string{}, Files: files, Sys: wardenAttr(&set)}
	attr.Sys.PidFD = &w.pidfd
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := syscall.ForkExec(selfProgram, []string{wardenName}, attr)
	if err != nil {
		return wardenProc{}, 0, err
	}
	s.wardens[pid] = w
	s.orphans = s.orphans || w.tier == policy.None
	s.changed.Broadcast()
	return w, pid, nil
}

// wardenAttr returns the clone of a warden. All namespaces are made at once, so the
// user namespace owns the others.
func wardenAttr(set *setup) *syscall.SysProcAttr {
	if set.Tier == policy.None {
		return &syscall.SysProcAttr{}
	}
	u := set.User
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: u.InsideUID, HostID: u.HostUID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: u.InsideGID, HostID: u.HostGID, Size: 1}},
		AmbientCaps: wardenCaps,
	}
	if set.Network == policy.NetworkNone {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if set.Privileged {
		// Root's groups would go on opening files: with no group but its own, the
		// session has none of the host's rights. An ordinary user may not drop his.
		attr.GidMappingsEnableSetgroups = true
		attr.Credential = &syscall.Credential{Uid: uint32(u.InsideUID), Gid: uint32(u.InsideGID)}
	}
	return attr
}

// wardenFiles returns the warden's descriptors and rewrites the setup to their
// numbers. The caller closes the one at fdSetup.
func wardenFiles(set *setup, control, spawn int) ([]uintptr, error) {
	files := []uintptr{0, 1, 2, uintptr(control), 0, uintptr(spawn)}
	pass := func(fd *int) {
		if *fd != 0 {
			files = append(files, uintptr(*fd))
			*fd = len(files) - 1
		}
	}
	passed := *set
	passed.Items = append([]item(nil), set.Items...)
	for i := range passed.Items {
		if set.Privileged {
			passed.Items[i].Dir = 0
		}
		pass(&passed.Items[i].Dir)
		pass(&passed.Items[i].Mount)
	}
	text, err := passed.encode()
	if err != nil {
		return nil, failed(stepSetup, "", err)
	}
	fd, err := memoryFile("croft-setup", text)
	if err != nil {
		return nil, failed(stepSetup, "", errnoOf(err))
	}
	files[fdSetup] = uintptr(fd)
	return files, nil
}

// reap collects children. A warden that is gone is told to croft when nothing of it
// is left.
func (s *starter) reap() {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		switch err {
		case nil:
		case unix.ECHILD:
			s.mu.Lock()
			for len(s.wardens) == 0 && !s.closing {
				s.changed.Wait()
			}
			stop := s.closing && len(s.wardens) == 0
			s.mu.Unlock()
			if stop {
				return
			}
			continue
		default:
			continue
		}
		pid := siginfoPid(&info)
		s.mu.Lock()
		_, err = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		w, known := s.wardens[pid]
		if err == nil && known {
			delete(s.wardens, pid)
			s.changed.Broadcast()
		}
		s.mu.Unlock()
		if err != nil || !known {
			continue
		}
		unix.Close(w.pidfd)
		if w.tier == policy.None {
			s.endOrphans()
		}
		s.tell(packet{kind: msgGone, id: w.id})
	}
}

// endOrphans kills what wardens without a pid namespace left behind: children of this
// process that are no wardens, and their descendants.
func (s *starter) endOrphans() {
	killWhile(func(procs map[int]procStat) []int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return descendants(procs, os.Getpid(), func(pid int) bool {
			_, ok := s.wardens[pid]
			return ok || !s.closing && pid == s.namespaces.spare
		})
	})
}

// endAll is the janitor's work: croft is gone, so every warden goes.
func (s *starter) endAll() {
	s.mu.Lock()
	s.closing = true
	s.changed.Broadcast()
	for _, w := range s.wardens {
		_ = unix.PidfdSendSignal(w.pidfd, unix.SIGKILL, nil, 0)
	}
	for len(s.wardens) > 0 {
		s.changed.Wait()
	}
	orphans := s.orphans
	s.mu.Unlock()
	if orphans {
		s.endOrphans()
	}
}

package confine

import (
	"encoding/json"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/policy"
)

// starter forks wardens for one client whose own forks would be slow, or whose cells
// need a janitor that outlives it: it ends what croft leaves behind.
type starter struct {
	forker forker // of the main thread

	mu      sync.Mutex
	changed *sync.Cond         // wardens or closing
	wardens map[int]wardenProc // by pid
	closing bool
	orphans bool // a warden without a pid namespace was started
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
	s := &starter{forker: forker{program: selfProgram, log: 2}, wardens: make(map[int]wardenProc)}
	s.changed = sync.NewCond(&s.mu)
	requests := make(chan launchRequest)
	go s.reap()
	go s.read(requests)
	for r := range requests {
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
	e, err := s.fork(r)
	if err != nil {
		body, _ := json.Marshal(asFailure(err))
		s.tell(packet{kind: msgFailed, id: r.id, body: body})
		return
	}
	s.tell(packet{kind: msgLaunched, id: r.id, a: uint64(e.pid), b: startTimeOf(e.pid)}, e.pidfd)
}

func (s *starter) fork(r launchRequest) (*embryo, error) {
	text, err := readMemoryFile(r.fds[1], maxCommand)
	if err != nil {
		return nil, failed(stepSetup, "", errnoOf(err))
	}
	set, err := decodeSetup(text)
	if err != nil {
		return nil, failed(stepSetup, "", err)
	}
	if err := resolveDirs(&set, r.fds[3:]); err != nil {
		return nil, err
	}
	// Locked as long as there are children that are not in wardens: they are no orphans.
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.forker.launch(&set, r.fds[0], r.fds[2])
	if err != nil {
		return nil, err
	}
	s.wardens[e.pid] = wardenProc{id: r.id, pidfd: e.pidfd, tier: set.Tier}
	s.orphans = s.orphans || set.Tier == policy.None
	s.changed.Broadcast()
	return e, nil
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
			return ok
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

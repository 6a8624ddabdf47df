package confine

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
)

// starterProc is croft's side of a running starter.
type starterProc struct {
	link *link
	proc *os.Process
	log  int // memory file that is the helpers' standard error

	mu      sync.Mutex
	next    uint32
	pending map[uint32]chan launched // requests without an answer
	cells   map[uint32]*Cell         // answered, not gone
	lost    bool                     // the reader has ended
	gone    chan struct{}            // closed when the process has been reaped
	read    chan struct{}            // closed when the reader has ended
}

// launched is the starter's answer to one request.
type launched struct {
	pid       int
	startTime uint64
	pidfd     int
	err       error
}

// program returns the helper program.
func (l *Launcher) program() (string, error) {
	switch {
	case l.helper != "":
		return l.helper, nil
	case initCalled.Load():
		return selfProgram, nil
	}
	path, err := exec.LookPath("croft")
	if err != nil {
		return "", &fault.Error{
			Code: fault.ConfinementUnavailable, Op: "start", Reason: "helper", Retry: fault.RetryNo, Err: err,
			Message: "there is no helper program: call croft.Init first in main, or install croft on PATH",
		}
	}
	return path, nil
}

// startStarter starts the helper and shakes hands with it.
func startStarter(ctx context.Context, program string) (*starterProc, error) {
	l, theirs, err := newLinkPair("starter")
	if err != nil {
		return nil, lost(err)
	}
	theirEnd := os.NewFile(uintptr(theirs), "starter")
	defer theirEnd.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		l.close()
		return nil, lost(err)
	}
	defer null.Close()
	logFD, err := unix.MemfdCreate("croft-helper-log", unix.MFD_CLOEXEC)
	if err != nil {
		l.close()
		return nil, lost(err)
	}
	// The duplicate belongs to the os.File; the log stays open for lastWords.
	log := os.NewFile(uintptr(logFD), "log")
	proc, err := os.StartProcess(program, []string{starterName}, &os.ProcAttr{
		// Nothing of this process's environment is the helpers' business.
		Dir: "/", Env: []string{}, Files: []*os.File{null, null, log, theirEnd},
		// A session of its own: what the terminal sends to croft (Ctrl-C) does not end
		// the helpers before croft has decided what to do.
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	_ = theirEnd.Close()
	if err != nil {
		l.close()
		_ = log.Close()
		return nil, lost(err)
	}
	st := &starterProc{
		link: l, proc: proc, log: logFD, pending: make(map[uint32]chan launched), cells: make(map[uint32]*Cell),
		gone: make(chan struct{}), read: make(chan struct{}),
	}
	go func() {
		_, _ = proc.Wait()
		close(st.gone)
		<-st.read
		_ = log.Close()
	}()
	if err := st.shakeHands(ctx); err != nil {
		close(st.read)
		st.close()
		return nil, err
	}
	go st.listen()
	return st, nil
}

// shakeHands makes sure that the helper is one, of this version.
func (st *starterProc) shakeHands(ctx context.Context) error {
	// A program that is no helper may not answer at all.
	stop := context.AfterFunc(ctx, func() { _ = st.proc.Kill() })
	defer stop()
	if err := st.link.send(packet{kind: msgHello, a: wireVersion}.append(nil)); err != nil {
		return lost(fmt.Errorf("greet the helper: %w%s", err, st.lastWords()))
	}
	buf := make([]byte, maxPacket)
	n, fds, err := st.link.receive(buf, 1)
	closeAll(fds)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return lost(fmt.Errorf("the program does not answer as a helper of croft: %w%s", err, st.lastWords()))
	}
	if p, err := parsePacket(buf[:n]); err != nil || p.kind != msgHello || p.a != wireVersion {
		return lost(fmt.Errorf("the helper is of another version of croft: %w", errWire))
	}
	return nil
}

// request implements backend.
func (st *starterProc) request(c *Cell, control, spawn int, dirs []int) error {
	setupFD, err := memoryFile("croft-setup", c.setup.encode())
	if err != nil {
		c.ended()
		return lost(err)
	}
	defer unix.Close(setupFD)
	answer := make(chan launched, 1)
	st.mu.Lock()
	if st.lost {
		st.mu.Unlock()
		c.ended()
		return lost(fmt.Errorf("%w%s", ErrLost, st.lastWords()))
	}
	st.next++
	id := st.next
	st.pending[id] = answer
	st.cells[id] = c
	st.mu.Unlock()
	if err := st.link.send(packet{kind: msgLaunch, id: id}.append(nil), append([]int{control, setupFD, spawn}, dirs...)...); err != nil {
		st.forget(id)
		c.ended()
		return lost(err)
	}
	// The starter always answers, at the latest by its end; it never waits for the warden.
	a := <-answer
	if a.err != nil {
		st.forget(id)
		c.ended()
		return a.err
	}
	if err := c.hold(a); err != nil {
		c.link.close()
		<-c.done
		return lost(err)
	}
	return nil
}

func (st *starterProc) forget(id uint32) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.pending, id)
	delete(st.cells, id)
}

// listen handles the starter's packets until it ends.
func (st *starterProc) listen() {
	defer close(st.read)
	buf := make([]byte, maxPacket)
	for {
		n, fds, err := st.link.receive(buf, 1)
		if err != nil {
			break
		}
		p, err := parsePacket(buf[:n])
		if err != nil {
			closeAll(fds)
			break
		}
		st.handle(p, fds)
	}
	st.mu.Lock()
	st.lost = true
	pending, cells := st.pending, st.cells
	st.pending, st.cells = nil, nil
	st.mu.Unlock()
	for id, answer := range pending {
		delete(cells, id)
		answer <- launched{err: lost(fmt.Errorf("%w%s", ErrLost, st.lastWords()))}
	}
	// The kernel kills the wardens with their starter.
	for _, c := range cells {
		c.awaitEnd()
		c.ended()
	}
}

func (st *starterProc) handle(p packet, fds []int) {
	st.mu.Lock()
	answer, waiting := st.pending[p.id]
	delete(st.pending, p.id)
	c := st.cells[p.id]
	if p.kind == msgGone {
		delete(st.cells, p.id)
	}
	st.mu.Unlock()
	switch {
	case p.kind == msgLaunched && waiting && len(fds) == 1:
		answer <- launched{pid: int(p.a), startTime: p.b, pidfd: fds[0]}
		return
	case p.kind == msgFailed && waiting:
		var f failure
		if err := json.Unmarshal(p.body, &f); err != nil {
			answer <- launched{err: lost(errWire)}
		} else {
			answer <- launched{err: explain(&f)}
		}
	case p.kind == msgGone && c != nil:
		c.ended()
	}
	closeAll(fds)
}

func (st *starterProc) isLost() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.lost
}

// close ends the starter, which ends its wardens first, and waits for it.
func (st *starterProc) close() {
	// Half-closing first lets the starter's last packets arrive.
	_ = st.link.shutdown()
	<-st.gone
	<-st.read
	st.link.close()
}

// warm does nothing: the starter runs, and is not asked to keep spare wardens.
func (st *starterProc) warm(<-chan []item) {}

func (st *starterProc) lastWords() string { return readLog(st.log) }

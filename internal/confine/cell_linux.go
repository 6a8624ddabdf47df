package confine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/process"
	"github.com/croftdev/croft/policy"
)

// Cell is the confinement of one live session. It implements process.Spawner and is
// safe for use by several goroutines.
type Cell struct {
	setup     setup
	link      *link // everything but spawns
	spawns    *link
	ready     ready
	pid       int
	startTime uint64
	done      chan struct{}
	endOnce   sync.Once

	mu       sync.Mutex
	pidfd    *os.File // nil when the end of the warden was seen
	nextID   uint32
	children map[uint32]*child
	lost     bool // no answer will come any more
}

func newCell(set setup, control, spawns *link) *Cell {
	return &Cell{setup: set, link: control, spawns: spawns, done: make(chan struct{}), children: make(map[uint32]*child)}
}

// hold takes what the starter told of the warden.
func (c *Cell) hold(a launched) error {
	c.pid, c.startTime = a.pid, a.startTime
	err := unix.SetNonblock(a.pidfd, true)
	c.mu.Lock()
	c.pidfd = os.NewFile(uintptr(a.pidfd), "warden")
	c.mu.Unlock()
	return err
}

// kill ends the warden by the kernel, whatever it is doing.
func (c *Cell) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pidfd == nil {
		return
	}
	// The pidfd cannot mean another process. ESRCH: it has ended.
	if rc, err := c.pidfd.SyscallConn(); err == nil {
		_ = rc.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	}
}

// awaitEnd waits until the warden has ended, where no starter can tell.
func (c *Cell) awaitEnd() {
	c.mu.Lock()
	f := c.pidfd
	c.mu.Unlock()
	if f == nil {
		return
	}
	rc, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		return err == nil && n > 0
	})
}

// ended is called when nothing of the cell is left.
func (c *Cell) ended() {
	c.endOnce.Do(func() {
		c.link.close()
		c.spawns.close()
		c.loseChildren()
		c.mu.Lock()
		if c.pidfd != nil {
			_ = c.pidfd.Close()
			c.pidfd = nil
		}
		c.mu.Unlock()
		close(c.done)
	})
}

func (c *Cell) close(ctx context.Context) error {
	if c.setup.Tier == policy.None {
		// Without a pid namespace the warden ends what it started, then itself.
		_ = c.link.shutdown()
	} else {
		c.kill()
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		c.kill()
		return ctx.Err()
	}
}

// listen hands the warden's answers to the commands they are about. Nothing in
// them is trusted: an answer about an unknown command or out of order is dropped.
func (c *Cell) listen() {
	buf := make([]byte, maxPacket)
	for {
		n, fds, err := c.link.receive(buf, 1)
		if err != nil {
			break
		}
		closeAll(fds)
		p, err := parsePacket(buf[:n])
		if err != nil {
			break
		}
		c.mu.Lock()
		ch := c.children[p.id]
		if ch != nil && (p.kind == msgRefused || p.kind == msgExited) {
			delete(c.children, p.id)
		}
		c.mu.Unlock()
		if ch != nil {
			ch.tell(p)
		}
	}
	c.loseChildren()
}

// loseChildren answers everybody who waits: the warden is gone.
func (c *Cell) loseChildren() {
	c.mu.Lock()
	children := c.children
	c.children, c.lost = nil, true
	c.mu.Unlock()
	for _, ch := range children {
		ch.lose()
	}
}

// Spawn starts a command in the cell; see process.Spawner for the contract.
func (c *Cell) Spawn(ctx context.Context, spec process.Spec) (process.Child, error) {
	if len(spec.Argv) == 0 {
		return nil, &process.StartError{Step: process.StepExec, Errno: syscall.ENOENT}
	}
	if spec.TTY != nil {
		return nil, fmt.Errorf("spawn on a terminal: %w", errors.ErrUnsupported)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ch := &child{cell: c, spec: spec, started: make(chan struct{}), done: make(chan struct{})}
	c.mu.Lock()
	if c.lost {
		c.mu.Unlock()
		return nil, fmt.Errorf("spawn: %w", ErrLost)
	}
	c.nextID++
	ch.id = c.nextID
	c.children[ch.id] = ch
	c.mu.Unlock()
	if err := c.sendCommand(ch.id, spec); err != nil {
		c.mu.Lock()
		delete(c.children, ch.id)
		c.mu.Unlock()
		return nil, fmt.Errorf("spawn: %w", err)
	}
	select {
	case <-ch.started:
	case <-ctx.Done():
		// A fork that hangs is ended, any other answer is on its way. Only with it is it
		// sure that nothing of the command is left.
		_ = ch.Kill()
		<-ch.started
		if ch.err == nil {
			_ = ch.Kill()
			<-ch.done
		}
		return nil, ctx.Err()
	}
	if ch.err != nil {
		return nil, ch.err
	}
	return ch, nil
}

// sendCommand sends the request with the command's stdio.
func (c *Cell) sendCommand(id uint32, spec process.Spec) error {
	// Fd would make the files blocking for this process too; the descriptors are only
	// looked at, and the files are kept open by the caller until Spawn returns.
	var fds [3]int
	for i, f := range spec.Files {
		rc, err := f.SyscallConn()
		if err != nil {
			return err
		}
		if err := rc.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
			return err
		}
		c.givePipe(fds[i])
	}
	body := appendCommand(nil, spec)
	if len(body) > maxCommand {
		return &process.StartError{Step: process.StepExec, Name: spec.Argv[0], Errno: syscall.E2BIG}
	}
	if packetHead+len(body) <= maxPacket {
		return asLost(c.spawns.send(packet{kind: msgSpawn, id: id, body: body}.append(nil), fds[:]...))
	}
	mem, err := memoryFile("croft-command", body)
	if err != nil {
		return err
	}
	defer unix.Close(mem)
	return asLost(c.spawns.send(packet{kind: msgSpawnBig, id: id}.append(nil), append([]int{mem}, fds[:]...)...))
}

// givePipe gives a pipe of root's to the session's uid, so that a command can open
// /dev/stdout by name. The descriptors that root holds work as before. A named pipe on a
// disk is left alone: it belongs to somebody.
func (c *Cell) givePipe(fd int) {
	const pipefs = 0x50495045 // PIPEFS_MAGIC, see statfs(2)
	ids := c.ready.Receipt.UIDMap
	if c.setup.Tier == policy.None || os.Geteuid() != 0 || len(ids) != 1 {
		return
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO || st.Uid == ids[0].Outside {
		return
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil && fs.Type == pipefs {
		_ = unix.Fchown(fd, int(ids[0].Outside), -1)
	}
}

// send asks something about a running command; the warden's death is no error, since
// every process of the cell is gone with it.
func (c *Cell) send(p packet) error {
	err := asLost(c.link.send(p.append(nil)))
	if errors.Is(err, ErrLost) {
		return nil
	}
	return err
}

// asLost marks the errors of a socket whose other end is gone.
func asLost(err error) error {
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// child is one command. Its fields are set before the channel is closed that tells of
// them.
type child struct {
	cell *Cell
	id   uint32
	spec process.Spec

	mu      sync.Mutex
	started chan struct{} // closed with pid or err
	pid     int
	err     error
	done    chan struct{} // closed with status or lost
	status  process.Status
	lost    bool
}

func closed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// tell takes one answer of the warden.
func (ch *child) tell(p packet) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	switch {
	case p.kind == msgStarted && !closed(ch.started):
		ch.pid = int(p.a)
		close(ch.started)
	case p.kind == msgRefused && !closed(ch.started):
		name := ch.spec.Argv[0]
		if process.Step(p.a) == process.StepDir {
			name = ch.spec.Dir
		}
		ch.err = &process.StartError{Step: process.Step(p.a), Name: name, Errno: syscall.Errno(p.b)}
		close(ch.started)
		close(ch.done)
	case p.kind == msgExited && closed(ch.started) && !closed(ch.done):
		if p.a == 1 {
			ch.status.Signal = syscall.Signal(p.b & 0x7f)
		} else {
			ch.status.Code = int(p.b & 0xff)
		}
		close(ch.done)
	}
}

func (ch *child) lose() {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if closed(ch.done) {
		return
	}
	ch.lost = true
	if !closed(ch.started) {
		ch.err = fmt.Errorf("spawn: %w", ErrLost)
		close(ch.started)
	}
	close(ch.done)
}

// Pid implements process.Child: it is the pid inside the cell.
func (ch *child) Pid() int { return ch.pid }

// Wait implements process.Child.
func (ch *child) Wait(ctx context.Context) (process.Status, error) {
	select {
	case <-ch.done:
	case <-ctx.Done():
		// An end that was there already is the better answer.
		if !closed(ch.done) {
			return process.Status{}, ctx.Err()
		}
	}
	if ch.lost {
		return process.Status{}, fmt.Errorf("wait: %w", ErrLost)
	}
	return ch.status, nil
}

// Signal implements process.Child.
func (ch *child) Signal(sig syscall.Signal) error {
	return ch.cell.send(packet{kind: msgSignal, id: ch.id, a: uint64(sig)})
}

// Kill implements process.Child.
func (ch *child) Kill() error {
	return ch.cell.send(packet{kind: msgKill, id: ch.id})
}

// Terminal implements process.Child: Spawn refuses terminals.
func (ch *child) Terminal() *os.File { return nil }

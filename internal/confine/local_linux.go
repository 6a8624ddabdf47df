package confine

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// smallProgram is the resident size up to which a program forks its wardens itself. A
// fork into a user namespace copies the page tables, some 80 ms at 1 GB; up to here
// that is less than a start of the starter costs. Variable for tests.
var smallProgram int64 = 48 << 20

// isSmall reports whether this program is, as /proc/self/statm tells (proc_pid_statm(5)).
func isSmall() bool {
	text, err := readSmall("/proc/self/statm", 4096)
	if err != nil {
		return false
	}
	f := strings.Fields(text)
	if len(f) < 2 {
		return false
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	return err == nil && pages*int64(unix.Getpagesize()) <= smallProgram
}

// local is the backend of a small program: a thread of its own forks the wardens. It
// needs no janitor, since a warden with a pid namespace ends with its socket and with
// the thread that forked it.
type local struct {
	log  int // memory file that is the wardens' standard error
	jobs chan func(f *forker)
	gone chan struct{} // closed when the thread has ended

	// sending is held while a job waits for the thread, so no job takes it.
	sending sync.Mutex
	closed  bool

	mu     sync.Mutex
	cells  map[*Cell]bool // launched, not ended
	reaped sync.WaitGroup // for each of them
}

func newLocal(program string) (*local, error) {
	log, err := unix.MemfdCreate("croft-helper-log", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, lost(err)
	}
	l := &local{log: log, jobs: make(chan func(f *forker)), gone: make(chan struct{}), cells: make(map[*Cell]bool)}
	go func() {
		defer close(l.gone)
		// Never unlocked: the thread ends with this function, and by then every warden has.
		runtime.LockOSThread()
		f := &forker{program: program, log: log}
		defer f.discard()
		for job := range l.jobs {
			job(f)
		}
	}()
	return l, nil
}

// do runs job on the thread that forks, unless l is closed.
func (l *local) do(job func(f *forker)) bool {
	l.sending.Lock()
	defer l.sending.Unlock()
	if l.closed {
		return false
	}
	l.jobs <- job
	return true
}

func (l *local) warm(items <-chan []item) {
	if l.do((*forker).prepare) {
		list := <-items
		l.do(func(f *forker) { f.prepareBinds(list) })
	}
}

func (l *local) isLost() bool { return false }

// request implements backend.
func (l *local) request(c *Cell, control, spawn int, dirs []int) error {
	set := c.setup
	set.Items = append([]item(nil), set.Items...)
	if err := resolveDirs(&set, dirs); err != nil {
		c.ended()
		return explain(asFailure(err))
	}
	answer := make(chan launched, 1)
	if !l.do(func(f *forker) {
		e, err := f.launch(&set, control, spawn)
		if err != nil {
			answer <- launched{err: explain(asFailure(err))}
			return
		}
		l.mu.Lock()
		l.cells[c] = true
		l.reaped.Add(1)
		l.mu.Unlock()
		answer <- launched{pid: e.pid, startTime: startTimeOf(e.pid), pidfd: e.pidfd}
	}) {
		c.ended()
		return fmt.Errorf("start: %w", errClosed)
	}
	a := <-answer
	if a.err != nil {
		c.ended()
		return a.err
	}
	err := c.hold(a)
	go l.reap(c)
	l.sending.Lock()
	closed := l.closed
	l.sending.Unlock()
	if closed { // which could not kill what was not held yet
		c.kill()
	}
	if err != nil {
		c.kill()
		<-c.done
		return lost(err)
	}
	return nil
}

// reap waits for the end of a warden. With it everything in its pid namespace has ended.
func (l *local) reap(c *Cell) {
	c.awaitEnd()
	for {
		// ECHILD: this program collects children that are not its own.
		if _, err := unix.Wait4(c.pid, nil, 0, nil); err != unix.EINTR {
			break
		}
	}
	l.mu.Lock()
	delete(l.cells, c)
	l.mu.Unlock()
	c.ended()
	l.reaped.Done()
}

// close ends every cell and then the thread. It is called once.
func (l *local) close() {
	l.sending.Lock()
	l.closed = true
	l.sending.Unlock()
	l.jobs <- func(*forker) {} // the job before it, if there was one, is done now
	l.mu.Lock()
	for c := range l.cells {
		c.kill()
	}
	l.mu.Unlock()
	l.reaped.Wait()
	close(l.jobs)
	<-l.gone
	unix.Close(l.log)
}

func (l *local) lastWords() string { return readLog(l.log) }

// readLog returns what helpers wrote to their standard error, which is nothing unless
// one of them crashed.
func readLog(fd int) string {
	b := make([]byte, 4<<10)
	n, err := unix.Pread(fd, b, 0)
	if err != nil || n <= 0 {
		return ""
	}
	return ": " + string(b[:n])
}

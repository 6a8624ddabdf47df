package root

import (
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// idleThreads is how many threads wait for further work for one identity, and
	// idleTime for how long. Making a thread costs some 100 us, waking one a few.
	idleThreads = 4
	idleTime    = 5 * time.Second
)

// helper is a thread that acts for one identity. Its goroutine is locked to it and
// never unlocked, so that the thread ends with the goroutine and the identity is
// never taken back: taking it back could fail halfway.
type helper struct {
	jobs chan *job
}

// job is one call of Do.
type job struct {
	fn    func() error
	done  chan struct{}
	err   error
	panic any
	exit  bool // fn ended its goroutine
}

// helpers are the threads that wait, by identity.
var helpers = struct {
	mu   sync.Mutex
	idle map[string][]*helper
}{idle: map[string][]*helper{}}

func (id identity) key() string { return fmt.Sprint(id.uid, id.gid, id.groups, id.keepCaps) }

// doAs runs fn on a thread with the identity and returns its error. A panic or
// runtime.Goexit of fn goes on in the caller.
func doAs(id identity, fn func() error) error {
	key := id.key()
	h, err := takeHelper(key, id)
	if err != nil {
		return err
	}
	j := &job{fn: fn, done: make(chan struct{})}
	h.jobs <- j
	<-j.done
	if j.exit {
		runtime.Goexit()
	}
	if j.panic != nil {
		panic(j.panic)
	}
	return j.err
}

// onThread returns a function for [tree.Options].Thread that gives workers the
// identity.
func onThread(id identity) func(func()) {
	return func(run func()) {
		// This can fail only before run is called, and did not just now for the
		// caller. A worker that did not run would be waited for without end.
		if err := doAs(id, func() error { run(); return nil }); err != nil {
			panic(err)
		}
	}
}

func takeHelper(key string, id identity) (*helper, error) {
	helpers.mu.Lock()
	if idle := helpers.idle[key]; len(idle) > 0 {
		h := idle[len(idle)-1]
		helpers.idle[key] = idle[:len(idle)-1]
		helpers.mu.Unlock()
		return h, nil
	}
	helpers.mu.Unlock()
	h := &helper{jobs: make(chan *job)}
	ready := make(chan error)
	go h.start(key, id, ready)
	return h, <-ready
}

// start locks the goroutine to a thread other than the program's first, gives the
// thread the identity and serves jobs.
//
// The first thread is left alone because the Go runtime never ends it: a goroutine
// that ended while locked to it would leave it, and with it the process as others
// see it, with another user's rights for good.
func (h *helper) start(key string, id identity, ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		inner := make(chan error)
		go h.start(key, id, inner) // cannot get this thread while it is locked
		err := <-inner
		runtime.UnlockOSThread()
		ready <- err
		return
	}
	// From here on the thread is never unlocked: it ends with this function.
	err := become(id)
	ready <- err
	if err == nil {
		h.serve(key)
	}
}

func (h *helper) serve(key string) {
	timer := time.NewTimer(idleTime)
	for {
		select {
		case j := <-h.jobs:
			if !j.run() || !h.wait(key) {
				close(j.done)
				return
			}
			timer.Reset(idleTime)
			close(j.done)
		case <-timer.C:
			if h.retire(key) {
				return
			}
			// Someone has just taken this helper and is about to give it work.
		}
	}
}

// wait puts the helper among the idle ones, unless enough are there.
func (h *helper) wait(key string) bool {
	helpers.mu.Lock()
	defer helpers.mu.Unlock()
	if len(helpers.idle[key]) >= idleThreads {
		return false
	}
	helpers.idle[key] = append(helpers.idle[key], h)
	return true
}

// retire takes the helper from the idle ones; false if it is not among them.
func (h *helper) retire(key string) bool {
	helpers.mu.Lock()
	defer helpers.mu.Unlock()
	idle := helpers.idle[key]
	for i := range idle {
		if idle[i] == h {
			helpers.idle[key] = append(idle[:i:i], idle[i+1:]...)
			if len(helpers.idle[key]) == 0 {
				delete(helpers.idle, key)
			}
			return true
		}
	}
	return false
}

// run calls fn and reports whether the thread may be used again.
func (j *job) run() bool {
	returned := false
	defer func() {
		if returned {
			return
		}
		if j.panic = recover(); j.panic == nil {
			j.exit = true // runtime.Goexit: this goroutine is ending
			close(j.done)
		}
	}()
	j.err = j.fn()
	returned = true
	return true
}

// become gives the calling thread, which must be locked, the identity. The order
// matters: groups and group id need root's rights, and setfsuid gives up the file
// capabilities by itself (capabilities(7), effect of user ID changes). These calls
// are per thread in the kernel; only the C library makes them per process.
func become(id identity) error {
	groups := make([]uint32, max(len(id.groups), 1))
	for i, g := range id.groups {
		groups[i] = uint32(g)
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(id.groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
	if errno != 0 {
		return fmt.Errorf("setgroups: %w", errno)
	}
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSGID, uintptr(id.gid), 0, 0) // reports no error; looked at below
	_, _, _ = unix.RawSyscall(unix.SYS_SETFSUID, uintptr(id.uid), 0, 0)
	uid, _, _ := unix.RawSyscall(unix.SYS_SETFSUID, ^uintptr(0), 0, 0)
	gid, _, _ := unix.RawSyscall(unix.SYS_SETFSGID, ^uintptr(0), 0, 0)
	if int(uid) != id.uid || int(gid) != id.gid {
		return fmt.Errorf("setfsuid: %w", unix.EPERM)
	}
	if id.keepCaps {
		return raiseCaps()
	}
	return nil
}

// raiseCaps makes all permitted capabilities of the thread effective again.
func raiseCaps() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	for i := range data {
		data[i].Effective = data[i].Permitted
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}

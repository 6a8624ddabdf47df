package tree

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// visitor is what an operation does at the three moments of a directory. Its
// methods run on several workers at once, but for one directory never at the
// same time. The node given is pinned, so its descriptors are open.
type visitor interface {
	// enter opens the directory name in parent. A nil node means that there is
	// nothing to enter (any more); a non-nil error stops the operation.
	enter(w *worker, parent *node, name string) (*node, error)
	// entry treats one entry of n; descend asks for entering it as a directory.
	entry(w *worker, n *node, d dirent) (descend bool, err error)
	// unlisted is told that n could not be read to its end.
	unlisted(n *node, err error) error
	// leave ends n after everything below it; again asks for listing it once
	// more. open is false if n's parent could not be found any more. It is not
	// called for the top directory.
	leave(n *node, open bool) (again bool, err error)
}

// errStopped ends a listing early; the engine knows the true cause.
var errStopped = errors.New("stopped")

// engine runs a visitor over a tree with a few workers. Directories wait on a
// stack, so that the walk goes deep first and few of them are in work at once.
type engine struct {
	ctx   context.Context // of the one call that the engine lives for
	opts  Options
	v     visitor
	cache *cache
	top   *node

	stop     atomic.Bool // cancelled or failed: workers finish at the next entry
	counting progress

	mu     sync.Mutex
	cond   sync.Cond
	stack  []*node // directories with subdirectories not yet in work
	active int     // directories in work
	err    error   // the first failure
}

// worker is what belongs to one worker alone.
type worker struct {
	e    *engine
	dirs []byte // for getdents64
	data []byte // for file content, made on first use
}

// newEngine makes an engine for the directory dir (and dst for a copy).
func newEngine(ctx context.Context, opts Options, v visitor, dirs ...*os.File) (*engine, error) {
	e := &engine{ctx: ctx, opts: opts, v: v, cache: newCache(len(dirs)), top: &node{fd: [2]int{-1, -1}}}
	e.cond.L = &e.mu
	e.counting.report = opts.Progress
	// The top is opened as the workers are: with the other user's rights.
	err := onThread(opts.Thread, func() error { return e.openTop(dirs) })
	if err != nil {
		return nil, err
	}
	e.cache.adopt(e.top)
	e.top.pins++ // one for its listing and one for good
	return e, nil
}

func (e *engine) openTop(dirs []*os.File) error {
	for i, d := range dirs {
		fd, err := reopen(d)
		var st unix.Statx_t
		if err == nil {
			e.top.fd[i] = fd
			err = statAt(fd, "", &st)
		}
		if err != nil {
			for _, fd := range e.top.fd {
				if fd >= 0 {
					unix.Close(fd)
				}
			}
			return err
		}
		e.top.id[i] = identOf(&st)
	}
	return nil
}

// run lists the top directory and all below it, and returns when no worker runs.
func (e *engine) run() error {
	ctx := e.ctx
	defer e.cache.close()
	if err := ctx.Err(); err != nil {
		return err
	}
	// Workers that wait are woken; those at work look for themselves.
	woken := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() { e.fail(ctx.Err()); close(woken) })
	defer func() {
		if !unwatch() {
			<-woken // it runs, or has run: nothing of the call outlives it
		}
	}()
	workers := e.opts.Workers
	if workers <= 0 {
		workers = DefaultWorkers
	}
	e.top.pending = 1
	e.active = 1
	var wg sync.WaitGroup
	for i := range workers {
		w := &worker{e: e}
		job := w.loop
		if i == 0 {
			job = func() { w.list(e.top); w.loop() }
		}
		wg.Go(func() {
			if e.opts.Thread != nil {
				e.opts.Thread(job)
			} else {
				job()
			}
		})
	}
	wg.Wait()
	e.counting.final()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// stopped reports whether a worker shall stop. It looks at the context itself: a
// goroutine that waits for the cancellation may be late on a busy machine.
func (e *engine) stopped() bool {
	if e.stop.Load() {
		return true
	}
	if err := e.ctx.Err(); err != nil {
		e.fail(err)
		return true
	}
	return false
}

// fail records the first failure and makes every worker stop.
func (e *engine) fail(err error) {
	e.mu.Lock()
	if e.err == nil {
		e.err = err
	}
	e.stop.Store(true)
	e.cond.Broadcast()
	e.mu.Unlock()
}

func (w *worker) loop() {
	e := w.e
	for {
		parent, name, ok := e.take()
		if !ok {
			return
		}
		if err := e.cache.pin(parent, nil); err != nil {
			if err := e.v.unlisted(parent, err); err != nil {
				e.fail(err)
			}
			e.finish(w, parent, false)
			continue
		}
		n, err := e.v.enter(w, parent, name)
		if n == nil {
			if err != nil {
				e.fail(err)
			}
			e.finish(w, parent, true)
			continue
		}
		n.parent, n.name, n.depth, n.pending = parent, name, parent.depth+1, 1
		e.cache.adopt(n)
		e.cache.unpin(parent)
		w.list(n)
	}
}

// take waits for a subdirectory to enter. It returns false when there are none
// and none can come, or the operation has stopped.
func (e *engine) take() (parent *node, name string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		if e.stop.Load() || (len(e.stack) == 0 && e.active == 0) {
			e.cond.Broadcast()
			return nil, "", false
		}
		if l := len(e.stack); l > 0 {
			n := e.stack[l-1]
			name = n.subs.pop()
			if n.subs.empty() {
				e.stack[l-1] = nil
				e.stack = e.stack[:l-1]
			}
			n.pending++
			e.active++
			if len(e.stack) > 0 {
				e.cond.Signal() // one wakes the next: no more of them than there is work for
			}
			return n, name, true
		}
		e.cond.Wait()
	}
}

// list treats the entries of the pinned node n, queues its subdirectories and
// ends this piece of work.
func (w *worker) list(n *node) {
	w.read(n)
	w.e.finish(w, n, true)
}

// read treats the entries of the pinned node n and queues its subdirectories.
func (w *worker) read(n *node) {
	e := w.e
	if w.dirs == nil {
		w.dirs = make([]byte, 32<<10)
	}
	var subs names
	var verdict error // what the visitor, not the kernel, said
	err := readDir(n.fd[0], w.dirs, func(d dirent) error {
		if e.stopped() {
			return errStopped
		}
		if e.opts.Skip != nil && e.opts.Skip(n.join(d.name)) {
			n.failed.Store(true) // it stays, so what holds it stays
			return nil
		}
		var descend bool
		if descend, verdict = e.v.entry(w, n, d); descend {
			subs.add(d.name)
		}
		return verdict
	})
	if verdict == nil && err != nil && err != errStopped {
		verdict = e.v.unlisted(n, err)
	}
	if verdict != nil {
		e.fail(verdict)
	}
	if !subs.empty() {
		e.mu.Lock()
		n.subs = subs
		e.stack = append(e.stack, n)
		e.cond.Signal()
		e.mu.Unlock()
	}
}

// finish ends one piece of work of n; with the last one n itself is left, then
// perhaps its parent, and so on upwards. pinned says that n is open and pinned
// by the caller.
func (e *engine) finish(w *worker, n *node, pinned bool) {
	for {
		e.mu.Lock()
		n.pending--
		done := n.pending == 0 && n.subs.empty() && n.parent != nil && !e.stop.Load()
		e.mu.Unlock()
		if !done {
			break
		}
		n, pinned = e.leave(w, n, pinned)
	}
	if pinned {
		e.cache.unpin(n)
	}
	e.mu.Lock()
	e.active--
	if e.active == 0 || e.stop.Load() {
		e.cond.Broadcast()
	}
	e.mu.Unlock()
}

// leave ends n and returns its parent, pinned if it could be found; or n once
// more, when the visitor asked for another listing.
func (e *engine) leave(w *worker, n *node, pinned bool) (*node, bool) {
	parent, child := n.parent, n
	if !pinned {
		child = nil
	}
	lost := e.cache.pin(parent, child)
	if lost != nil {
		if err := e.v.unlisted(n, lost); err != nil {
			e.fail(err)
		}
	}
	again, err := e.v.leave(n, lost == nil)
	if err != nil {
		e.fail(err)
	}
	if again && pinned && err == nil {
		if lost == nil {
			e.cache.unpin(parent)
		}
		n.pending = 1 // nobody else knows of n now
		w.read(n)
		return n, true
	}
	e.cache.discard(n)
	return parent, lost == nil
}

// onThread runs f as a worker would run, and waits for it.
func onThread(thread func(func()), f func() error) (err error) {
	if thread == nil {
		return f()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		thread(func() { err = f() })
	}()
	<-done
	return err
}

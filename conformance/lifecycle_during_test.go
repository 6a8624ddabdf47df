package conformance

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/croftdev/croft"
	"github.com/croftdev/croft/snapshot"
)

// manyFiles is enough that an operation on them is under way for a while, on the
// fastest disk too.
const manyFiles = 2400

// during is a session with a large workspace and an operation on it that the case
// interrupts.
type during struct {
	*trace
	e *env
	c *croft.Client
	s *croft.Session

	mu      sync.Mutex
	order   []string
	began   func() // called once, when the operation is under way
	stage   string // the progress that tells so: "remove" or "restore"
	returns atomic.Bool
	late    atomic.Int64 // uses of the caller's stream after the operation has returned
}

func newDuring(e *env, opts croft.CreateOptions) *during {
	d := &during{e: e, trace: &trace{}, began: func() {}}
	d.c = e.client(croft.Config{OnStep: d.step, OnProgress: d.progress})
	var err error
	d.s, err = d.c.Create(e.ctx, opts)
	e.check(err)
	e.check(d.s.Start(e.ctx))
	return d
}

func (d *during) step(ctx context.Context, id string, step croft.Step) error {
	if step == croft.StepRemoveRoot {
		d.note("removal_started")
	}
	return d.onStep(ctx, id, step)
}

func (d *during) progress(p croft.Progress) {
	if p.Op == d.stage {
		d.under()
	}
}

// under tells that the operation is under way.
func (d *during) under() {
	d.mu.Lock()
	f := d.began
	d.began = func() {}
	d.mu.Unlock()
	f()
}

func (d *during) note(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order = append(d.order, what)
}

// fill puts many small files into dir.
func fill(e *env, dir string) {
	for i := range manyFiles {
		sub := filepath.Join(dir, fmt.Sprintf("d%02d", i%60))
		if i < 60 {
			e.check(os.Mkdir(sub, 0o755))
		}
		e.check(os.WriteFile(filepath.Join(sub, fmt.Sprintf("f%d", i)), fmt.Appendf(nil, "file %d", i), 0o644))
	}
}

// archiveOf returns a tar of many small files.
func archiveOf(e *env) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	text := bytes.Repeat([]byte("x"), 1000)
	for i := range manyFiles {
		e.check(w.WriteHeader(&tar.Header{Name: fmt.Sprintf("f%d", i), Mode: 0o644, Size: int64(len(text))}))
		_, err := w.Write(text)
		e.check(err)
	}
	e.check(w.Close())
	return b.Bytes()
}

// stream is the caller's end of an archive. It tells when the operation is well
// under way and counts uses after the operation has returned.
type stream struct {
	d *during
	r io.Reader
	n int
}

func (s *stream) used(n int) {
	if s.d.returns.Load() {
		s.d.late.Add(1)
	}
	if s.n += n; s.n > 64<<10 {
		s.d.under()
	}
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.used(n)
	return n, err
}

func (s *stream) Write(p []byte) (int, error) { s.used(len(p)); return len(p), nil }

// work is what a case interrupts: it prepares now and returns the operation.
func (d *during) work(operation string) func(context.Context) error {
	switch operation {
	case "delete":
		d.stage = "remove"
		fill(d.e, d.s.HostRoot())
		d.e.check(d.s.Close(d.e.ctx))
		return func(ctx context.Context) error { return d.c.Delete(ctx, d.s.ID()) }
	case "hydrate":
		in := &stream{d: d, r: bytes.NewReader(archiveOf(d.e))}
		return func(ctx context.Context) error { _, err := d.s.Hydrate(ctx, in); return err }
	case "persist":
		fill(d.e, d.s.HostRoot())
		out := &stream{d: d}
		return func(ctx context.Context) error { _, err := d.s.Persist(ctx, out); return err }
	case "resume_restore":
		fill(d.e, d.s.HostRoot())
		d.e.check(d.s.Close(d.e.ctx))
		d.e.check(os.RemoveAll(d.s.HostRoot()))
		s, err := d.c.Resume(d.e.ctx, d.s.ID())
		d.e.check(err)
		d.s, d.stage = s, "restore"
		return s.Start
	}
	d.e.fatalf("op.operation: the runner does not know %q", operation)
	return nil
}

// interrupted runs the operation and ends its context, with the error why, when it is
// under way.
func (d *during) interrupted(why error, work func(context.Context) error) error {
	ctx := newEndable(d.e.ctx)
	d.mu.Lock()
	d.began = func() { d.note("cancel_requested"); ctx.end(why) }
	d.mu.Unlock()
	err := work(ctx)
	d.returns.Store(true)
	return err
}

// idle reports whether nothing works on a tree or an archive any more: no goroutine
// is inside the packages that do.
func idle() bool {
	buf := make([]byte, 1<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	for _, pkg := range []string{"internal/tree.", "internal/archive.", "internal/fill."} {
		if strings.Contains(stacks, "github.com/croftdev/croft/"+pkg) {
			return false
		}
	}
	return true
}

func runCancelDuring(e *env, op *fields) (outcome, error) {
	operation := op.str("operation")
	op.flag("large_tree") // every tree here is large
	if operation == "owned_cleanup_delete" {
		return cancelOwned(e), nil
	}
	var opts croft.CreateOptions
	if operation == "resume_restore" {
		opts.Snapshot = &snapshot.Spec{Type: snapshot.Tar, BasePath: filepath.Join(e.tmp, "snapshots")}
	}
	d := newDuring(e, opts)
	workspace := d.s.HostRoot()
	err := d.interrupted(context.Canceled, d.work(operation))
	// A removal is finished when the name is gone; the bytes may follow in the
	// background. All else is finished when nothing works on a tree any more.
	_, serr := os.Lstat(workspace)
	gone := errors.Is(serr, fs.ErrNotExist)
	quiet := operation == "delete" || idle()
	if gone {
		d.note("removal_finished")
	}
	seen := callerSees(err)
	if seen == "cancelled" {
		d.note("cancelled_raised")
	}
	out := outcome{
		"root_exists_after": !gone, "caller_sees": seen, "order": d.order,
		"work_completed_before_raise":  quiet,
		"archive_open_until_work_done": quiet && d.late.Load() == 0,
	}
	if operation != "delete" {
		out["writes_after_raise"] = writesAfter(e, quiet)
	}
	return out, nil
}

// writesAfter counts what is written below the case's directory after the operation has
// returned. That nothing works on it any more is what makes a later look superfluous.
func writesAfter(e *env, quiet bool) int {
	if !quiet {
		return 1
	}
	before, n := looks(e, e.tmp), 0
	for name, look := range looks(e, e.tmp) {
		if before[name] != look {
			n++
		}
	}
	return n
}

// cancelOwned cancels an owned life while its session is being deleted.
func cancelOwned(e *env) outcome {
	d := &during{e: e, trace: &trace{}, began: func() {}, stage: "remove"}
	d.c = e.client(croft.Config{OnStep: d.step, OnProgress: d.progress})
	var st *croft.State
	err := d.interrupted(context.Canceled, func(ctx context.Context) error {
		var err error
		st, err = d.c.With(ctx, croft.WithOptions{}, func(_ context.Context, s *croft.Session) error {
			fill(e, s.HostRoot())
			return nil
		})
		return err
	})
	closed := false
	for _, s := range d.cut(ofLife) {
		closed = closed || s == string(croft.StepCloseDependencies)
	}
	out := outcome{"caller_sees": callerSees(err), "dependencies_closed": closed, "resume_state": nil}
	if st != nil {
		out["resume_state"] = st
	}
	return out
}

// callerSees says how an interrupted call ended, in the words of the cases.
func callerSees(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "error: " + err.Error()
}

func runTimeoutDuring(e *env, op *fields) (outcome, error) {
	d := newDuring(e, croft.CreateOptions{})
	workspace := d.s.HostRoot()
	err := d.interrupted(context.DeadlineExceeded, d.work(op.str("operation")))
	_, serr := os.Lstat(workspace)
	gone := errors.Is(serr, fs.ErrNotExist)
	seen := callerSees(err)
	if seen == "timeout" && gone {
		seen = "timeout_after_completion"
	}
	return outcome{"root_exists_after": !gone, "caller_sees": seen}, nil
}

// runConcurrentProgress reads in one session while another one's operation runs, on
// one processor.
func runConcurrentProgress(e *env, op *fields) (outcome, error) {
	d := newDuring(e, croft.CreateOptions{})
	work := d.work(op.str("operation"))
	other, err := d.c.Create(e.ctx, croft.CreateOptions{})
	e.check(err)
	e.check(other.Start(e.ctx))
	_, err = other.WriteFile(e.ctx, "f", strings.NewReader("x"), croft.WriteOptions{})
	e.check(err)

	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	begun, done := make(chan struct{}), make(chan error, 1)
	d.began = func() { close(begun) }
	go func() { done <- work(e.ctx) }()
	select {
	case <-begun:
	case err := <-done:
		e.fatalf("the operation ended before it was seen under way: %v", err)
	}
	reads := 0
	for {
		_, err := other.ReadFile(e.ctx, "f", croft.ReadOptions{})
		e.check(err)
		select {
		case err := <-done:
			e.check(err)
			return outcome{"other_work_progresses": reads >= 3}, nil
		default:
			reads++
		}
	}
}

// looks describes every entry below dir, so that two looks show what was written
// in between.
func looks(e *env, dir string) map[string]string {
	out := map[string]string{}
	e.check(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		out[path] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime().UnixNano())
		return nil
	}))
	return out
}

// endable is a context that the test ends when it likes, with the error it likes.
type endable struct {
	context.Context
	mu   sync.Mutex
	err  error
	done chan struct{}
}

func newEndable(parent context.Context) *endable {
	c := &endable{Context: parent, done: make(chan struct{})}
	context.AfterFunc(parent, func() { c.end(parent.Err()) })
	return c
}

func (c *endable) Done() <-chan struct{} { return c.done }

func (c *endable) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *endable) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.done)
	}
}

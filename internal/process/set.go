package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"sync"

	"github.com/croftdev/croft/internal/durable"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/outlog"
)

// The ids of processes lie between these (case SH-080).
const (
	minID = 1000
	maxID = 99999
)

// DefaultKeep is how many finished commands a [Set] keeps.
const DefaultKeep = 64

// SetOptions of a [Set]. The zero value works.
type SetOptions struct {
	// Keep is how many finished commands are kept with their logs. When a command
	// starts and there are more, those that were used longest ago are forgotten and
	// their logs removed. 0: [DefaultKeep].
	Keep int
}

// Set is the commands of one session, running and finished. It is safe for use by
// several goroutines. Close it.
//
// Each command has an id that is not used again while anything is known of it, and a log
// in a directory of that name, which a later Set on the same directory finds.
type Set struct {
	spawner Spawner
	logs    *durable.Dir
	keep    int

	mu     sync.Mutex
	next   int
	closed bool
	all    map[int]*Process
}

// OpenSet returns the set whose logs lie in logs, with what earlier sets left there as
// finished commands. logs stays the caller's, to close after the Set and all readers.
// One Set at a time may use a directory.
func OpenSet(sp Spawner, logs *durable.Dir, o SetOptions) (*Set, error) {
	s := &Set{spawner: sp, logs: logs, keep: o.Keep, next: minID, all: make(map[int]*Process)}
	if s.keep <= 0 {
		s.keep = DefaultKeep
	}
	names, err := logs.Names()
	if err != nil {
		return nil, fmt.Errorf("list output logs: %w", err)
	}
	for _, name := range names {
		id, err := strconv.Atoi(name)
		if err != nil || strconv.Itoa(id) != name || id < minID || id > maxID {
			continue
		}
		p, err := recall(logs, id)
		if errors.Is(err, fs.ErrNotExist) { // killed before the log had begun
			err = removeLog(logs, id)
		}
		if err != nil {
			return nil, fmt.Errorf("open output log %d: %w", id, err)
		}
		if p != nil {
			s.all[id] = p
			s.next = max(s.next, id+1)
		}
	}
	return s, nil
}

// Start starts a command and returns when its program has been executed. Its output
// goes to its log, of which OutputLimit is the limit (0: [outlog.DefaultLimit]; the least is
// [outlog.MinLimit]). Stdin, Stdout, Stderr and Files must not be set. Timeout, Drain and
// KillGrace mean what they mean for [Run].
//
// ctx is for the start alone; if it ends before Start returns, the command is ended
// and the error wraps ctx.Err(). The other errors are those of Run for a command that
// was not started, and fault.NotAvailable after Close.
func (s *Set) Start(ctx context.Context, c Command) (*Process, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	switch {
	case c.direct() || c.Stdin != nil || c.Stdout != nil || c.Stderr != nil:
		return nil, invalid("streams", "a command of a set has its own streams")
	case c.OutputLimit != 0 && c.OutputLimit < outlog.MinLimit:
		return nil, invalid("output_limit", fmt.Sprintf("the output limit is below %d bytes", int64(outlog.MinLimit)))
	case ctx.Err() != nil:
		return nil, canceled(ctx)
	}
	// A command outlives the call that starts it.
	runCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p, err := s.begin(c, cancel)
	if err != nil {
		cancel(err)
		return nil, err
	}
	if err := p.start(ctx, runCtx, s.spawner); err != nil {
		return nil, errors.Join(err, s.forget(p))
	}
	if ctx.Err() != nil {
		p.cancel(ByRequest)
		<-p.done
		return nil, errors.Join(canceled(ctx), s.forget(p))
	}
	return p, nil
}

// begin takes an id and makes the log. Until its start has succeeded the process is
// in the set only so that Close waits for it.
func (s *Set) begin(c Command, cancel context.CancelCauseFunc) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, closedSet()
	}
	if err := s.prune(); err != nil {
		return nil, transport(&c, "log", "an old output log could not be removed", err)
	}
	id, ok := s.freeID()
	if !ok {
		return nil, &fault.Error{
			Code: fault.LimitExceeded, Op: "exec", Reason: "process_ids", Retry: fault.RetryYes,
			Message: "every process id is in use; end some commands first",
		}
	}
	p := newProcess(id, c, cancel)
	info, err := p.about.encode()
	if err == nil {
		p.log, err = outlog.Create(s.logs, strconv.Itoa(id), outlog.Options{Limit: c.OutputLimit, Info: info})
	}
	if err != nil {
		err = errors.Join(err, removeLog(s.logs, id))
		return nil, transport(&c, "log", "the command's output log could not be made", err)
	}
	s.all[id] = p
	return p, nil
}

func closedSet() error {
	return &fault.Error{
		Code: fault.NotAvailable, Op: "exec", Reason: "closed", Retry: fault.RetryNo,
		Message: "the session runs no more commands",
	}
}

func (s *Set) freeID() (int, bool) {
	for range maxID - minID + 1 {
		id := s.next
		s.next++
		if s.next > maxID {
			s.next = minID
		}
		if _, used := s.all[id]; !used {
			return id, true
		}
	}
	return 0, false
}

// prune removes finished commands until one more fits.
func (s *Set) prune() error {
	var finished []*Process
	for _, p := range s.all {
		if p.Finished() {
			finished = append(finished, p)
		}
	}
	slices.SortFunc(finished, func(a, b *Process) int {
		return cmp.Or(a.lastUsed().Compare(b.lastUsed()), cmp.Compare(a.id, b.id))
	})
	for _, p := range finished[:max(0, len(finished)-s.keep)] {
		if err := removeLog(s.logs, p.id); err != nil {
			return err
		}
		delete(s.all, p.id)
	}
	return nil
}

// forget takes a process that has ended, or never began, out of the set.
func (s *Set) forget(p *Process) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[p.id] != p { // pruned meanwhile
		return nil
	}
	delete(s.all, p.id)
	return removeLog(s.logs, p.id)
}

// Get returns the command with that id. The error is fault.PTYSessionNotFound.
func (s *Set) Get(id int) (*Process, error) {
	s.mu.Lock()
	p := s.all[id]
	s.mu.Unlock()
	if p == nil || !p.known() {
		return nil, &fault.Error{
			Code: fault.PTYSessionNotFound, Op: "exec", Retry: fault.RetryNo,
			Message: fmt.Sprintf("there is no process %d", id), Details: map[string]any{"session_id": id},
		}
	}
	p.use()
	return p, nil
}

// List returns what is known of every command, in the order of their ids.
func (s *Set) List() []Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Info
	for _, p := range s.all {
		if p.known() {
			list = append(list, p.Info())
		}
	}
	slices.SortFunc(list, func(a, b Info) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Remove ends the command if it runs (see [Process.End]), and forgets it with its log. The
// error is that of Get, or one of the disk.
func (s *Set) Remove(ctx context.Context, id int) error {
	p, err := s.Get(id)
	if err != nil {
		return err
	}
	p.end(ctx, ByRequest)
	return s.forget(p)
}

// Close ends every command that runs, side by side, and waits until the set has no
// goroutine, pipe or terminal left; readers of logs are their callers'. When ctx ends,
// what still has its grace is killed. Background processes of a command that had ended by
// itself are the spawner's to end. Logs stay. Close again does nothing.
func (s *Set) Close(ctx context.Context) {
	s.mu.Lock()
	s.closed = true
	all := make([]*Process, 0, len(s.all))
	for _, p := range s.all {
		all = append(all, p)
	}
	s.mu.Unlock()
	for _, p := range all {
		p.cancel(ByClose)
	}
	for _, p := range all {
		p.end(ctx, ByClose)
	}
}

// recall returns a finished command that an earlier set left.
func recall(logs *durable.Dir, id int) (*Process, error) {
	l, err := outlog.Open(logs, strconv.Itoa(id))
	switch {
	case errors.Is(err, outlog.ErrFormat):
		return finishedProcess(id, nil), nil
	case err != nil:
		return nil, err
	}
	return finishedProcess(id, l), nil
}

// removeLog removes the log of a process with all its files; a log that is not
// there is fine.
func removeLog(logs *durable.Dir, id int) error {
	name := strconv.Itoa(id)
	d, err := logs.OpenDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := d.Names()
	for _, n := range names {
		err = errors.Join(err, d.Remove(n))
	}
	return errors.Join(err, d.Close(), logs.RemoveDir(name))
}

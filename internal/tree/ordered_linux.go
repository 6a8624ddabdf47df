package tree

import (
	"bytes"
	"context"
	"os"
	"sort"
)

// ordered walks without the engine: one goroutine, one directory after the
// other, with the same nodes and the same bound on descriptors.
func ordered(ctx context.Context, dir *os.File, opts Options, fn func(*Entry) error) error {
	v := &walker{fn: fn}
	e, err := newEngine(ctx, opts, v, dir)
	if err != nil {
		return err
	}
	v.e = e
	return onThread(opts.Thread, func() error { return e.runOrdered(ctx, v) })
}

// frame is a directory of which some entries are still to be visited.
type frame struct {
	n      *node
	names  sortedNames
	next   int
	pinned bool
}

func (e *engine) runOrdered(ctx context.Context, v *walker) error {
	defer e.cache.close()
	defer e.counting.final()
	buf := make([]byte, 32<<10)
	top, err := e.openFrame(v, e.top, buf)
	if err != nil {
		return err
	}
	stack := []*frame{top}
	for len(stack) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		f := stack[len(stack)-1]
		if f.next == f.names.Len() {
			stack = stack[:len(stack)-1]
			if err := e.closeFrame(v, f, stack); err != nil {
				return err
			}
			continue
		}
		name := f.names.at(f.next)
		f.next++
		child, err := e.visitOrdered(v, f, name)
		if err != nil {
			return err
		}
		if child == nil {
			continue
		}
		next, err := e.openFrame(v, child, buf)
		if err != nil {
			return err
		}
		e.cache.unpin(f.n)
		f.pinned = false
		stack = append(stack, next)
	}
	return nil
}

// openFrame lists the pinned node n.
func (e *engine) openFrame(v *walker, n *node, buf []byte) (*frame, error) {
	f := &frame{n: n, pinned: true}
	err := readDir(n.fd[0], buf, func(d dirent) error {
		f.names.add(d.name)
		return nil
	})
	if err != nil {
		if err := v.unlisted(n, err); err != nil {
			return nil, err
		}
	}
	sort.Sort(&f.names)
	return f, nil
}

// closeFrame leaves f and makes the frame above it ready again. If its directory
// was moved away meanwhile, the rest of it is left out and reported.
func (e *engine) closeFrame(v *walker, f *frame, stack []*frame) error {
	defer e.cache.discard(f.n)
	if len(stack) == 0 {
		return nil
	}
	up := stack[len(stack)-1]
	child := f.n
	if !f.pinned {
		child = nil
	}
	if err := e.cache.pin(up.n, child); err != nil {
		up.next = up.names.Len()
		return v.unlisted(up.n, err)
	}
	up.pinned = true
	return nil
}

// visitOrdered reports one entry and opens it if it is to be entered.
func (e *engine) visitOrdered(v *walker, f *frame, name string) (*node, error) {
	if e.opts.Skip != nil && e.opts.Skip(f.n.join(name)) {
		return nil, nil
	}
	enter, err := v.entry(nil, f.n, dirent{name: name})
	if err != nil || !enter {
		return nil, err
	}
	child, err := v.enter(nil, f.n, name)
	if child == nil {
		return nil, err
	}
	child.parent, child.name, child.depth = f.n, name, f.n.depth+1
	e.cache.adopt(child)
	return child, nil
}

// sortedNames holds the names of a directory in one buffer: a slice of strings
// would take twice as much for millions of short names.
type sortedNames struct {
	buf  []byte
	ends []span
}

type span struct{ from, to uint32 }

func (s *sortedNames) add(name string) {
	from := uint32(len(s.buf))
	s.buf = append(s.buf, name...)
	s.ends = append(s.ends, span{from, uint32(len(s.buf))})
}

func (s *sortedNames) bytes(i int) []byte { return s.buf[s.ends[i].from:s.ends[i].to] }
func (s *sortedNames) at(i int) string    { return string(s.bytes(i)) }
func (s *sortedNames) Len() int           { return len(s.ends) }
func (s *sortedNames) Less(i, j int) bool { return bytes.Compare(s.bytes(i), s.bytes(j)) < 0 }
func (s *sortedNames) Swap(i, j int)      { s.ends[i], s.ends[j] = s.ends[j], s.ends[i] }

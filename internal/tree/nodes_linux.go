package tree

import (
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// node is a directory in work. Its parent chain says by which names it was
// reached; its identities say how it is recognised when it has to be opened
// again. A copy has a descriptor on each side, everything else only the first.
type node struct {
	parent *node
	name   string
	depth  int
	id     [2]ident

	// Guarded by cache.mu.
	fd         [2]int
	pins       int
	prev, next *node // in the list of open, unpinned nodes

	// Guarded by engine.mu.
	subs    names // subdirectories not yet in work
	pending int   // subdirectories in work, plus one for the node itself

	failed atomic.Bool // something below stays (remove)
	passes int         // how often it was listed (remove)
	meta   unix.Statx_t
}

// join returns the name of an entry of n, relative to the top.
func (n *node) join(name string) string {
	if n == nil || n.parent == nil {
		return name
	}
	parts := make([]string, n.depth+1)
	parts[n.depth] = name
	for d := n; d.parent != nil; d = d.parent {
		parts[d.depth-1] = d.name
	}
	return strings.Join(parts, "/")
}

// path returns n's own name relative to the top, "." for the top.
func (n *node) path() string {
	if n.parent == nil {
		return "."
	}
	return n.parent.join(n.name)
}

// names is a compact queue of names: a directory may have millions.
type names struct {
	buf  []byte
	next int
}

func (q *names) add(name string) {
	q.buf = append(q.buf, byte(len(name)), byte(len(name)>>8))
	q.buf = append(q.buf, name...)
}

func (q *names) empty() bool { return q.next >= len(q.buf) }

func (q *names) pop() string {
	l := int(q.buf[q.next]) | int(q.buf[q.next+1])<<8
	q.next += 2
	name := string(q.buf[q.next : q.next+l])
	q.next += l
	if q.empty() {
		*q = names{}
	}
	return name
}

// cache holds the open descriptors of nodes and keeps their number bounded: the
// nodes that were used longest ago are closed first, those in use never.
type cache struct {
	width int // descriptors of a node
	limit int

	mu   sync.Mutex
	open map[*node]struct{}
	lru  node // sentinel: next is the most recently used
}

func newCache(width int) *cache {
	c := &cache{width: width, limit: MaxDescriptors / width, open: map[*node]struct{}{}}
	c.lru.prev, c.lru.next = &c.lru, &c.lru
	return c
}

// adopt takes n, whose descriptors are open, and pins it.
func (c *cache) adopt(n *node) {
	c.mu.Lock()
	n.pins = 1
	c.open[n] = struct{}{}
	c.trim()
	c.mu.Unlock()
}

// trim closes unpinned nodes until the limit is kept. c.mu is held.
func (c *cache) trim() {
	for len(c.open) > c.limit && c.lru.prev != &c.lru {
		c.drop(c.lru.prev)
	}
}

// drop closes n's descriptors. c.mu is held.
func (c *cache) drop(n *node) {
	if n.next != nil {
		n.prev.next, n.next.prev = n.next, n.prev
		n.prev, n.next = nil, nil
	}
	delete(c.open, n)
	for i := range c.width {
		unix.Close(n.fd[i])
		n.fd[i] = -1
	}
}

// pin keeps n open until unpin. If n was closed it is opened again: through
// "..", when one of its subdirectories is at hand and pinned, else from its
// parent by name. Either way the result must be the directory that n was, so a
// directory moved or replaced meanwhile gives ErrMoved and never another one.
func (c *cache) pin(n, child *node) error {
	c.mu.Lock()
	if _, ok := c.open[n]; ok {
		c.hold(n)
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	fd, err := c.openAgain(n, child)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.open[n]; ok { // another worker was faster
		for i := range c.width {
			unix.Close(fd[i])
		}
		c.hold(n)
		return nil
	}
	n.fd = fd
	n.pins = 1
	c.open[n] = struct{}{}
	c.trim()
	return nil
}

// hold pins an open node. c.mu is held.
func (c *cache) hold(n *node) {
	if n.next != nil {
		n.prev.next, n.next.prev = n.next, n.prev
		n.prev, n.next = nil, nil
	}
	n.pins++
}

func (c *cache) unpin(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.pins--
	if n.pins > 0 {
		return
	}
	n.prev, n.next = &c.lru, c.lru.next
	n.prev.next, n.next.prev = n, n
	c.trim()
}

// discard closes n for good, if it is open.
func (c *cache) discard(n *node) {
	c.mu.Lock()
	if _, ok := c.open[n]; ok {
		c.drop(n)
	}
	c.mu.Unlock()
}

// close closes everything that is still open.
func (c *cache) close() {
	c.mu.Lock()
	for n := range c.open {
		c.drop(n)
	}
	c.mu.Unlock()
}

func (c *cache) openAgain(n, child *node) ([2]int, error) {
	if child != nil {
		if fd, err := c.openBoth(child, "..", n); err == nil {
			return fd, nil
		}
	}
	if n.parent == nil {
		return [2]int{-1, -1}, ErrMoved // the top is pinned for good
	}
	if err := c.pin(n.parent, nil); err != nil {
		return [2]int{-1, -1}, err
	}
	defer c.unpin(n.parent)
	return c.openBoth(n.parent, n.name, n)
}

// openBoth opens name from each descriptor of the pinned node from, and takes
// the result only if it is n.
func (c *cache) openBoth(from *node, name string, n *node) ([2]int, error) {
	fd := [2]int{-1, -1}
	for i := range c.width {
		var st unix.Statx_t
		var err error
		fd[i], err = openat(from.fd[i], name, openDirFlags, 0)
		if err == nil {
			err = statAt(fd[i], "", &st)
		}
		if err == nil && identOf(&st) != n.id[i] {
			err = ErrMoved
		}
		if err != nil {
			for _, f := range fd {
				if f >= 0 {
					unix.Close(f)
				}
			}
			if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
				err = ErrMoved
			}
			return [2]int{-1, -1}, err
		}
	}
	return fd, nil
}

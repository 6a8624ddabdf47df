package archive

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxOpenDirs bounds the directories of the unpacked tree that are kept open.
const maxOpenDirs = 64

const openDirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// dirNode is a directory of the archive, named by a member or implied by one.
type dirNode struct {
	parent   *dirNode
	name     string
	depth    int
	children map[string]*dirNode
	// first is the first member at or below the directory as it is spelled.
	first string
	// listed says that a member names the directory itself; then mode, mtime and
	// xattrs are that member's.
	listed bool
	mode   uint32
	mtime  time.Time
	xattrs map[string]string

	fd   int // -1 when closed
	used int64
}

func (d *dirNode) path() string {
	if d.parent == nil {
		return "."
	}
	parts := make([]string, d.depth)
	for n := d; n.parent != nil; n = n.parent {
		parts[n.depth-1] = n.name
	}
	return strings.Join(parts, "/")
}

// openDirs opens directories of the unpacked tree, component by component from
// the nearest one that is open, never through a link: even if someone else could
// reach the tree, no member would be written outside it.
type openDirs struct {
	open  []*dirNode // without the top, which stays open
	clock int64
}

// fd returns d's descriptor, valid until the next call.
func (o *openDirs) fd(d *dirNode) (int, error) {
	o.clock++
	d.used = o.clock
	if d.fd >= 0 {
		return d.fd, nil
	}
	o.trim()
	var chain []*dirNode
	near := d
	for ; near.fd < 0; near = near.parent {
		chain = append(chain, near)
	}
	at, ours := near.fd, false
	for i := len(chain) - 1; i >= 0; i-- {
		fd, err := openat(at, chain[i].name, openDirFlags, 0)
		if ours {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at, ours = fd, true
	}
	d.fd = at
	o.open = append(o.open, d)
	return at, nil
}

// trim closes the half of the directories that was not used for longest.
func (o *openDirs) trim() {
	if len(o.open) < maxOpenDirs {
		return
	}
	slices.SortFunc(o.open, func(a, b *dirNode) int { return cmp.Compare(b.used, a.used) })
	for _, d := range o.open[maxOpenDirs/2:] {
		unix.Close(d.fd)
		d.fd = -1
	}
	o.open = o.open[:maxOpenDirs/2]
}

func (o *openDirs) close() {
	for _, d := range o.open {
		unix.Close(d.fd)
		d.fd = -1
	}
	o.open = nil
}

func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

func openat(dirfd int, name string, flags int, mode uint32) (fd int, err error) {
	err = retry(func() (err error) { fd, err = unix.Openat(dirfd, name, flags, mode); return err })
	return fd, err
}

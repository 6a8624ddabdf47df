package root

import (
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// The slow way: a name is looked up component by component. Each component is
// opened with O_PATH|O_NOFOLLOW relative to the descriptor of the directory before
// it, and links are read and followed here, so that every step is known to lie in
// a root. Descriptors of the directories passed are held, and ".." goes back to
// one of them: a directory that was moved meanwhile cannot make ".." lead outside.
//
// This stops a process that swaps components for links at any moment: what is
// opened is never a link, and a link that was read is followed by these rules. It
// does not stop someone from moving a directory out of a root after it has been
// opened; see the package comment.

const (
	// maxLinks is how many links one lookup follows, as the kernel's (path_resolution(7)).
	maxLinks = 40
	// heldDirs bounds the descriptors that one lookup holds. Those of directories
	// in between are given up and found again by "..", and then compared.
	heldDirs = 48
)

// errEscape ends a lookup that leaves all roots. Whatever is met outside gives
// this same error: existing, missing and forbidden look alike.
var errEscape = errors.New("leads outside")

// errVoidGrant ends a lookup that would have needed a grant that is void.
var errVoidGrant = errors.New("void grant")

// step is an entry that a lookup has passed. The first of a stack is a root.
type step struct {
	fd    int // O_PATH; -1 while given up
	owned bool
	root  int    // the most specific root that the entry lies in
	top   bool   // the entry is that root
	name  string // in the step before
	st    unix.Stat_t
}

// walk is one lookup.
type walk struct {
	t        *Tree
	nofollow bool     // the last component is wanted itself
	todo     string   // components still to look up
	stack    []step   // where the lookup is
	missing  []string // components below it that do not exist
	links    int
}

// spot is where a name has led: to an entry in a directory that lies in a root.
type spot struct {
	root  int    // the most specific root of the entry
	dir   int    // descriptor of the directory; of the root itself if leaf is empty
	leaf  string // the entry's name there; empty if it is a root
	found bool
	st    unix.Stat_t // of the entry, if found
	// parents are missing directories between dir and leaf; then found is false.
	parents []string

	fd   int    // O_PATH descriptor of the entry, or -1
	host string // host path, if the slow way was taken
	held []int  // to be closed
}

func (s *spot) close() {
	for _, fd := range s.held {
		closeFD(fd)
	}
	s.held = nil
}

// closeEntry closes the descriptor of the entry itself, if the lookup opened it.
func (s *spot) closeEntry() {
	if i := slices.Index(s.held, s.fd); i >= 0 && s.fd != s.dir {
		closeFD(s.fd)
		s.held, s.fd = slices.Delete(s.held, i, i+1), -1
	}
}

// isDir reports whether the spot is an existing directory.
func (s *spot) isDir() bool { return s.found && s.st.Mode&unix.S_IFMT == unix.S_IFDIR }

// locate looks a name up the slow way. The caller closes the spot. Errors are of
// the kernel, errEscape or errVoidGrant; a missing entry is none.
func (t *Tree) locate(pl place, nofollow bool) (*spot, error) {
	w := &walk{t: t, nofollow: nofollow}
	defer w.leave(0)
	var err error
	if pl.root < 0 {
		err = w.jump(pl.rest)
	} else {
		err = w.enter(pl.root, pl.rest)
	}
	for err == nil && w.todo != "" {
		var comp string
		comp, w.todo, _ = strings.Cut(w.todo, "/")
		switch comp {
		case "":
		case ".":
			if len(w.missing) == 0 && w.top().st.Mode&unix.S_IFMT != unix.S_IFDIR {
				err = unix.ENOTDIR
			}
		case "..":
			err = w.up()
		default:
			err = w.down(comp)
		}
	}
	if err == errEscape && t.void() != nil {
		err = errVoidGrant
	}
	if err != nil {
		return nil, err
	}
	return w.spot(), nil
}

// top returns the last step.
func (w *walk) top() *step { return &w.stack[len(w.stack)-1] }

// leave closes the steps from n on.
func (w *walk) leave(n int) {
	for _, s := range w.stack[n:] {
		if s.owned {
			closeFD(s.fd)
		}
	}
	w.stack = w.stack[:n]
}

// enter goes to a root.
func (w *walk) enter(root int, todo string) error {
	r := &w.t.roots[root]
	switch {
	case r.Void:
		return errVoidGrant
	case !r.usable():
		return unix.ENOENT
	}
	w.leave(0)
	w.missing = nil
	w.stack = append(w.stack, step{fd: r.fd, root: root, top: true, st: r.st})
	if w.todo = todo; todo == "." {
		w.todo = ""
	}
	return nil
}

// up goes to the parent of where the lookup is.
func (w *walk) up() error {
	if n := len(w.missing); n > 0 {
		w.missing = w.missing[:n-1]
		return nil
	}
	if w.top().st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	if len(w.stack) == 1 {
		return w.jump(path.Dir(w.t.roots[w.top().root].Canonical) + "/" + w.todo)
	}
	parent := &w.stack[len(w.stack)-2]
	if parent.fd < 0 {
		fd, err := openat(w.top().fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := fstat(fd, &st); err != nil || identOf(&st) != identOf(&parent.st) {
			closeFD(fd)
			return errors.Join(err, errAgain) // moved elsewhere, perhaps outside
		}
		parent.fd = fd
	}
	w.leave(len(w.stack) - 1)
	return nil
}

// last reports whether no component is left to look up.
func (w *walk) last() bool { return strings.Trim(w.todo, "/") == "" }

// down goes to an entry of the directory where the lookup is.
func (w *walk) down(comp string) error {
	if len(w.missing) > 0 {
		w.missing = append(w.missing, comp)
		return nil
	}
	dir := w.top()
	if dir.st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	fd, err := openat(dir.fd, comp, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err == unix.ENOENT {
		w.missing = append(w.missing, comp)
		return nil
	}
	if err != nil {
		return err
	}
	s := step{fd: fd, owned: true, root: dir.root, name: comp}
	if err := fstat(fd, &s.st); err != nil {
		closeFD(fd)
		return err
	}
	if s.st.Mode&unix.S_IFMT == unix.S_IFLNK && !(w.nofollow && w.last()) {
		defer closeFD(fd)
		return w.follow(fd, &dir.st, &s.st)
	}
	if r := w.t.rootAt(identOf(&s.st)); r >= 0 && w.isRoot(r, &s) {
		s.root, s.top = r, true
	}
	w.stack = append(w.stack, s)
	if n := len(w.stack) - heldDirs; n > 0 && w.stack[n].owned {
		closeFD(w.stack[n].fd)
		w.stack[n].fd = -1
	}
	return nil
}

// isRoot reports whether a step with the identity of the root r counts as that
// root. A hard link to a granted file has its content, which the grant's rules
// cover; but as an entry it is only another name, which may be removed.
func (w *walk) isRoot(r int, s *step) bool {
	return s.st.Mode&unix.S_IFMT == unix.S_IFDIR || !(w.nofollow && w.last()) ||
		w.host()+"/"+s.name == w.t.roots[r].Canonical
}

// follow puts a link's target in front of what is to be looked up.
func (w *walk) follow(link int, dir, st *unix.Stat_t) error {
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	if w.t.protectedLinks && dir.Mode&(unix.S_ISVTX|unix.S_IWOTH) == unix.S_ISVTX|unix.S_IWOTH &&
		dir.Uid != st.Uid && int(st.Uid) != fsuid() {
		return unix.EACCES // proc_sys_fs(5), protected_symlinks: links planted in /tmp
	}
	target, err := readlinkat(link, "")
	if err != nil {
		return err
	}
	if target == "" {
		return unix.ENOENT
	}
	switch {
	case w.todo != "":
		target += "/" + w.todo
	case strings.HasSuffix(target, "/"): // then it must be a directory
		target += "."
	}
	if strings.HasPrefix(target, "/") {
		return w.jump(target)
	}
	w.todo = target
	return nil
}

// jump goes on at an absolute path. Where it begins with a spelling of a root, the
// lookup continues from that root's own descriptor. ".." outside of all roots is
// taken by its text, so that no directory there is opened only to be left again:
// else links could be made to ask which directories exist on the host.
func (w *walk) jump(p string) error {
	directory := strings.HasSuffix(p, "/.")
	p = squeeze(p)
	if directory {
		p += "/."
	}
	if rest, ok := strings.CutPrefix(p, "//"); ok { // a link's target; the kernel knows no "//"
		p = "/" + rest
	}
	root, todo := -1, ""
	var outside []string
	for rest := strings.TrimPrefix(p, "/"); ; {
		at := "/" + strings.Join(outside, "/")
		if r := w.t.spelled(at); r >= 0 {
			root, todo = r, rest
		}
		comp, after, _ := strings.Cut(rest, "/")
		if comp == "" || comp == ".." && root >= 0 {
			break
		}
		rest = after
		if comp != ".." {
			outside = append(outside, comp)
		} else if n := len(outside); n > 0 {
			outside = outside[:n-1]
		}
	}
	if root >= 0 {
		return w.enter(root, todo)
	}
	return w.alias(outside)
}

// spelled returns the root that has the spelling p, or -1.
func (t *Tree) spelled(p string) int {
	for i := range t.names.roots {
		for _, s := range t.names.roots[i].spellings {
			if s == p {
				return i
			}
		}
	}
	return -1
}

// alias follows an absolute path outside of all roots, which may lead into one by
// links that nobody configured, or by another mount of a root. The path itself is
// only passed; it must end in a root.
func (w *walk) alias(comps []string) error {
	dir, err := openat(unix.AT_FDCWD, "/", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer func() { closeFD(dir) }()
	for i, comp := range comps {
		rest := strings.Join(comps[i+1:], "/")
		fd, err := openat(dir, comp, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err != nil {
			return errEscape
		}
		closeFD(dir)
		dir = fd
		var st unix.Stat_t
		if err := fstat(fd, &st); err != nil {
			return err
		}
		if w.nofollow && rest == "" {
			return errEscape // the entry itself does not lie in a root
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			target, err := readlinkat(fd, "")
			if w.links++; err != nil || w.links > maxLinks {
				return errEscape
			}
			if !strings.HasPrefix(target, "/") {
				target = "/" + strings.Join(comps[:i], "/") + "/" + target
			}
			return w.jump(target + "/" + rest)
		case unix.S_IFDIR:
			if r := w.t.rootAt(identOf(&st)); r >= 0 {
				return w.enter(r, rest)
			}
		default:
			return errEscape
		}
	}
	return errEscape
}

// spot makes the result of a lookup and takes over the descriptors it needs.
func (w *walk) spot() *spot {
	top := w.top()
	s := &spot{root: top.root, dir: top.fd, fd: -1, host: w.host()}
	take := func(st *step) {
		if st.owned {
			s.held = append(s.held, st.fd)
			st.owned = false
		}
	}
	take(top)
	switch n := len(w.missing); {
	case n > 0:
		s.parents, s.leaf = w.missing[:n-1], w.missing[n-1]
	case top.top:
		s.found, s.st, s.fd = true, top.st, top.fd
	default:
		parent := &w.stack[len(w.stack)-2]
		take(parent)
		s.dir, s.leaf, s.found, s.st, s.fd = parent.fd, top.name, true, top.st, top.fd
	}
	return s
}

// host returns the host path of where the lookup is.
func (w *walk) host() string {
	first := 0
	for i := range w.stack {
		if w.stack[i].top {
			first = i
		}
	}
	parts := []string{w.t.roots[w.stack[first].root].Canonical}
	for _, s := range w.stack[first+1:] {
		parts = append(parts, s.name)
	}
	return path.Join(append(parts, w.missing...)...)
}

// fsuid returns the user id by which the kernel judges file access of this thread.
func fsuid() int {
	id, _ := unix.SetfsuidRetUid(-1) // setfsuid(2): an invalid id changes nothing
	return id
}

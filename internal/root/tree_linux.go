package root

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
)

// Tree is an open workspace with its grants. It is safe for use by several
// goroutines at the same time.
type Tree struct {
	names *Names
	roots []rootDir // the workspace, then the grants; fixed by openTree
	inner []int     // the roots that lie below another one
	owner *Owner
	stage int // descriptor of Options.Stage, or -1
	// protectedLinks is the kernel's fs.protected_symlinks, which the slow way has
	// to apply by itself.
	protectedLinks bool
	slowOnly       bool // for tests: do without openat2

	retried atomic.Int64 // lookups and changes repeated because of a swap

	// open is held for reading by every operation, so that Close waits for them.
	open   sync.RWMutex
	closed bool
}

// rootDir is an open root.
type rootDir struct {
	GrantRoot          // of the workspace: only Canonical
	file      *os.File // nil if missing or void
	fd        int      // file's descriptor, or -1
	id        ident    // what fd is
	nested    bool     // another root lies below: its entries must be compared
	st        unix.Stat_t
}

// usable reports whether the root can be entered.
func (r *rootDir) usable() bool { return r.fd >= 0 }

func openTree(opts Options) (*Tree, error) {
	names, err := NewNames(opts.Path, opts.Spellings, opts.Grants)
	if err != nil {
		return nil, err
	}
	t := &Tree{names: names, owner: opts.Owner, stage: -1, protectedLinks: protectedSymlinks()}
	workspace, err := openRoot(names.roots[0].spellings[0], unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.EACCES) { // may be searched though not listed
		workspace, err = openRoot(names.roots[0].spellings[0], unix.O_PATH|unix.O_DIRECTORY)
	}
	if err != nil {
		return nil, rootError(err)
	}
	t.roots = append(t.roots, workspace)
	for _, g := range opts.Grants {
		r, err := openGrant(g)
		if err != nil {
			return nil, errors.Join(err, t.closeRoots())
		}
		t.roots = append(t.roots, r)
	}
	if opts.Stage != nil {
		if t.stage, err = unix.FcntlInt(opts.Stage.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
			t.stage = -1
			return nil, errors.Join(rootError(err), t.closeRoots())
		}
	}
	t.settleNames(opts.Spellings)
	t.markNested()
	return t, nil
}

func rootError(err error) error {
	e := &fault.Error{Code: fault.WorkspaceRootNotFound, Retry: fault.RetryNo, Err: err,
		Message: "the workspace directory cannot be opened"}
	switch {
	case errors.Is(err, unix.ENOENT):
		e.Reason, e.Message = "missing", "the workspace directory does not exist"
	case errors.Is(err, unix.ENOTDIR):
		e.Reason, e.Message = "not_directory", "the workspace is not a directory"
	}
	return e
}

// openRoot opens a configured path. The configuration is trusted, so that links
// in it are followed like anywhere.
func openRoot(p string, flags int) (rootDir, error) {
	fd, err := openat(unix.AT_FDCWD, p, flags, 0)
	if err != nil {
		return rootDir{}, err
	}
	r := rootDir{fd: fd}
	if err = fstat(fd, &r.st); err == nil {
		r.id = identOf(&r.st)
		r.Canonical, err = canonical(fd, p, r.id)
	}
	if err != nil {
		closeFD(fd)
		return rootDir{}, err
	}
	r.file = os.NewFile(uintptr(fd), r.Canonical)
	return r, nil
}

// canonical returns the path without links of an open file: the kernel's, or
// without /proc one found by looking p up again.
func canonical(fd int, p string, id ident) (string, error) {
	is := func(p string) bool {
		var st unix.Stat_t
		return path.IsAbs(p) && unix.Lstat(p, &st) == nil && identOf(&st) == id
	}
	if p, err := os.Readlink(fdPath(fd)); err == nil && is(p) {
		return p, nil
	}
	found, err := filepath.EvalSymlinks(p) //nolint:forbidigo // a configured path, and the result is compared with what is open
	if err == nil && !is(found) {
		err = errSwapped
	}
	return found, err
}

func openGrant(g Grant) (rootDir, error) {
	g, err := ParseGrant(g)
	if err != nil {
		return rootDir{}, err
	}
	if g.HostPath != "" {
		return rootDir{}, &fault.Error{Code: fault.Unsupported, Reason: "host_path", Retry: fault.RetryNo,
			Message: "a grant with a host path of its own is not supported yet", Details: map[string]any{"grant_path": g.Path}}
	}
	r, err := openRoot(g.Path, unix.O_PATH)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
		return rootDir{GrantRoot: GrantRoot{Grant: g, Missing: true}, fd: -1}, nil
	case err != nil:
		return rootDir{}, &fault.Error{Code: fault.InvalidArgument, Reason: "grant_not_opened", Retry: fault.RetryUnknown,
			Message: "a granted path cannot be opened", Details: map[string]any{"grant_path": g.Path}, Err: err}
	}
	r.Grant = g
	r.File = r.st.Mode&unix.S_IFMT != unix.S_IFDIR
	if r.Canonical == "/" {
		return rootDir{GrantRoot: GrantRoot{Grant: g, Void: true}, fd: -1}, r.file.Close()
	}
	return r, nil
}

// settleNames corrects the lexical rules by what was found: the canonical paths are
// spellings too, and the cleaned form of a spelling counts only if it leads to the
// same directory, since "a/../b" need not be "b".
func (t *Tree) settleNames(further []string) {
	for i := range t.roots {
		r, n := &t.roots[i], &t.names.roots[i]
		var keep []string
		for j, s := range n.spellings {
			var st unix.Stat_t
			if j == 0 || unix.Stat(s, &st) == nil && identOf(&st) == r.id {
				keep = append(keep, s)
			}
		}
		if i == 0 {
			for _, s := range further {
				keep = append(keep, posix(s), path.Clean(posix(s)))
			}
		}
		if r.Canonical != "" {
			keep = append(keep, r.Canonical)
			n.base = r.Canonical
		}
		n.spellings = keep
	}
}

// markNested finds the roots that have others below them. That is done once: a
// grant's directory can be moved by nobody but who may change the grant, and not by
// [Tree.Rename].
func (t *Tree) markNested() {
	for i := range t.roots {
		for j := range t.roots {
			if a, b := &t.roots[i], &t.roots[j]; a.usable() && b.usable() && a.id != b.id {
				if _, ok := below(a.Canonical, b.Canonical); ok {
					a.nested = true
					t.inner = append(t.inner, j)
				}
			}
		}
	}
}

func protectedSymlinks() bool {
	fd, err := openat(unix.AT_FDCWD, "/proc/sys/fs/protected_symlinks", unix.O_RDONLY, 0)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	var text [1]byte
	n, err := pread(fd, text[:], 0)
	return err == nil && n == 1 && text[0] == '1'
}

func (t *Tree) close() error {
	t.open.Lock()
	defer t.open.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	return t.closeRoots()
}

func (t *Tree) closeRoots() error {
	var errs []error
	for i := range t.roots {
		if f := t.roots[i].file; f != nil {
			errs = append(errs, f.Close())
		}
	}
	if t.stage >= 0 {
		closeFD(t.stage)
		t.stage = -1
	}
	return errors.Join(errs...)
}

func (t *Tree) dir() *os.File   { return t.roots[0].file }
func (t *Tree) path() string    { return t.roots[0].Canonical }
func (t *Tree) lexical() *Names { return t.names }

func (t *Tree) grantRoots() []GrantRoot {
	var all []GrantRoot
	for i := range t.roots[1:] {
		g := t.roots[i+1].GrantRoot
		g.Dir = t.roots[i+1].file
		all = append(all, g)
	}
	return all
}

// rootAt returns the root that is the directory or file id, or -1. Of two grants
// of one place the first counts, and the workspace before both.
func (t *Tree) rootAt(id ident) int {
	for i := range t.roots {
		if t.roots[i].usable() && t.roots[i].id == id {
			return i
		}
	}
	return -1
}

// void returns the first grant that leads to the file system's root, or nil.
func (t *Tree) void() *rootDir {
	for i := range t.roots {
		if t.roots[i].Void {
			return &t.roots[i]
		}
	}
	return nil
}

// display returns a host path as errors show it: relative to the workspace if it
// lies there.
func (t *Tree) display(p string) string {
	if rest, ok := below(t.roots[0].Canonical, p); ok {
		return rest
	}
	return p
}

package archive

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// maxMergeDepth bounds the descriptors of a merge.
const maxMergeDepth = 256

func (u *Unpacked) merge(ctx context.Context, staging, dst *os.File) error {
	m := &merger{ctx: ctx}
	var err error
	if m.root, err = reopen(dst); err != nil {
		return m.fault(err)
	}
	defer unix.Close(m.root)
	src, err := reopen(staging)
	if err != nil {
		return m.fault(err)
	}
	defer unix.Close(src)
	if err := m.dir(u.top, src, m.root); err != nil {
		return m.fault(err)
	}
	m.move = true
	if err := m.dir(u.top, src, m.root); err != nil {
		return m.fault(err)
	}
	return nil
}

// merger goes through the two trees side by side: once to check, once to move.
type merger struct {
	ctx  context.Context
	root int
	move bool
}

func (m *merger) fault(err error) error {
	u := unpacker{}
	if !isMemberError(err) {
		err = &memberError{err: err}
	}
	return u.fault(m.ctx, err)
}

// dir joins the entries of src, which is d, to dst.
func (m *merger) dir(d *dirNode, src, dst int) error {
	if d.depth > maxMergeDepth {
		return &memberError{member: d.first, reason: "existing directories too deep", limit: maxMergeDepth, actual: int64(d.depth)}
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}
	names, err := entryNames(src)
	if err != nil {
		return &memberError{member: d.first, err: err}
	}
	for _, name := range names {
		if c := d.children[name]; c != nil {
			err = m.subdir(c, src, dst)
		} else {
			err = m.leaf(d, name, src, dst)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leaf is a file or link of the archive.
func (m *merger) leaf(d *dirNode, name string, src, dst int) error {
	rel := name
	if d.parent != nil {
		rel = d.path() + "/" + name
	}
	if m.move {
		return m.rename(rel, name, src, dst)
	}
	kind, err := kindAt(dst, name)
	if err != nil && err != unix.ENOENT {
		return &memberError{member: rel, err: err}
	}
	if kind == unix.S_IFDIR {
		return refuse(rel, refusal("destination directory already exists: "+rel))
	}
	return nil
}

func (m *merger) rename(rel, name string, src, dst int) error {
	if err := retry(func() error { return unix.Renameat(src, name, dst, name) }); err != nil {
		return &memberError{member: rel, err: err}
	}
	return nil
}

// subdir is a directory of the archive.
func (m *merger) subdir(c *dirNode, src, dst int) error {
	kind, err := kindAt(dst, c.name)
	switch {
	case err == unix.ENOENT:
		if m.move {
			return m.rename(c.path(), c.name, src, dst)
		}
		return nil
	case err != nil:
		return &memberError{member: c.first, err: err}
	case kind == unix.S_IFDIR:
		return m.both(c, src, dst)
	case !c.listed:
		return refuse(c.first, m.wrongParent(c, kind))
	case m.move:
		// The archive lists the directory: it replaces the file or link itself.
		if err := unix.Unlinkat(dst, c.name, 0); err != nil {
			return &memberError{member: c.first, err: err}
		}
		return m.rename(c.path(), c.name, src, dst)
	}
	return nil
}

// both joins two directories of one name, each opened below its own parent and
// not through a link.
func (m *merger) both(c *dirNode, src, dst int) error {
	s, err := openat(src, c.name, openDirFlags, 0)
	if err != nil {
		return &memberError{member: c.first, err: err}
	}
	defer unix.Close(s)
	d, err := openat(dst, c.name, openDirFlags, 0)
	if err != nil {
		return &memberError{member: c.first, err: err}
	}
	defer unix.Close(d)
	return m.dir(c, s, d)
}

// wrongParent says why what stands at a parent's name cannot hold a member.
func (m *merger) wrongParent(c *dirNode, kind uint32) refusal {
	if kind != unix.S_IFLNK {
		return "parent is not a directory"
	}
	// Only the words of the error depend on where the link leads.
	fd, err := unix.Openat2(m.root, c.path(), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err == nil {
		unix.Close(fd)
	}
	if err == unix.EXDEV {
		return "path escapes root after resolution"
	}
	return "symlink in parent path"
}

func kindAt(dirfd int, name string) (uint32, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return st.Mode & unix.S_IFMT, err
}

func entryNames(fd int) ([]string, error) {
	dup, err := openat(fd, ".", openDirFlags, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup), ".")
	defer f.Close()
	return f.Readdirnames(-1)
}

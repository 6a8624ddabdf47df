package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/tree"
)

func unpack(ctx context.Context, r io.Reader, dir *os.File, opts UnpackOptions) (*Unpacked, error) {
	if err := opts.Limits.Check(); err != nil {
		return nil, err
	}
	u := &unpacker{opts: opts, out: &Unpacked{}}
	u.in = &input{ctx: ctx, r: r, limit: opts.Limits.InputBytes}
	err := onThread(opts.Thread, func() error {
		fd, err := reopen(dir)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		u.top = &dirNode{fd: fd, listed: true, first: "."}
		defer u.dirs.close()
		return u.run(ctx)
	})
	if err != nil {
		return nil, u.fault(ctx, err)
	}
	u.out.top = u.top
	return u.out, nil
}

// unpacker is the state of one Unpack.
type unpacker struct {
	opts UnpackOptions
	in   *input
	out  *Unpacked

	top     *dirNode
	dirs    openDirs
	buf     []byte
	members int64
	bytes   int64
	done    tree.Progress
}

func (u *unpacker) fault(ctx context.Context, err error) error {
	fe := &fault.Error{
		Code: fault.WorkspaceArchiveWriteError, Op: "hydrate", Retry: fault.RetryNo,
		Message: "the archive could not be unpacked", Err: err,
	}
	if ctx.Err() != nil {
		fe.Reason, fe.Message, fe.Retry, fe.Err = "cancelled", "unpacking the archive was cancelled", fault.RetryYes, ctx.Err()
		return fe
	}
	me, ok := errors.AsType[*memberError](err)
	if !ok {
		fe.Reason = "not a readable tar archive"
		return fe
	}
	fe.Reason, fe.Err = string(me.reason), me.err
	fe.Details = map[string]any{}
	fe.Message = "the archive is refused"
	if me.member != "" {
		fe.Details["member"] = me.member
		fe.Message = "the archive is refused at its member " + quote(me.member)
	}
	if me.reason != "" {
		fe.Message += ": " + string(me.reason)
	}
	if me.limit != 0 {
		fe.Details["limit"], fe.Details["actual"] = me.limit, me.actual
	}
	return fe
}

func (u *unpacker) run(ctx context.Context) error {
	src := bufio.NewReaderSize(u.in, 256<<10)
	magic, err := src.Peek(2)
	if len(magic) == 0 {
		if err == nil || err == io.EOF {
			return refuse("", "empty input")
		}
		return err
	}
	var r io.Reader = src
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if r, err = gzip.NewReader(src); err != nil {
			return err
		}
	}
	tail := &trailer{r: r}
	tr := tar.NewReader(tail)
	u.buf = make([]byte, 256<<10)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return u.in.or(err)
		}
		if err := u.member(ctx, tr, h); err != nil {
			return u.in.or(err)
		}
		u.progress(1, 0)
	}
	// Tars that lack their end marker exist, but Pack does not write such, and one
	// without any member is none.
	if tail.short && (u.out.Marked || u.done.Entries == 0) {
		return refuse("", "archive is cut off")
	}
	// What follows the end is padding; reading it also checks a gzip sum.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return u.in.or(err)
	}
	return u.finishDirs(u.top, u.top.fd, 0)
}

func (u *unpacker) progress(entries, size int64) {
	u.done.Entries += entries
	u.done.Bytes += size
	if u.opts.Progress != nil && (size > 0 || u.done.Entries%64 == 0) {
		u.opts.Progress(u.done)
	}
}

// member treats one member of the archive.
func (u *unpacker) member(ctx context.Context, r io.Reader, h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	parts, reason := components(h.Name)
	if reason != "" {
		return refuse(h.Name, reason)
	}
	if len(parts) == 0 {
		return u.root(h)
	}
	if err := u.count(h, len(parts)); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		return u.dir(parts, h)
	}
	parent, err := u.parents(parts[:len(parts)-1], h.Name)
	if err != nil {
		return err
	}
	name := parts[len(parts)-1]
	if d := parent.children[name]; d != nil {
		if d.listed {
			return refuse(h.Name, refusal("duplicate archive path: "+d.path()))
		}
		return refuse(d.first, descends(h.Typeflag == tar.TypeSymlink, d.path()))
	}
	at, err := u.dirs.fd(parent)
	if err != nil {
		return &memberError{member: h.Name, err: err}
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse, '\x00':
		err = u.file(ctx, r, at, name, h)
	case tar.TypeSymlink:
		err = u.symlink(at, parts, h)
	case tar.TypeLink:
		err = u.hardlink(at, name, h)
	default:
		return refuse(h.Name, "unsupported member type")
	}
	if err == unix.EEXIST {
		return refuse(h.Name, refusal("duplicate archive path: "+joinParts(parts)))
	}
	if err != nil && !isMemberError(err) {
		err = &memberError{member: h.Name, err: err}
	}
	return err
}

func descends(symlink bool, rel string) refusal {
	if symlink {
		return refusal("archive path descends through symlink: " + rel)
	}
	return refusal("archive path descends through non-directory: " + rel)
}

// root judges a member that stands for the workspace itself.
func (u *unpacker) root(h *tar.Header) error {
	switch h.Typeflag {
	case tar.TypeDir:
		if h.PAXRecords[markKey] == markValue && u.members == 0 {
			u.out.Marked = true
		}
		return nil
	case tar.TypeSymlink:
		return refuse(h.Name, "archive root symlink")
	default:
		return refuse(h.Name, "archive root member must be directory")
	}
}

// count checks the limits before anything of the member is written.
func (u *unpacker) count(h *tar.Header, depth int) error {
	l := u.opts.Limits
	u.members++
	u.bytes += h.Size
	switch {
	case l.Members > 0 && u.members > l.Members:
		return &memberError{member: h.Name, reason: "archive member count exceeds limit", limit: l.Members, actual: u.members}
	case l.ExtractedBytes > 0 && u.bytes > l.ExtractedBytes || u.bytes < 0:
		return &memberError{member: h.Name, reason: "archive extracted size exceeds limit", limit: l.ExtractedBytes, actual: u.bytes}
	case l.Depth > 0 && depth > l.Depth:
		return &memberError{member: h.Name, reason: "archive path depth exceeds limit", limit: int64(l.Depth), actual: int64(depth)}
	}
	return nil
}

// parents finds the directory at parts and makes what is missing of it.
func (u *unpacker) parents(parts []string, member string) (*dirNode, error) {
	d := u.top
	for _, name := range parts {
		next := d.children[name]
		if next == nil {
			var err error
			if next, err = u.makeDir(d, name, member); err != nil {
				return nil, err
			}
		}
		d = next
	}
	return d, nil
}

// makeDir makes a directory, private until the end. If the name is taken it is
// taken by a file or link of this archive, for nobody else writes here.
func (u *unpacker) makeDir(d *dirNode, name, member string) (*dirNode, error) {
	at, err := u.dirs.fd(d)
	if err == nil {
		err = retry(func() error { return unix.Mkdirat(at, name, 0o700) })
	}
	n := &dirNode{parent: d, name: name, depth: d.depth + 1, first: member, fd: -1}
	if err == unix.EEXIST {
		var st unix.Stat_t
		err = unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil {
			return nil, refuse(member, descends(st.Mode&unix.S_IFMT == unix.S_IFLNK, n.path()))
		}
	}
	if err != nil {
		return nil, &memberError{member: member, err: err}
	}
	if d.children == nil {
		d.children = map[string]*dirNode{}
	}
	d.children[name] = n
	u.out.Dirs++
	return n, nil
}

// dir notes a directory's mode and times; they are set when it is complete.
func (u *unpacker) dir(parts []string, h *tar.Header) error {
	parent, err := u.parents(parts[:len(parts)-1], h.Name)
	if err != nil {
		return err
	}
	name := parts[len(parts)-1]
	d := parent.children[name]
	if d == nil {
		d, err = u.makeDir(parent, name, h.Name)
		if me, ok := errors.AsType[*memberError](err); ok && me.err == nil {
			// The name itself is taken, which is another fault than a parent's.
			return refuse(h.Name, refusal("duplicate archive path: "+joinParts(parts)))
		}
		if err != nil {
			return err
		}
	}
	d.listed, d.mtime, d.xattrs = true, h.ModTime, h.PAXRecords
	d.mode = restoredDirMode(uint32(h.Mode))
	if u.out.Marked {
		d.mode = uint32(h.Mode) & 0o1777
	}
	return nil
}

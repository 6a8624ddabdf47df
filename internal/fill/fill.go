// Package fill makes a workspace hold what its manifest says.
//
//	report, err := fill.Apply(ctx, t, m, fill.Options{Base: "/home/me/app"})
//
// What can be refused without looking at the workspace is refused before anything
// is written: entries that croft cannot make yet, accounts, unknown groups, host
// sources that lie outside the allowed directories, are missing or are links.
// Then directories are made, copies of host directories below them, and last the
// single files, several at a time: of two entries that overlap the more specific
// one wins, whatever their order. What exists already is kept or overwritten.
//
// A host source is opened from its allowed directory component by component and
// never through a link, and what is copied is what was opened: a link put in a
// source's place leads to an error and not to another file of the host.
package fill

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/root"
	"github.com/croftdev/croft/internal/tree"
	"github.com/croftdev/croft/manifest"
)

// DefaultWorkers is the number of entries made at the same time, unless
// [Options.Workers] says otherwise.
const DefaultWorkers = 4

// Options say how a manifest is applied. The zero value reads nothing of the host.
type Options struct {
	// Base is the absolute host directory that relative sources are relative to,
	// and below which sources may lie. Empty means that there is none.
	Base string
	// Sources are further absolute host paths at or below which sources may lie:
	// grants, from the trusted side only.
	Sources []string
	// OnlyEphemeral makes only the ephemeral entries, each with all that is below it.
	OnlyEphemeral bool
	// Owner, if not nil, gets what is copied from host directories; it is for
	// croft as root, with the same value as [root.Options.Owner].
	Owner *root.Owner
	// Workers bounds the entries made, and the directories copied, at the same time.
	Workers int
	// Progress, if not nil, is told from time to time how far the call is. Calls do
	// not overlap.
	Progress func(tree.Progress)
}

// File is a file that was written.
type File struct {
	// Path is relative to the workspace.
	Path string
	// SHA256 is the digest of the content in hexadecimal.
	SHA256 string
	Size   int64
	// Local says that the content came from the host and not from the manifest.
	Local bool
}

// Report says what Apply has written.
type Report struct {
	// Files are the files written, sorted by path.
	Files []File
	// Left names what was left out of copied directories (sockets, fifos, devices,
	// mount points), relative to the workspace; at most tree.MaxNamed of each copy.
	Left []tree.Left
}

// Apply materialises m in the workspace t and returns when nothing of it runs any
// more, also when ctx is cancelled. What an error leaves half done stays.
//
// Errors are of type [*fault.Error]: sources are local_file_read_error or
// local_dir_read_error with the reason outside_base_dir, path_not_found,
// symlink_not_supported, path_changed_during_copy, not_allowed or read_failed;
// what croft cannot do yet is mount_config_invalid, unsupported or
// invalid_argument; the rest comes from the workspace.
func Apply(ctx context.Context, t *root.Tree, m *manifest.Manifest, opts Options) (Report, error) {
	a := &applier{t: t, opts: opts}
	a.total.report = opts.Progress
	if err := a.check(m); err != nil {
		return Report{}, err
	}
	err := a.measure(ctx)
	if err == nil {
		err = a.run(ctx)
	}
	a.total.final()
	a.report.Files = lastWritten(a.report.Files)
	return a.report, err
}

// lastWritten sorts files, which are in the order of their writing, by path and
// keeps of two that were written to one path the later.
func lastWritten(files []File) []File {
	slices.Reverse(files)
	slices.SortStableFunc(files, func(x, y File) int { return cmp.Compare(x.Path, y.Path) })
	return slices.CompactFunc(files, func(x, y File) bool { return x.Path == y.Path })
}

// job is one entry to make.
type job struct {
	name  string
	entry manifest.Entry
	perm  fs.FileMode
	gid   int // -1 without a group
	src   *source
	size  int64 // of a host file when it was first opened
}

// applier is the state of one Apply.
type applier struct {
	t    *root.Tree
	opts Options

	dirs   []job // directories and copies of host directories, in written order
	copies []job // of dirs those with a source, the shallow ones first
	files  []job
	total  progress

	mu     sync.Mutex
	report Report
}

// measure finds out how much there is to copy, if somebody wants to know. Host
// directories may change afterwards: the sum is for a progress bar only.
func (a *applier) measure(ctx context.Context) error {
	if a.opts.Progress == nil {
		return nil
	}
	for _, j := range a.files {
		if f, ok := j.entry.(*manifest.File); ok {
			a.total.expect(int64(len(f.Content)))
		} else {
			a.total.expect(j.size)
		}
	}
	for _, j := range a.copies {
		src, err := j.src.openDir()
		if err != nil {
			return j.src.fault(j.name, "", err)
		}
		err = tree.Walk(ctx, src, tree.Options{Workers: a.opts.Workers}, func(e *tree.Entry) error {
			if e.Kind == tree.File {
				a.total.expect(e.Size)
			}
			return nil
		})
		_ = src.Close()
		if ctx.Err() != nil {
			return a.canceled(ctx.Err())
		}
		if err != nil {
			return j.src.fault(j.name, "", err)
		}
	}
	return nil
}

// run makes the entries that check has sorted.
func (a *applier) run(ctx context.Context) error {
	for _, j := range a.dirs {
		if err := a.makeDir(ctx, j); err != nil {
			return err
		}
	}
	for _, j := range a.copies {
		if err := a.copyDir(ctx, j); err != nil {
			return err
		}
	}
	workers := a.opts.Workers
	if workers <= 0 {
		workers = DefaultWorkers
	}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, j := range a.files {
		if inner.Err() != nil {
			break
		}
		group.Go(func() error { return a.makeFile(inner, j) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return a.canceled(err)
	}
	// Last, so that a directory its owner cannot write in could still be filled,
	// and from the end, so that no parent is closed before what is in it.
	for _, j := range slices.Backward(a.dirs) {
		if j.name == "." {
			continue // the workspace's own mode is not the manifest's business
		}
		if err := a.t.Chmod(ctx, a.abs(j.name), j.perm, nil); err != nil {
			return a.workspace(j.name, err)
		}
	}
	return nil
}

// abs returns the name as the workspace is asked for it. The absolute form makes a
// name that leaves the workspace by a link the fault "absolute" (case MF-158).
func (a *applier) abs(name string) string { return path.Join(a.t.Path(), name) }

func (a *applier) makeDir(ctx context.Context, j job) error {
	if j.name == "." {
		return a.group(ctx, j)
	}
	// Its own mode comes at the end; until then the owner can use it.
	mode := j.perm | 0o700
	if err := a.t.Mkdir(ctx, a.abs(j.name), root.MkdirOptions{Parents: true, Mode: &mode}); err != nil {
		return a.workspace(j.name, err)
	}
	a.total.add(1, 0)
	return a.group(ctx, j)
}

// group gives a directory to its group.
func (a *applier) group(ctx context.Context, j job) error {
	if j.gid < 0 {
		return nil
	}
	d, err := a.t.OpenDir(ctx, a.abs(j.name), nil)
	if err != nil {
		return a.workspace(j.name, err)
	}
	defer d.Close()
	if err := d.Chown(-1, j.gid); err != nil {
		return groupFault(j.name, j.entry, err)
	}
	return nil
}

func (a *applier) note(files ...File) {
	a.mu.Lock()
	a.report.Files = append(a.report.Files, files...)
	a.mu.Unlock()
}

// copyDir copies a host directory into the one that makeDir made.
func (a *applier) copyDir(ctx context.Context, j job) error {
	src, err := j.src.openDir()
	if err != nil {
		return j.src.fault(j.name, "", err)
	}
	defer src.Close()
	dst, err := a.t.OpenDir(ctx, a.abs(j.name), nil)
	if err != nil {
		return a.workspace(j.name, err)
	}
	defer dst.Close()
	refuse := j.entry.(*manifest.LocalDir).Symlinks != manifest.KeepSymlinks
	if refuse {
		if err := a.noLinks(ctx, j, src); err != nil {
			return err
		}
	}
	before := a.total.value()
	stats, err := tree.Copy(ctx, src, dst, tree.CopyOptions{
		Options: tree.Options{
			Workers:  a.opts.Workers,
			Progress: func(p tree.Progress) { a.total.set(before.Entries+p.Entries, before.Bytes+p.Bytes) },
		},
		Owner:          a.owner(j.gid),
		RefuseSymlinks: refuse,
		Replace:        true,
		Stable:         true,
		Done: func(c tree.Copied) {
			a.note(File{Path: path.Join(j.name, c.Rel), SHA256: hex.EncodeToString(c.SHA256[:]), Size: c.Size, Local: true})
		},
	})
	for _, l := range stats.Left {
		l.Rel = path.Join(j.name, l.Rel)
		a.report.Left = append(a.report.Left, l)
	}
	if err == nil {
		return nil
	}
	ce, ok := errors.AsType[*tree.CopyError](err)
	switch {
	case ctx.Err() != nil:
		return a.canceled(ctx.Err())
	case !ok:
		return j.src.fault(j.name, "", err)
	case ce.Source:
		return j.src.fault(j.name, ce.Rel, ce.Err)
	}
	return a.workspace(path.Join(j.name, ce.Rel), ce.Err)
}

// noLinks refuses a source with a link in it before the first file is copied (case
// MF-146). A link that appears later is refused by the copy.
func (a *applier) noLinks(ctx context.Context, j job, src *os.File) error {
	err := tree.Walk(ctx, src, tree.Options{Workers: a.opts.Workers}, func(e *tree.Entry) error {
		switch {
		case e.Err != nil:
			return &tree.CopyError{Rel: e.Rel(), Source: true, Err: e.Err}
		case e.Kind == tree.Symlink:
			return &tree.CopyError{Rel: e.Rel(), Source: true, Err: tree.ErrSymlink}
		}
		return nil
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return a.canceled(ctx.Err())
	}
	if ce, ok := errors.AsType[*tree.CopyError](err); ok {
		return j.src.fault(j.name, ce.Rel, ce.Err)
	}
	return j.src.fault(j.name, "", err)
}

// owner returns whom copied entries shall belong to, or nil for the process.
func (a *applier) owner(gid int) *tree.Owner {
	if a.opts.Owner == nil && gid < 0 {
		return nil
	}
	o := &tree.Owner{UID: -1, GID: gid} // -1 leaves it, see chown(2)
	if a.opts.Owner != nil {
		o.UID = a.opts.Owner.UID
		if gid < 0 {
			o.GID = a.opts.Owner.GID
		}
	}
	return o
}

// workspace makes err, from writing name, an error that names no host path.
func (a *applier) workspace(name string, err error) error {
	if fault.Canceled(err) {
		return a.canceled(err)
	}
	fe, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return &fault.Error{Code: fault.WorkspaceArchiveWriteError, Op: "apply", Path: name,
			Message: "the entry cannot be written", Err: err}
	}
	out := *fe
	out.Op, out.Path = "apply", name
	out.Details = map[string]any{}
	for k, v := range fe.Details {
		if s, ok := v.(string); ok {
			if rel, below := strings.CutPrefix(s, a.t.Path()+"/"); below {
				v = rel
			}
		}
		out.Details[k] = v
	}
	return &out
}

func (a *applier) canceled(err error) error {
	return &fault.Error{Code: fault.WorkspaceArchiveWriteError, Op: "apply", Reason: "cancelled",
		Message: "filling the workspace was cancelled", Retry: fault.RetryYes, Err: err}
}

package croft

import (
	"context"
	"errors"
	"io"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/archive"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/state"
	"github.com/croftdev/croft/internal/tree"
	"github.com/croftdev/croft/snapshot"
)

// SaveReport says what a save wrote or a restore read, and what it left out.
type SaveReport = archive.Report

// Persist writes the workspace to w as one portable tar: links as links, modes,
// times, empty directories. Ephemeral entries, mounts, sockets, fifos and devices
// are left out; the report names those that could not be saved. Memory is bounded
// whatever the size of the workspace. When ctx ends, Persist returns its error
// once nothing reads the workspace or writes to w any more.
func (s *Session) Persist(ctx context.Context, w io.Writer) (SaveReport, error) {
	var rep SaveReport
	data := []event.Field{event.String("workspace_root", s.shownRoot())}
	if f, ok := w.(interface{ Name() string }); ok { // a file: where the save goes
		data = append(data, event.String("tar_path", f.Name()))
	}
	err := s.observeResult(ctx, event.OpPersistWorkspace, data, func(ctx context.Context) (event.Result, error) {
		out := &countedWriter{w: w}
		var err error
		rep, err = s.pack(ctx, out)
		return event.Result{Data: []event.Field{event.Int("bytes", out.n)}}, err
	})
	return rep, err
}

// shownRoot is the workspace's path in events: what commands see it at where it is
// croft's own, else the caller's directory.
func (s *Session) shownRoot() string {
	if seen := s.seenRoot(); seen != "" {
		return seen
	}
	return s.HostRoot()
}

func (s *Session) pack(ctx context.Context, w io.Writer) (SaveReport, error) {
	s.mu.Lock()
	t := s.tree
	s.mu.Unlock()
	if t == nil {
		return SaveReport{}, notStarted("persist")
	}
	skip, err := s.skips()
	if err != nil {
		return SaveReport{}, err
	}
	return archive.Pack(ctx, t.Dir(), w, archive.PackOptions{Skip: skip, Progress: s.treeProgress("persist")})
}

// skips returns the names that are never saved: ephemeral entries, mounts, and
// what sinks keep out.
func (s *Session) skips() ([]string, error) {
	names, err := s.plan.manifest.EphemeralPaths()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(append(names, s.plan.kept.Mounts...), s.unsaved...), nil
}

// Hydrate unpacks a tar into the workspace: directories are joined, files and links
// replaced. The archive is read and checked whole beside the workspace before
// anything in it changes: a bad member, a full disk or the end of ctx leaves it as
// it was. r is not read any more when Hydrate returns.
func (s *Session) Hydrate(ctx context.Context, r io.Reader) (SaveReport, error) {
	var rep SaveReport
	leave, err := s.enter(ctx)
	if err != nil {
		return rep, err
	}
	defer leave()
	data := []event.Field{event.String("untar_dir", s.shownRoot())}
	if l, ok := r.(interface{ Len() int }); ok { // bytes.Reader, strings.Reader, bytes.Buffer
		data = append(data, event.Int("bytes", int64(l.Len())))
	}
	err = s.observeResult(ctx, event.OpHydrateWorkspace, data, func(ctx context.Context) (event.Result, error) {
		in := &countedReader{r: r}
		var err error
		rep, err = s.hydrate(ctx, in)
		return event.Result{Data: []event.Field{event.Int("bytes", in.n)}}, err
	})
	return rep, err
}

func (s *Session) hydrate(ctx context.Context, r io.Reader) (SaveReport, error) {
	s.mu.Lock()
	t := s.tree
	s.mu.Unlock()
	if t == nil {
		return SaveReport{}, notStarted("hydrate")
	}
	stage, err := s.stageBeside(ctx, t)
	if err != nil {
		return SaveReport{}, err
	}
	defer stage.discard()
	up, err := archive.Unpack(ctx, r, stage.dir, archive.UnpackOptions{Owner: s.treeOwner(), Progress: s.treeProgress("restore")})
	if err != nil {
		return SaveReport{}, err
	}
	return up.Report, up.MergeInto(ctx, stage.dir, t.Dir())
}

func (s *Session) treeOwner() *tree.Owner {
	uid := s.ownerUID()
	if uid == 0 {
		return nil
	}
	return &tree.Owner{UID: uid, GID: uid}
}

// persistSnapshot saves the workspace with the session's kind of snapshot.
func (s *Session) persistSnapshot(ctx context.Context) error {
	s.mu.Lock()
	rec, t := s.rec, s.tree
	s.mu.Unlock()
	saved := state.Saved{}
	for _, st := range state.DecideStop(rec.Snapshot) {
		if st != state.Archive || t == nil {
			continue // the fingerprint is taken of the stream, in the same pass
		}
		saved.Live, saved.Err = s.saveSnapshot(ctx)
	}
	if !rec.Snapshot.Durable() || t == nil {
		return nil
	}
	s.mu.Lock()
	s.rec.Fingerprint = saved.Fingerprint(rec.Fingerprint)
	s.unrecorded = s.rec.Fingerprint != rec.Fingerprint // afterStop writes it
	s.mu.Unlock()
	return saved.Err
}

// afterStop records what a stop has saved. Where nothing was saved there is nothing to
// record: that the warden has ended, the next start finds out by itself.
func (s *Session) afterStop(context.Context) error {
	s.mu.Lock()
	rec, lock, changed := s.rec, s.lock, s.unrecorded
	s.mu.Unlock()
	if lock == nil || !changed {
		return nil
	}
	rec.Warden = nil
	return s.save(rec)
}

func (s *Session) saveSnapshot(ctx context.Context) (*snapshot.Fingerprint, error) {
	hasher := snapshot.NewHasher()
	err := s.observeResult(ctx, event.OpSnapshotPersist, nil, func(ctx context.Context) (event.Result, error) {
		var out countedWriter
		err := s.store.Persist(ctx, func(w io.Writer) error {
			out = countedWriter{w: io.MultiWriter(w, hasher)}
			_, err := s.pack(ctx, &out)
			return err
		})
		return event.Result{Data: []event.Field{event.Int("bytes", out.n)}}, err
	})
	if err != nil {
		return nil, err
	}
	fp := hasher.Fingerprint()
	return &fp, nil
}

// restore brings back the saved workspace, beside what is there, and takes its place
// when it is whole. A caller's root is never cleared: there the saved tree is joined
// to what is there.
func (s *Session) restore(ctx context.Context) error {
	return s.observeResult(ctx, event.OpSnapshotRestore, nil, func(ctx context.Context) (event.Result, error) {
		r, err := s.store.Restore(ctx)
		if err != nil {
			return event.Result{}, err
		}
		defer r.Close()
		in := &countedReader{r: r}
		if s.owned() {
			_, err = s.restoreOwned(ctx, in)
		} else {
			_, err = s.hydrate(ctx, in)
		}
		return event.Result{Data: []event.Field{event.Int("bytes", in.n)}}, restoreError(err)
	})
}

func restoreError(err error) error {
	if err == nil || fault.Canceled(err) || errors.Is(err, fault.SnapshotRestoreError) {
		return err
	}
	return &fault.Error{Code: fault.SnapshotRestoreError, Op: "snapshot_restore", Message: "the saved workspace could not be restored", Err: err}
}

func (s *Session) owned() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rec.RootOwned
}

func (s *Session) restoreOwned(ctx context.Context, r io.Reader) (SaveReport, error) {
	name, dir, err := s.lock.Stage()
	if err != nil {
		return SaveReport{}, err
	}
	defer dir.Close()
	up, err := archive.Unpack(ctx, r, dir, archive.UnpackOptions{Owner: s.treeOwner(), Progress: s.treeProgress("restore")})
	if err == nil {
		err = ownTop(dir, s.ownerUID())
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return SaveReport{}, errors.Join(err, s.lock.DiscardStage(name))
	}
	// A warden would go on showing the old directory.
	if err := s.endCell(ctx); err != nil {
		return SaveReport{}, errors.Join(err, s.lock.DiscardStage(name))
	}
	if err := s.lock.Adopt(name); err != nil {
		return SaveReport{}, err
	}
	return up.Report, s.openTree(s.lock.WorkspacePath())
}

// treeProgress returns the callback that turns progress of a tree operation into
// the client's, or nil where nobody listens.
func (s *Session) treeProgress(op string) func(tree.Progress) {
	f := s.c.cfg.OnProgress
	if f == nil {
		return nil
	}
	return func(p tree.Progress) {
		f(Progress{SessionID: s.ID(), Op: op, Files: p.Entries, Bytes: p.Bytes, Total: p.Total})
	}
}

package croft

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/root"
	"github.com/croftdev/croft/internal/state"
	"github.com/croftdev/croft/manifest"
	"github.com/croftdev/croft/policy"
)

// ensureBackend checks what a start needs before it touches anything.
func (s *Session) ensureBackend(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	warden := s.rec.Warden
	s.mu.Unlock()
	if warden != nil && s.liveCell() == nil {
		// A croft that was killed may have left its warden behind for a moment. Nothing of
		// the workspace is touched while commands of that one can still write in it.
		return warden.WaitGone(ctx)
	}
	return nil
}

func (s *Session) liveCell() *confine.Cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cell
}

// prepareWorkspace finds out what is there, makes the root if it is missing, and
// decides how the workspace comes into being.
func (s *Session) prepareWorkspace(ctx context.Context) error {
	restorable, err := s.store.Restorable(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	rec := s.rec
	s.mu.Unlock()
	place := rec.Root
	if rec.RootOwned {
		place = s.lock.WorkspacePath()
	}
	exists, err := isDir(place, rec.RootOwned)
	if err != nil {
		return err
	}
	s.start = state.LocalWorkspace{
		Exists: exists, Ready: rec.RootReady, CallersRoot: !rec.RootOwned, Restorable: restorable, Stored: rec.Fingerprint,
	}.Start()
	if rec.RootOwned && exists && !rec.RootReady {
		// A fill that was cut short leaves entries of unknown age: begin anew.
		if err := s.lock.TrashWorkspace(); err != nil {
			return err
		}
		exists = false
	}
	if !exists {
		if err := s.forgetReady(rec); err != nil {
			return err
		}
		if err := s.makeRoot(place, rec.RootOwned); err != nil {
			return err
		}
	}
	return s.openTree(place)
}

// forgetReady records that the workspace, which was whole once and is missing now, is
// to be made anew. Else a start that is cut short after it made the directory would
// leave an empty one that the next start takes for the workspace, and whose save
// replaces the snapshot.
func (s *Session) forgetReady(rec state.Record) error {
	if !rec.RootReady {
		return nil
	}
	rec.RootReady = false
	return s.save(rec)
}

func isDir(path string, owned bool) (bool, error) {
	stat := os.Stat
	if owned {
		stat = os.Lstat // nothing of croft's makes a link there
	}
	fi, err := stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, &fault.Error{Code: fault.WorkspaceStartError, Op: "start", Message: "the workspace's directory cannot be reached", Err: err}
	case !fi.IsDir():
		return false, &fault.Error{Code: fault.WorkspaceStartError, Op: "start", Reason: "not_a_directory", Retry: fault.RetryNo,
			Message: "the place of the workspace is not a directory"}
	}
	return true, nil
}

// makeRoot makes the workspace's directory, for croft as root with the owner that
// commands have.
func (s *Session) makeRoot(place string, owned bool) error {
	if owned {
		return s.lock.MakeWorkspace(s.ownerUID())
	}
	//nolint:forbidigo // the caller names the place, and no command of the session has run yet
	if err := os.MkdirAll(place, 0o755); err != nil {
		return &fault.Error{Code: fault.WorkspaceStartError, Op: "start", Message: "the workspace's directory cannot be made", Err: err}
	}
	return nil
}

// ownerUID returns the uid that owns croft's own workspace where croft is root, else 0.
func (s *Session) ownerUID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.rec.RootOwned {
		return 0
	}
	return s.rec.UID
}

// openTree opens the workspace and its grants, in place of what was open before.
func (s *Session) openTree(place string) error {
	opts := root.Options{Path: place, Stage: s.lock.Dir()}
	for _, g := range s.plan.grants {
		opts.Grants = append(opts.Grants, root.Grant{Path: g.Path, ReadOnly: g.ReadOnly, Description: g.Description})
	}
	if seen := s.seenRoot(); seen != "" {
		opts.Spellings = append(opts.Spellings, seen)
	}
	if uid := s.ownerUID(); uid != 0 {
		opts.Owner = &root.Owner{UID: uid, GID: uid}
	}
	t, err := root.Open(opts)
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.tree
	s.tree, s.whole, s.rec.Root = t, false, t.Path()
	s.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// seenRoot returns the path at which commands see a workspace of croft's own, or
// "" for a caller's root and on a tier that shows it at its real path.
func (s *Session) seenRoot() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.rec.RootOwned || s.plan.policy.Tier == policy.None {
		return ""
	}
	if r := s.plan.manifest.Root; r != "" {
		return filepath.Clean(r)
	}
	return manifest.DefaultRoot
}

// ensureHelpers starts the warden, unless the workspace's directory is still to be
// swapped for a restored one: a mount shows the directory that it was made of.
func (s *Session) ensureHelpers(ctx context.Context) error {
	if s.restores() {
		return nil
	}
	return s.ensureCell(ctx)
}

func (s *Session) restores() bool {
	for _, st := range s.start.Do() {
		if st == state.RestoreArchive {
			return true
		}
	}
	return false
}

// ensureCell starts the warden if none runs.
func (s *Session) ensureCell(ctx context.Context) error {
	s.mu.Lock()
	cell, tree, rec := s.cell, s.tree, s.rec
	s.mu.Unlock()
	if cell != nil {
		select {
		case <-cell.Done(): // it died under us; the next one takes its place
		default:
			return nil
		}
	}
	spec := confine.Spec{
		SessionID: s.ID(), Policy: s.plan.policy, Owned: rec.RootOwned, UID: rec.UID,
		Workspace:   confine.Bind{Path: tree.Path(), Dir: tree.Dir(), Target: s.seenRoot()},
		PrivateHome: s.plan.kept.PrivateHome,
		// Records are trusted and hold grants: a command that could write them would
		// choose its own at the next start.
		Hidden: []string{resolveExisting(s.c.dir.Path())},
	}
	for _, g := range tree.GrantRoots() {
		if g.Missing || g.Void {
			continue
		}
		spec.Grants = append(spec.Grants, confine.Bind{Path: g.Canonical, Dir: g.Dir, Target: g.Path, ReadOnly: g.ReadOnly})
	}
	cell, err := s.c.launcher.Start(ctx, spec)
	if err != nil {
		return err
	}
	env, err := s.commandEnv(ctx, cell)
	if err != nil {
		return errors.Join(err, cell.Close(context.WithoutCancel(ctx)))
	}
	s.mu.Lock()
	s.cell, s.env = cell, env
	s.mu.Unlock()
	return nil
}

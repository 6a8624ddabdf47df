package croft

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/croftdev/croft/internal/root"
)

// stage is a directory on the workspace's own file system, in which an archive is
// unpacked before anything of the workspace changes.
type stage struct {
	dir     *os.File
	discard func()
}

// stageName is the name of the stage in a caller's root. It is the same each time,
// so that what a killed process left is found.
func (s *Session) stageName() string { return ".croft-stage-" + s.ID() }

// stageBeside makes a stage for the open workspace: in the session's directory for a
// workspace of croft's own, and in the root itself for a caller's, since nothing else
// is sure to be on the same file system and writable.
//
// In a caller's root the agent's processes can reach the stage. They can spoil what
// is unpacked there, as they can spoil it once it is in its place; they cannot lead it
// out of the root.
func (s *Session) stageBeside(ctx context.Context, t *root.Tree) (*stage, error) {
	if s.owned() {
		name, dir, err := s.lock.Stage()
		if err != nil {
			return nil, err
		}
		return &stage{dir: dir, discard: func() {
			_ = dir.Close() // only looked up in
			if err := s.lock.DiscardStage(name); err != nil {
				s.c.log.Warn("a staging directory is left for the next start", "error", err)
			}
		}}, nil
	}
	if err := s.dropStage(ctx, t); err != nil {
		return nil, err
	}
	private := fs.FileMode(0o700)
	if err := t.Mkdir(ctx, s.stageName(), root.MkdirOptions{Mode: &private}); err != nil {
		return nil, err
	}
	dir, err := t.OpenDir(ctx, s.stageName(), nil)
	if err != nil {
		return nil, errors.Join(err, s.dropStage(ctx, t))
	}
	return &stage{dir: dir, discard: func() {
		_ = dir.Close() // only looked up in
		if err := s.dropStage(context.WithoutCancel(ctx), t); err != nil {
			s.c.log.Warn("a staging directory is left in the workspace until the next start", "error", err)
		}
	}}, nil
}

// dropStage removes the stage from a caller's root, if there is one.
func (s *Session) dropStage(ctx context.Context, t *root.Tree) error {
	return t.Remove(ctx, s.stageName(), root.RemoveOptions{Recursive: true})
}

package croft

import (
	"context"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fill"
	"github.com/croftdev/croft/internal/root"
)

// FillReport says what a Start wrote from the manifest: each file with its SHA-256,
// and what was left out of copied directories.
type FillReport = fill.Report

// Filled returns what the last Start of this value wrote from the manifest.
func (s *Session) Filled() FillReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.filled
}

// apply makes the workspace hold what the manifest says, or its ephemeral entries only.
func (s *Session) apply(ctx context.Context, onlyEphemeral bool) error {
	if len(s.plan.manifest.Entries) == 0 {
		return nil
	}
	return s.observeResult(ctx, event.OpMaterialize, nil, func(ctx context.Context) (event.Result, error) {
		s.mu.Lock()
		t := s.tree
		s.mu.Unlock()
		opts := fill.Options{Base: s.plan.kept.BaseDir, OnlyEphemeral: onlyEphemeral, Progress: s.treeProgress("fill")}
		for _, g := range s.plan.grants {
			opts.Sources = append(opts.Sources, g.Path)
		}
		if uid := s.ownerUID(); uid != 0 {
			opts.Owner = &root.Owner{UID: uid, GID: uid}
		}
		report, err := fill.Apply(ctx, t, s.plan.manifest, opts)
		s.mu.Lock()
		s.filled = report
		s.mu.Unlock()
		return event.Result{Data: []event.Field{event.Int("files", int64(len(report.Files)))}}, err
	})
}

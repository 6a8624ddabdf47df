package croft

import (
	"context"

	"github.com/croftdev/croft/manifest"
)

func refuseNotYet(m *manifest.Manifest) error { return nil }

func (s *Session) apply(ctx context.Context, ephemeralOnly bool) error { return nil }

//go:build !linux

package confine

import (
	"context"
	"errors"
	"fmt"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/process"
)

// Init does nothing on this system: it has no helper processes.
func Init() {}

// Launcher starts cells; on this system it starts none.
type Launcher struct{}

// NewLauncher returns a launcher whose Start fails.
func NewLauncher(helper string) *Launcher { return &Launcher{} }

// Start returns an error that wraps errors.ErrUnsupported.
func (l *Launcher) Start(ctx context.Context, spec Spec) (*Cell, error) {
	return nil, &fault.Error{
		Code: fault.ConfinementUnavailable, Op: "start", Reason: "unsupported_system", Retry: fault.RetryNo,
		Message: "commands can be confined on Linux only so far", Err: errors.ErrUnsupported,
	}
}

// Warm does nothing.
func (l *Launcher) Warm() {}

// Close does nothing.
func (l *Launcher) Close() error { return nil }

// Cell is never made on this system.
type Cell struct {
	setup     setup
	ready     ready
	pid       int
	startTime uint64
	done      chan struct{}
}

// Spawn returns an error that wraps errors.ErrUnsupported.
func (c *Cell) Spawn(ctx context.Context, spec process.Spec) (process.Child, error) {
	return nil, fmt.Errorf("spawn: %w", errors.ErrUnsupported)
}

func (c *Cell) close(ctx context.Context) error { return nil }

func isRoot() bool { return false }

func chooseUID() (int, error) { return 0, fmt.Errorf("choose a uid: %w", errors.ErrUnsupported) }

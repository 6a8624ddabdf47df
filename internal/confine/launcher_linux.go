package confine

import (
	"context"
	"errors"

	"github.com/croftdev/croft/internal/process"
)

// Init turns this process into a helper if that is what it was started as, and
// returns otherwise. A program that uses the package calls it first thing in main.
//
// A helper is recognised by its name and by a handshake on descriptor 3; it never
// returns from Init.
func Init() { initHelper() }

// Launcher owns the starter, the helper process that forks wardens. It is safe for
// use by several goroutines.
type Launcher struct{ helper string }

// NewLauncher returns a launcher that uses the given program as helper. An empty
// name means a croft of this version on PATH, else this program if it called [Init].
// Nothing is started before the first Start.
func NewLauncher(helper string) *Launcher { return &Launcher{helper: helper} }

// Start makes a cell. Cancelling ctx ends the attempt, and nothing of it is left when
// Start returns; a cell that was returned no longer depends on ctx.
func (l *Launcher) Start(ctx context.Context, spec Spec) (*Cell, error) {
	return nil, errors.ErrUnsupported
}

// Probe makes a throwaway cell under the default policy and returns the error that
// Start would return on this machine.
func (l *Launcher) Probe(ctx context.Context) error { return errors.ErrUnsupported }

// Close ends the starter and with it every cell that is left. It returns when they are gone.
func (l *Launcher) Close() error { return nil }

// Cell is the confinement of one live session. It implements process.Spawner and is
// safe for use by several goroutines.
type Cell struct {
	ready     ready
	pid       int
	startTime uint64
	done      chan struct{}
}

// Spawn starts a command in the cell; see process.Spawner for the contract.
func (c *Cell) Spawn(ctx context.Context, spec process.Spec) (process.Child, error) {
	return nil, errors.ErrUnsupported
}

func (c *Cell) close(ctx context.Context) error { return nil }
func initHelper()                               {}
func isRoot() bool                              { return false }
func chooseUID() (int, error)                   { return 0, errors.ErrUnsupported }

//go:build !linux

package root

import "context"

// Unmount does nothing on this system, where a workspace has no mounts.
func (t *Tree) Unmount(context.Context, string) error { return errOther }

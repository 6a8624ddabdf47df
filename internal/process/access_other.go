//go:build !linux

package process

import (
	"os"
	"syscall"
)

// mayExecute looks at the mode bits only; the exec that follows decides.
func mayExecute(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if fi.Mode().Perm()&0o111 == 0 {
		return syscall.EACCES
	}
	return nil
}

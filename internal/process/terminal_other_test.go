//go:build !linux

package process_test

import (
	"errors"
	"os"

	"github.com/croftdev/croft/internal/process"
)

func openTerminal(process.Winsize) (master, slave *os.File, err error) {
	return nil, nil, errors.ErrUnsupported
}

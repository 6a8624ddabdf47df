//go:build !linux && !darwin

package durable

import (
	"errors"
	"fmt"
)

func renameNew(int, string, string) error {
	return fmt.Errorf("rename without replacing: %w", errors.ErrUnsupported)
}

func exchange(int, string, string) error {
	return fmt.Errorf("exchange two names: %w", errors.ErrUnsupported)
}

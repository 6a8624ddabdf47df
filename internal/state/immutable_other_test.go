//go:build !linux

package state_test

import "errors"

func setImmutable(string, bool) error { return errors.ErrUnsupported }

package croft_test

import (
	"os"
	"syscall"
	"testing"
)

// owner returns the uid that owns the entry on disk.
func owner(t *testing.T, name string) int {
	t.Helper()
	fi, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return int(fi.Sys().(*syscall.Stat_t).Uid)
}

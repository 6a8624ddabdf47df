//go:build unix

package main

import (
	"os"
	"syscall"
)

// ownerOf returns the uid of the file itself, not of what a link points to.
func ownerOf(path string) (int, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return int(fi.Sys().(*syscall.Stat_t).Uid), nil
}

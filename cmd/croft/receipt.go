package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/croftdev/croft/policy"
)

// writeReceipt writes the receipt to path.
//
// The path may lie in a workspace that an agent writes to, which could have put a
// link there to a file of the user's. So a file is written beside it and renamed over
// it, which replaces the link. That does not help against a link in place of
// one of the path's directories; who lets an agent write those should choose another place.
// What is no regular file and no link, such as /dev/null or a pipe, is written to.
func writeReceipt(path string, r policy.Receipt) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the receipt: %w", err)
	}
	data = append(data, '\n')
	fi, err := os.Lstat(path)
	switch {
	case err == nil && fi.IsDir():
		return fmt.Errorf("write --receipt: %w", &fs.PathError{Op: "write", Path: path, Err: errors.New("is a directory")})
	case err == nil && fi.Mode()&(fs.ModeDevice|fs.ModeNamedPipe) != 0:
		err = os.WriteFile(path, data, 0)
	default:
		err = replaceFile(path, data)
	}
	if err != nil {
		return fmt.Errorf("write --receipt: %w", err)
	}
	return nil
}

func replaceFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".croft-receipt-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

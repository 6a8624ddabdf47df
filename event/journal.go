package event

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// journal appends lines to a file and puts it aside when it is large. It opens
// the file at the first line. Not safe for concurrent use; several journals of one
// file, in any processes, are.
type journal struct {
	path     string
	maxSize  int64 // 0: no limit
	maxFiles int   // 0: no limit

	f   *os.File
	end int64 // size of f after the last append
}

// append appends whole lines. It returns how many bytes of them are in the file,
// always whole lines; the rest was not written and has left nothing behind.
func (j *journal) append(lines []byte) (int, error) {
	done := 0
	for done < len(lines) {
		n, err := j.appendSome(lines[done:])
		done += n
		if err != nil {
			return done, fmt.Errorf("append to event file: %w", err)
		}
	}
	return done, nil
}

// appendSome appends as many of the lines as fit the file, and at least one.
// It returns 0 and no error where it only put the file aside.
func (j *journal) appendSome(lines []byte) (n int, err error) {
	size, unlock, err := j.lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	if size > 0 && j.maxSize > 0 && size+int64(firstLine(lines)) > j.maxSize {
		return 0, j.rotate()
	}
	if size > 0 && size != j.end {
		// Someone else wrote, or a killed writer: its last line may lack its end,
		// and would swallow ours.
		last := make([]byte, 1)
		if _, err := j.f.ReadAt(last, size-1); err != nil {
			return 0, err
		}
		if last[0] != '\n' {
			if _, err := j.f.Write([]byte{'\n'}); err != nil {
				return 0, err
			}
			size++
		}
	}
	lines = fit(lines, j.maxSize, size)
	n, err = j.f.Write(lines)
	if n < len(lines) {
		whole := bytes.LastIndexByte(lines[:n], '\n') + 1
		if n > whole {
			// A full disk took part of a line. Take it back, so that readers see whole
			// lines only; where that fails too, the check above mends it later.
			_ = j.f.Truncate(size + int64(whole))
		}
		n = whole
		if err == nil {
			err = io.ErrShortWrite
		}
	}
	j.end = size + int64(n)
	return n, err
}

// fit returns those of the lines that fit below max; the first one always does.
func fit(lines []byte, maxSize, size int64) []byte {
	room := maxSize - size
	if maxSize == 0 || int64(len(lines)) <= room {
		return lines
	}
	end := firstLine(lines)
	if int64(end) < room {
		end = bytes.LastIndexByte(lines[:room], '\n') + 1
	}
	return lines[:end]
}

func firstLine(lines []byte) int { return bytes.IndexByte(lines, '\n') + 1 }

// lock takes the file for this journal alone and returns its size. It opens the
// file if need be, also when another journal has put it aside meanwhile.
func (j *journal) lock() (size int64, unlock func(), err error) {
	for {
		if j.f == nil {
			if err := j.open(); err != nil {
				return 0, nil, err
			}
		}
		fd := int(j.f.Fd())
		unlock := func() { _ = unix.Flock(fd, unix.LOCK_UN) }
		if err := flock(fd); err != nil {
			return 0, nil, err
		}
		var held, named unix.Stat_t
		if err := unix.Fstat(fd, &held); err != nil {
			unlock()
			return 0, nil, err
		}
		err := unix.Lstat(j.path, &named)
		if err == nil && named.Ino == held.Ino && named.Dev == held.Dev {
			return held.Size, unlock, nil
		}
		unlock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, nil, err
		}
		if err := j.close(); err != nil {
			return 0, nil, err
		}
	}
}

// flock locks a file against other journals. File systems that cannot do that
// hold files of one writer, as far as a lock can tell: it goes on without.
func flock(fd int) error {
	for {
		err := unix.Flock(fd, unix.LOCK_EX)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOLCK), errors.Is(err, errors.ErrUnsupported):
			return nil
		default:
			return err
		}
	}
}

// open opens the file or makes it.
//
// O_NOFOLLOW: if someone else may write the directory after all, a link there
// must not send the records into a file of the link's choice. It does not help
// against links higher up. O_NONBLOCK: a fifo in its place hangs nobody.
func (j *journal) open() error {
	if err := os.MkdirAll(filepath.Dir(j.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: j.path, Err: errNotRegular}
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	j.f, j.end = f, 0
	return nil
}

var errNotRegular = errors.New("not a regular file")

// rotate puts the file aside and removes the oldest ones. The caller holds the
// lock; it is one rename, so that a crash leaves every record in one of the files.
func (j *journal) rotate() error {
	aside, err := j.aside()
	if err != nil {
		return err
	}
	next := 1
	if len(aside) > 0 {
		next = aside[len(aside)-1] + 1
	}
	if err := os.Rename(j.path, j.numbered(next)); err != nil {
		return err
	}
	aside = append(aside, next)
	for j.maxFiles > 0 && len(aside) > j.maxFiles {
		if err := os.Remove(j.numbered(aside[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		aside = aside[1:]
	}
	return nil
}

func (j *journal) numbered(n int) string { return j.path + "." + strconv.Itoa(n) }

// aside returns the numbers of the files put aside, the oldest first.
func (j *journal) aside() ([]int, error) {
	entries, err := os.ReadDir(filepath.Dir(j.path))
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(j.path)+".")
		if n, err := strconv.Atoi(rest); ok && err == nil && n > 0 && strconv.Itoa(n) == rest {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// close closes the file; the next append opens it anew.
func (j *journal) close() error {
	if j.f == nil {
		return nil
	}
	f := j.f
	j.f = nil
	return f.Close()
}

package root

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// listBuffer is how much of a directory is read at once: some 1,000 entries.
	listBuffer = 32 << 10
	// listAlone is how many entries one goroutine describes before others help.
	listAlone = 512
)

func (t *Tree) list(ctx context.Context, name string, user *User) ([]Info, error) {
	pl, err := t.begin(ctx, opList, name)
	if err != nil {
		return nil, err
	}
	defer t.end()
	var all []Info
	err = user.Do(func() error {
		fd, _, err := t.openFollow(ctx, pl, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		defer closeFD(fd)
		names, err := readNames(ctx, fd)
		if err != nil {
			return err
		}
		workers := 1
		if user.self() && len(names) > listAlone { // another user's rights stay on this thread
			workers = min(4, runtime.GOMAXPROCS(0))
		}
		all, err = describe(ctx, fd, names, workers)
		return err
	})
	return all, t.fail(opList, pl, true, err)
}

// readNames returns the names in an open directory, sorted.
func readNames(ctx context.Context, fd int) ([]string, error) {
	var names []string
	buf := make([]byte, listBuffer)
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			slices.Sort(names)
			return names, nil
		}
		names = parseNames(buf[:n], names)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// parseNames adds the names of the entries in buf, without "." and "..". The layout
// is struct linux_dirent64 of getdents64(2). The names of one buffer share their
// memory.
func parseNames(buf []byte, names []string) []string {
	const nameAt = int(unsafe.Offsetof(unix.Dirent{}.Name))
	const lenAt = int(unsafe.Offsetof(unix.Dirent{}.Reclen))
	text := string(buf)
	for at := 0; at+nameAt <= len(buf); {
		size := int(binary.NativeEndian.Uint16(buf[at+lenAt:]))
		if size < nameAt || at+size > len(buf) {
			break
		}
		end := at + size
		if i := bytes.IndexByte(buf[at+nameAt:end], 0); i >= 0 {
			end = at + nameAt + i
		}
		if name := text[at+nameAt : end]; name != "." && name != ".." {
			names = append(names, name)
		}
		at += size
	}
	return names
}

// describe looks at each name in the directory. One that is gone is left out.
func describe(ctx context.Context, dir int, names []string, workers int) ([]Info, error) {
	all := make([]Info, len(names))
	errs := make([]error, workers)
	part := func(w int) {
		from, to := w*len(names)/workers, (w+1)*len(names)/workers
		var st unix.Stat_t
		for i := from; i < to; i++ {
			if i%listAlone == 0 && ctx.Err() != nil {
				errs[w] = ctx.Err()
				return
			}
			err := lstatat(dir, names[i], &st)
			switch err {
			case nil:
				all[i] = info(names[i], &st)
			case unix.ENOENT:
			default:
				errs[w] = err
				return
			}
		}
	}
	var wg sync.WaitGroup
	for w := 1; w < workers; w++ {
		wg.Go(func() { part(w) })
	}
	part(0)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(all, func(i Info) bool { return i.Kind == 0 }), nil
}

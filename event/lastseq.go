package event

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
)

// LastSeq returns the largest number of the session's records at the end of a
// file that a [File] sink wrote, for [Config.LastSeq]; 0 if there is none, also if
// the file is not there. It looks at the last MiB, and at files put aside only
// where the file itself is missing or empty. Errors are [fault.EventSinkError].
func LastSeq(path, sessionID string) (uint64, error) {
	j := journal{path: path}
	last, err := lastSeqIn(path, sessionID)
	if err != nil || last > 0 {
		return last, err
	}
	aside, err := j.aside()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, unreadable(err)
	}
	if len(aside) == 0 {
		return 0, nil
	}
	return lastSeqIn(j.numbered(aside[len(aside)-1]), sessionID)
}

// lastSeqTails is how much of a file LastSeq reads: the first nearly always holds
// many records, the second more than any one record with outputs can fill. It takes
// the largest number and not the last one, since records of operations that ran at
// once may stand in another order.
var lastSeqTails = []int64{64 << 10, 1 << 20}

func lastSeqIn(path, sessionID string) (last uint64, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, unreadable(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = errNotRegular
	}
	if err != nil {
		return 0, unreadable(err)
	}
	for _, size := range lastSeqTails {
		tail, err := io.ReadAll(io.NewSectionReader(f, max(0, st.Size()-size), size))
		if err != nil {
			return 0, unreadable(err)
		}
		for line := range bytes.Lines(tail) {
			// The first line may be the end of one; a line that is no record was torn
			// by a crash. Both hold no number.
			if r, err := Decode(line); err == nil && r.SessionID == sessionID {
				last = max(last, r.Seq)
			}
		}
		if last > 0 || st.Size() <= size {
			break
		}
	}
	return last, nil
}

func unreadable(cause error) error {
	return &fault.Error{Code: fault.EventSinkError, Message: "the event file cannot be read", Err: cause}
}

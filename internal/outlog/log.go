package outlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/croftdev/croft/internal/durable"
)

// The limits of a log.
const (
	DefaultLimit = 8 << 20
	MinLimit     = 8 << 10
	// tailSegments is how many files hold the end of a full log, the one that
	// is being written among them.
	tailSegments = 8
	// maxNote is the most that [Options.Info] and the argument of [Log.End] may have.
	maxNote = 2 << 10
)

var (
	// ErrEnded: the log has ended and takes no more.
	ErrEnded = errors.New("log has ended")
	// ErrLive: another process, or another Log of this one, is writing it.
	ErrLive = errors.New("log is being written")
	// ErrTooLong: a note about the command is above the limit.
	ErrTooLong = errors.New("note is too long")
)

// Options of a new log.
type Options struct {
	// Limit is how many bytes the log may take on disk, from [MinLimit] up; a note at
	// its end, of at most 2 KiB, comes on top. 0: [DefaultLimit]. Half of it keeps
	// the start of the output, the other half its end, and at least seven eighths of
	// that half are used once output was dropped.
	Limit int64
	// Info is a note kept with the log for whoever opens it later, at most 2 KiB.
	Info []byte
}

// Log is the output of one command. It is safe for use by several goroutines.
type Log struct {
	parent               *durable.Dir
	name                 string
	headLimit, tailLimit int64 // of the first segment, and of each later one
	info                 []byte

	mu      sync.Mutex
	segs    []segment     // what is on disk, in order
	nextSeq int           //
	dir     *durable.Dir  // locked while the log is written; nil afterwards
	cur     *os.File      // the last segment; nil: the next Append begins another
	total   Counts        // all that was appended, kept or not
	ended   bool          //
	end     []byte        // nil: unknown
	wake    chan struct{} // closed and replaced when something is new
	scratch []byte
}

// segment is one file: the output from start to end, in its first size bytes.
type segment struct {
	seq        int
	start, end Counts
	size       int64
}

// Create makes the directory name in parent and begins a log in it. It goes on using
// parent, which stays the caller's to close when the log and its readers are no
// longer used. The error wraps fs.ErrExist if a log is there, and [ErrTooLong].
//
// End or Abandon must be called.
func Create(parent *durable.Dir, name string, o Options) (*Log, error) {
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	if o.Limit < MinLimit {
		return nil, fmt.Errorf("the limit of a log is %d bytes, less than %d", o.Limit, MinLimit)
	}
	if len(o.Info) > maxNote {
		return nil, ErrTooLong
	}
	l := &Log{
		parent: parent, name: name, info: slices.Clone(o.Info), wake: make(chan struct{}),
		headLimit: o.Limit / 2, tailLimit: o.Limit / 2 / tailSegments,
	}
	if err := parent.Mkdir(name); err != nil {
		return nil, err
	}
	d, err := parent.OpenDir(name)
	if err != nil {
		return nil, err
	}
	got, err := durable.TryLock(d.File())
	if err == nil && !got {
		err = ErrLive
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	l.dir = d
	names, err := d.Names()
	if err == nil && slices.ContainsFunc(names, func(n string) bool { _, is := parseSegmentName(n); return is }) {
		err = &fs.PathError{Op: "create log", Path: name, Err: fs.ErrExist}
	}
	if err == nil {
		err = l.begin()
	}
	if err != nil {
		l.Abandon()
		return nil, err
	}
	return l, nil
}

// begin writes the first segment with the note.
func (l *Log) begin() error {
	if err := l.rotate(); err != nil {
		return err
	}
	return l.write(appendRecord(nil, tagInfo, l.info))
}

// Append adds p. An error says that the disk did not take all of it; the rest is
// counted, told as a gap, and later calls try again: a full disk costs output, never
// the order or the cursors. After End the error is [ErrEnded].
func (l *Log) Append(s Stream, p []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return ErrEnded
	}
	if len(p) == 0 {
		return nil
	}
	defer l.changed()
	for len(p) > 0 {
		n, err := l.appendSome(s, p)
		if err != nil {
			l.total[s] += int64(len(p))
			return fmt.Errorf("write the output log: %w", err)
		}
		l.total[s] += int64(n)
		l.segs[len(l.segs)-1].end = l.total
		p = p[n:]
	}
	return nil
}

func (l *Log) appendSome(s Stream, p []byte) (int, error) {
	if l.cur == nil || l.room() < 1 {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n := int(min(int64(len(p)), maxRecord, l.room()))
	l.scratch = appendRecord(l.scratch[:0], tags[s], p[:n])
	return n, l.write(l.scratch)
}

// room is what the current segment can still hold of output.
func (l *Log) room() int64 {
	s, limit := l.segs[len(l.segs)-1], l.tailLimit
	if s.seq == 0 {
		limit = l.headLimit
	}
	return limit - s.size - recordHead
}

// write appends one record to the current segment, whole or not at all.
func (l *Log) write(b []byte) error {
	s := &l.segs[len(l.segs)-1]
	if _, err := l.cur.WriteAt(b, s.size); err != nil {
		// A part of a record would be read as output after a restart. If it cannot
		// be cut off either, its length tells a reader where it ends.
		err = errors.Join(err, l.cur.Truncate(s.size))
		l.closeCurrent()
		return err
	}
	s.size += int64(len(b))
	return nil
}

// rotate begins a segment, and removes the oldest one of the tail when there are
// as many as there may be.
func (l *Log) rotate() error {
	l.closeCurrent()
	for l.tailLen() >= tailSegments {
		i := len(l.segs) - l.tailLen()
		if err := l.dir.Remove(segmentName(l.segs[i].seq)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		l.segs = slices.Delete(l.segs, i, i+1)
	}
	name := segmentName(l.nextSeq)
	f, err := l.dir.LockFile(name)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(header(l.total), 0); err != nil {
		return errors.Join(err, f.Close(), l.dir.Remove(name))
	}
	l.cur = f
	l.segs = append(l.segs, segment{seq: l.nextSeq, start: l.total, end: l.total, size: int64(headerSize)})
	l.nextSeq++
	return nil
}

func (l *Log) tailLen() int {
	if len(l.segs) > 0 && l.segs[0].seq == 0 {
		return len(l.segs) - 1
	}
	return len(l.segs)
}

func (l *Log) closeCurrent() {
	if l.cur != nil {
		_ = l.cur.Close() // nothing is buffered, and nothing was promised about the disk
		l.cur = nil
	}
}

func (l *Log) changed() {
	close(l.wake)
	l.wake = make(chan struct{})
}

// End writes note, of at most 2 KiB, as the last thing of the log and lets its files
// go. Readers then get io.EOF after what is left to read, also when End returns an
// error: the log is then one whose end is unknown, if it is opened again.
func (l *Log) End(note []byte) error {
	if len(note) > maxNote {
		return errors.Join(ErrTooLong, l.End(nil))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return ErrEnded
	}
	var err error
	if l.cur == nil {
		err = l.rotate()
	}
	if err == nil {
		err = l.write(appendRecord(nil, tagEnd, append(appendCounts(nil, l.total), note...)))
	}
	l.end = append([]byte{}, note...)
	return errors.Join(err, l.letGo())
}

// Abandon lets the files go without a note about the end: what the log holds stays,
// its end is unknown. After End it does nothing.
func (l *Log) Abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		_ = l.letGo()
	}
}

func (l *Log) letGo() error {
	l.ended = true
	l.closeCurrent()
	err := durable.Unlock(l.dir.File())
	err = errors.Join(err, l.dir.Close())
	l.dir = nil
	l.changed()
	return err
}

// Stat is what is known of a log at one moment.
type Stat struct {
	// Written is all output so far; its Sum is the cursor of the end.
	Written Counts
	// Dropped is the part of Written that the log no longer holds.
	Dropped Counts
	// Disk is what the log takes on disk.
	Disk int64
	// Ended: there will be no more.
	Ended bool
	// End is the note that was given to End. Nil with Ended: nobody wrote one, since the
	// program that ran the command was killed. How the command ended is unknown.
	End []byte
	// Info is the note of [Options].
	Info []byte
}

// Stat returns what is known now.
func (l *Log) Stat() Stat {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := Stat{Written: l.total, Dropped: l.total, Ended: l.ended, End: l.end, Info: l.info}
	for _, s := range l.segs {
		st.Dropped = st.Dropped.minus(s.end.minus(s.start))
		st.Disk += s.size
	}
	return st
}

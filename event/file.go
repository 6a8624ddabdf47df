package event

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// fileDelay is how long a record waits at most before it is written together
	// with those that followed it.
	fileDelay = 5 * time.Millisecond
	// fileRetry is how long a file that could not be written is left alone.
	fileRetry = time.Second
	// fileFull is how many bytes wait before the operation that adds to them
	// writes them itself. It is what keeps a flood of operations from outrunning
	// the audit: an agent cannot push its traces out of a queue.
	fileFull = 256 << 10
	// fileKeep is how many bytes are kept while the file cannot be written.
	fileKeep = 8 << 20
)

// FileOptions are the options of [File]. The zero value is good.
type FileOptions struct {
	Delivery
	// MaxSize is the size in bytes at which the file is put aside; 0 is never.
	MaxSize int64
	// MaxFiles is how many files put aside are kept; 0 is all of them.
	MaxFiles int
}

// File is a sink that appends each record as a line to the file at path on the
// host, by default in the background ([BestEffort], [Log]). It makes the file
// (mode 0600) and the directories above it (0700). The path should be where the
// agent cannot write. Several sessions and processes may append to one file.
//
// In the background, records are written together, some milliseconds later; those
// that were not yet written are lost if the process is killed, and only then: Close
// writes them, and where they come too fast, the operations wait. Under [Sync] a
// record is in the file when the operation goes on. Neither waits for the disk:
// the last records before a power failure may be missing.
//
// While the file cannot be written, 8 MiB of records are kept for later; what
// comes on top is lost and counted.
//
// Where a record would make the file larger than MaxSize, the file is renamed
// to path.N, N one more than the largest before, and a new one is begun. No record is
// split or lost by that, but for those in the oldest files when there are more
// than MaxFiles.
func File(path string, o FileOptions) Sink { return file{path, o} }

type file struct {
	path string
	o    FileOptions
}

func (f file) Delivery() Delivery { return f.o.Delivery.or("file", BestEffort, Log) }

func (f file) open(r *Recorder) ([]*outlet, error) {
	if f.path == "" {
		return nil, invalid("the path of a file sink is empty")
	}
	if f.o.MaxSize < 0 || f.o.MaxFiles < 0 {
		return nil, invalid("a limit of a file sink is below zero")
	}
	d := &fileDest{log: journal{path: f.path, maxSize: f.o.MaxSize, maxFiles: f.o.MaxFiles}}
	d.idle = sync.NewCond(&d.mu)
	outlets, err := outletOf(r, f.Delivery(), d)
	if err == nil {
		d.outlet = outlets[0]
	}
	return outlets, err
}

// fileDest writes to a journal: at once by handle, or as a [backlog].
type fileDest struct {
	outlet *outlet

	// writing is held while log is used; it is taken before mu.
	writing sync.Mutex
	log     journal
	spare   []byte // the buffer that is not in use, kept for its space

	mu      sync.Mutex
	buf     []byte
	timer   *time.Timer
	idle    *sync.Cond // told when armed becomes false
	armed   bool       // the timer runs, or what it started does
	closed  bool
	failing bool // the last write failed
	lost    int
}

// handle is the way of [Sync] and of chains.
func (d *fileDest) handle(_ context.Context, r *Record) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.spare = AppendLine(d.spare[:0], r)
	_, err := d.log.append(d.spare)
	return err
}

func (d *fileDest) put(r *Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.buf) >= fileFull && !d.failing {
		d.mu.Unlock()
		d.flush()
		d.mu.Lock()
	}
	if len(d.buf) >= fileKeep || d.closed {
		d.lost++
		return
	}
	d.buf = AppendLine(d.buf, r)
	d.arm()
}

// arm has the buffer written soon. d.mu is held.
func (d *fileDest) arm() {
	if d.armed || d.closed {
		return
	}
	delay := fileDelay
	if d.failing {
		delay = fileRetry
	}
	d.armed = true
	if d.timer == nil {
		d.timer = time.AfterFunc(delay, d.tick)
	} else {
		d.timer.Reset(delay)
	}
}

func (d *fileDest) tick() {
	d.flush()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed = false
	if len(d.buf) > 0 {
		d.arm()
	}
	d.idle.Broadcast()
}

// flush writes what waits. What could not be written goes on waiting, before
// what came meanwhile; that is reported once for each time the file fails anew.
func (d *fileDest) flush() {
	d.writing.Lock()
	defer d.writing.Unlock()
	d.mu.Lock()
	lines := d.buf
	d.buf = d.spare[:0]
	d.mu.Unlock()
	if len(lines) == 0 {
		d.mu.Lock()
		d.buf, d.spare = lines, d.buf
		d.mu.Unlock()
		return
	}
	n, err := d.log.append(lines)
	d.mu.Lock()
	if n < len(lines) {
		kept := append(lines[:0], lines[n:]...)
		d.buf, lines = append(kept, d.buf...), d.buf
	}
	d.spare = lines
	anew := err != nil && !d.failing
	d.failing = err != nil
	d.mu.Unlock()
	if anew {
		_ = d.outlet.report(nil, err) // kept for close, where it must be told
	}
}

func (d *fileDest) drain(context.Context) error {
	d.flush()
	return nil
}

// close is that of a backlog and that of a destination; the first call does it all.
func (d *fileDest) close(context.Context) error {
	d.mu.Lock()
	d.closed = true
	if d.armed && d.timer.Stop() {
		d.armed = false
	}
	for d.armed {
		d.idle.Wait()
	}
	d.mu.Unlock()
	d.flush()
	d.writing.Lock()
	defer d.writing.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.log.close()
	if lost := d.lost + bytes.Count(d.buf, []byte{'\n'}); lost > 0 {
		err = fmt.Errorf("%d event records were lost: their file could not be written", lost)
	}
	d.buf, d.spare, d.lost = nil, nil, 0
	return err
}

package archive

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/tree"
)

// The pipeline of a pack: one lister walks the tree in order and opens the
// files, a few readers fill chunks, one writer takes the items in order. At most
// ahead items are between lister and writer, each with a few chunks, which bounds
// memory and descriptors.
const (
	ahead     = 32
	chunkSize = 128 << 10
	chunks    = 2
)

// item is one entry on its way to the writer.
type item struct {
	rel    string
	header *tar.Header
	file   *os.File    // nil for all but regular files
	size   int64       // of the file when it was listed
	mtime  time.Time   // likewise
	chunks chan []byte // closed by the reader; empty slices do not occur

	// Set by the reader; valid when chunks is closed.
	err     error
	changed bool
}

// packer holds what lister, readers and writer share.
type packer struct {
	ctx    context.Context // ends the pipeline; lives as long as the call
	cancel context.CancelCauseFunc
	queue  chan *item // to the writer, in order
	jobs   chan *item // to the readers, in the same order
	pool   sync.Pool

	report  Report // the lister's part: Left
	vanish  []string
	links   map[[2]uint64]string
	current tree.Progress
}

func pack(ctx context.Context, dir *os.File, w io.Writer, opts PackOptions) (Report, error) {
	inner, cancel := context.WithCancelCause(ctx)
	p := &packer{
		ctx: inner, cancel: cancel,
		queue: make(chan *item, ahead), jobs: make(chan *item, ahead),
		links: map[[2]uint64]string{},
	}
	p.pool.New = func() any { return make([]byte, chunkSize) }
	defer cancel(nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(p.queue)
		defer close(p.jobs)
		if err := p.list(dir, opts); err != nil {
			cancel(err)
		}
	})
	readers := opts.Workers
	if readers <= 0 {
		readers = tree.DefaultWorkers
	}
	for range readers {
		wg.Go(func() {
			for it := range p.jobs {
				p.read(it)
			}
		})
	}
	report, err := p.write(w, opts.Progress)
	if err != nil {
		cancel(err)
	}
	for it := range p.queue { // let the others run out
		p.drop(it)
	}
	wg.Wait()
	report.Left, report.LeftOut = p.report.Left, p.report.LeftOut
	report.Changed = append(report.Changed, p.vanish...)
	if err == nil {
		err = context.Cause(inner)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return report, packError(err)
}

// stopped returns why the pipeline ends early, or nil.
func (p *packer) stopped() error {
	if p.ctx.Err() == nil {
		return nil
	}
	return context.Cause(p.ctx)
}

// packError gives err its code. A cancellation stays recognisable as the cause.
func packError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	fe := &fault.Error{Code: fault.WorkspaceArchiveReadError, Op: "persist", Message: "the workspace could not be archived", Err: err}
	if fault.Canceled(err) {
		fe.Reason, fe.Message, fe.Retry = "cancelled", "archiving the workspace was cancelled", fault.RetryYes
	}
	if ee, ok := errors.AsType[*entryError](err); ok {
		fe.Path = ee.rel
		fe.Details = map[string]any{"member": "./" + ee.rel}
		fe.Err = ee.err
	}
	return fe
}

// entryError is a failure to read one entry.
type entryError struct {
	rel string
	err error
}

func (e *entryError) Error() string { return fmt.Sprintf("read %q: %v", e.rel, e.err) }
func (e *entryError) Unwrap() error { return e.err }

// list walks the tree and queues its entries.
func (p *packer) list(dir *os.File, opts PackOptions) error {
	if ShouldSkip(".", opts.Skip) {
		return nil
	}
	skip := make(map[string]bool, len(opts.Skip))
	for _, s := range opts.Skip {
		skip[cleanName(s)] = true
	}
	st, err := dir.Stat()
	if err != nil {
		return &entryError{".", err}
	}
	root := &tar.Header{
		Typeflag: tar.TypeDir, Name: ".", Mode: int64(st.Mode().Perm()), ModTime: st.ModTime(),
		Format: tar.FormatPAX, PAXRecords: map[string]string{markKey: markValue},
	}
	if err := p.put(&item{rel: ".", header: root}); err != nil {
		return err
	}
	o := tree.Options{Thread: opts.Thread}
	if len(skip) > 0 {
		o.Skip = func(rel string) bool { return skip[rel] }
	}
	return tree.Ordered(p.ctx, dir, o, p.entry)
}

// put hands an item to the writer, and to a reader before that if it is a file:
// so whatever the writer waits for is in a reader's hands.
func (p *packer) put(it *item) error {
	if it.file != nil {
		select {
		case p.jobs <- it:
		case <-p.ctx.Done():
			_ = it.file.Close()
			return p.stopped()
		}
	}
	select {
	case p.queue <- it:
		return nil
	case <-p.ctx.Done():
		return p.stopped()
	}
}

func (p *packer) entry(e *tree.Entry) error {
	rel := e.Rel()
	if e.Err != nil {
		return &entryError{rel, e.Err}
	}
	it := &item{rel: rel, header: &tar.Header{
		Name: "./" + rel, Mode: int64(e.Mode & 0o1777), ModTime: e.MTime, Format: tar.FormatPAX,
	}}
	h := it.header
	switch e.Kind {
	case tree.Dir:
		if e.Mount {
			p.leave(rel, e)
			return nil
		}
		h.Typeflag = tar.TypeDir
	case tree.Symlink:
		target, err := e.Readlink()
		if errors.Is(err, tree.ErrChanged) {
			p.vanished(rel)
			return nil
		}
		if err != nil {
			return &entryError{rel, err}
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
	case tree.File:
		return p.file(it, e)
	default:
		p.leave(rel, e)
		return nil
	}
	return p.put(it)
}

func (p *packer) file(it *item, e *tree.Entry) error {
	if e.Mount {
		p.leave(it.rel, e)
		return nil
	}
	h := it.header
	key := [2]uint64{e.Dev, e.Ino}
	if e.Nlink > 1 {
		if first, ok := p.links[key]; ok {
			h.Typeflag, h.Linkname = tar.TypeLink, "./"+first
			return p.put(it)
		}
	}
	f, err := e.Open()
	if errors.Is(err, tree.ErrChanged) {
		p.vanished(it.rel)
		return nil
	}
	if err != nil {
		return &entryError{it.rel, err}
	}
	if e.Nlink > 1 {
		p.links[key] = it.rel
	}
	h.Typeflag, it.size, it.mtime = tar.TypeReg, e.Size, e.MTime
	h.PAXRecords = userXattrs(f)
	it.file = f
	it.chunks = make(chan []byte, chunks)
	return p.put(it)
}

func (p *packer) leave(rel string, e *tree.Entry) {
	p.report.LeftOut++
	if len(p.report.Left) < tree.MaxNamed {
		p.report.Left = append(p.report.Left, tree.Left{Rel: rel, Kind: e.Kind, Mount: e.Mount})
	}
}

// vanished notes a file that was replaced between its listing and its reading.
func (p *packer) vanished(rel string) {
	if len(p.vanish) < tree.MaxNamed {
		p.vanish = append(p.vanish, rel)
	}
}

// read fills the chunks of one file.
func (p *packer) read(it *item) {
	defer close(it.chunks)
	defer it.file.Close()
	defer func() {
		st, err := it.file.Stat()
		it.changed = err != nil || st.Size() != it.size || !st.ModTime().Equal(it.mtime)
	}()
	for total := int64(0); ; {
		buf := p.pool.Get().([]byte)
		n, err := io.ReadFull(it.file, buf)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			err = nil
			if n == 0 {
				p.pool.Put(buf)
				return
			}
		}
		if err != nil {
			it.err = &entryError{it.rel, err}
			return
		}
		select {
		case it.chunks <- buf[:n]:
		case <-p.ctx.Done():
			return
		}
		// A file that grows faster than it is read must not hold the caller.
		if total += int64(n); n < chunkSize || total >= it.size {
			return
		}
	}
}

// drop lets go of an item that will not be written.
func (p *packer) drop(it *item) {
	if it.chunks == nil {
		return
	}
	for b := range it.chunks {
		p.pool.Put(b[:chunkSize])
	}
}

// write takes the items in order and writes the tar.
func (p *packer) write(w io.Writer, report func(tree.Progress)) (Report, error) {
	out := bufio.NewWriterSize(w, 1<<20)
	tw := tar.NewWriter(out)
	var r Report
	for it := range p.queue {
		err := p.stopped()
		if err == nil {
			err = p.writeItem(tw, it, &r)
		}
		if err != nil {
			p.drop(it)
			return r, err
		}
		p.current.Entries++
		if report != nil && p.current.Entries%64 == 0 {
			p.current.Bytes = r.Bytes
			report(p.current)
		}
	}
	if err := p.stopped(); err != nil {
		return r, err
	}
	err := tw.Close()
	if err == nil {
		err = out.Flush()
	}
	if err == nil && report != nil {
		p.current.Bytes = r.Bytes
		report(p.current)
	}
	return r, err
}

func (p *packer) writeItem(tw *tar.Writer, it *item, r *Report) error {
	switch it.header.Typeflag {
	case tar.TypeDir:
		if it.rel != "." {
			r.Dirs++
		}
	case tar.TypeSymlink:
		r.Symlinks++
	case tar.TypeLink:
		r.Links++
	case tar.TypeReg:
		r.Files++
		return p.writeFile(tw, it, r)
	}
	return tw.WriteHeader(it.header)
}

// writeFile writes a file's header and content. The header's size is that of
// the first chunk if it is the whole file, else the one from the listing, to
// which the content is cut or filled up with zeros.
func (p *packer) writeFile(tw *tar.Writer, it *item, r *Report) error {
	first, more := <-it.chunks
	if !more && it.err != nil {
		return it.err
	}
	it.header.Size = int64(len(first))
	if len(first) == chunkSize {
		it.header.Size = max(chunkSize, it.size)
	}
	if err := tw.WriteHeader(it.header); err != nil {
		return err
	}
	left := it.header.Size
	r.Bytes += left
	for buf := first; more; buf, more = <-it.chunks {
		if err := p.stopped(); err != nil {
			return err
		}
		n := min(left, int64(len(buf)))
		_, err := tw.Write(buf[:n])
		left -= n
		p.pool.Put(buf[:chunkSize])
		if err != nil {
			return err
		}
	}
	if it.err != nil {
		return it.err
	}
	if err := p.stopped(); err != nil {
		return err // the reader may have stopped early for it
	}
	if it.changed && len(r.Changed) < tree.MaxNamed {
		r.Changed = append(r.Changed, it.rel)
	}
	return pad(tw, left)
}

func pad(w io.Writer, n int64) error {
	zeros := make([]byte, min(n, chunkSize))
	for n > 0 {
		k, err := w.Write(zeros[:min(n, chunkSize)])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

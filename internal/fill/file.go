package fill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"

	"github.com/croftdev/croft/internal/root"
	"github.com/croftdev/croft/internal/tree"
	"github.com/croftdev/croft/manifest"
)

// makeFile writes one file of the manifest or of the host.
func (a *applier) makeFile(ctx context.Context, j job) error {
	if f, ok := j.entry.(*manifest.File); ok {
		return a.write(ctx, j, &counted{r: bytes.NewReader(f.Content), sum: sha256.New(), total: &a.total})
	}
	f, err := j.src.openFile()
	if err != nil {
		return j.src.fault(j.name, "", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return j.src.fault(j.name, "", err)
	}
	r := &counted{r: f, sum: sha256.New(), total: &a.total, file: f, before: st}
	err = a.write(ctx, j, r)
	if err != nil && r.err != nil && ctx.Err() == nil {
		return j.src.fault(j.name, "", r.err)
	}
	return err
}

func (a *applier) write(ctx context.Context, j job, r *counted) error {
	mode := j.perm
	if _, err := a.t.WriteFile(ctx, a.abs(j.name), r, root.WriteOptions{Mode: &mode}); err != nil {
		return a.workspace(j.name, err)
	}
	if j.gid >= 0 {
		if err := a.groupOfFile(ctx, j); err != nil {
			return err
		}
	}
	a.total.add(1, 0)
	a.note(File{Path: j.name, SHA256: hex.EncodeToString(r.sum.Sum(nil)), Size: r.n, Local: j.src != nil})
	return nil
}

func (a *applier) groupOfFile(ctx context.Context, j job) error {
	f, err := a.t.Open(ctx, a.abs(j.name), nil)
	if err != nil {
		return a.workspace(j.name, err)
	}
	defer f.Close()
	if err := f.Chown(-1, j.gid); err != nil {
		return groupFault(j.name, j.entry, err)
	}
	return nil
}

// counted reads a source and keeps its digest and size. A host file that changes
// while it is read gives an error at its end, so that the workspace's file does
// not appear.
type counted struct {
	r     io.Reader
	sum   hash.Hash
	n     int64
	total *progress

	file   *os.File // nil for content of the manifest
	before fs.FileInfo
	err    error // of the source
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.sum.Write(b[:n])
	c.n += int64(n)
	if c.total != nil {
		c.total.add(0, int64(n))
	}
	if c.file == nil {
		return n, err
	}
	if c.n > c.before.Size() {
		err = tree.ErrChanged // or one that grows without end would be read for ever
	}
	if errors.Is(err, io.EOF) {
		err = c.unchanged()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// unchanged returns io.EOF if the file is still what it was when it was opened.
func (c *counted) unchanged() error {
	now, err := c.file.Stat()
	switch {
	case err != nil:
		return err
	case c.n != c.before.Size() || now.Size() != c.before.Size() || !now.ModTime().Equal(c.before.ModTime()):
		return tree.ErrChanged
	}
	return io.EOF
}

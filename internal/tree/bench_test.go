//go:build linux

package tree_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/croftdev/croft/internal/tree"
)

// Each benchmark makes its trees before the clock runs: creating files soon after
// deleting many is slow on some file systems. Compare the arms of one run only.

const (
	benchDirs  = 300
	benchFiles = 8
)

func BenchmarkWalk(b *testing.B) {
	dir := b.TempDir()
	many(b, dir, benchDirs, benchFiles)
	d := openDir(b, dir)
	b.Run("std", func(b *testing.B) {
		for b.Loop() {
			must(b, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
				if err == nil {
					_, err = os.Lstat(p)
				}
				return err
			}))
		}
	})
	for _, workers := range []int{1, 2, 4} {
		b.Run("workers="+strconv.Itoa(workers), func(b *testing.B) {
			for b.Loop() {
				var n atomic.Int64
				must(b, tree.Walk(b.Context(), d, tree.Options{Workers: workers}, func(*tree.Entry) error {
					n.Add(1)
					return nil
				}))
			}
		})
	}
}

func BenchmarkRemove(b *testing.B) {
	arm := func(name string, remove func(b *testing.B, parent *os.File, name string)) {
		b.Run(name, func(b *testing.B) {
			base := b.TempDir()
			for i := range b.N {
				many(b, filepath.Join(base, strconv.Itoa(i)), benchDirs, benchFiles)
			}
			parent := openDir(b, base)
			b.ResetTimer()
			for i := range b.N {
				remove(b, parent, strconv.Itoa(i))
			}
		})
	}
	arm("std", func(b *testing.B, parent *os.File, name string) {
		must(b, os.RemoveAll(filepath.Join(parent.Name(), name)))
	})
	for _, workers := range []int{1, 2, 4} {
		arm("workers="+strconv.Itoa(workers), func(b *testing.B, parent *os.File, name string) {
			_, err := tree.Remove(b.Context(), parent, name, tree.RemoveOptions{Options: tree.Options{Workers: workers}})
			must(b, err)
		})
	}
}

func BenchmarkCopy(b *testing.B) {
	src, base := b.TempDir(), b.TempDir()
	many(b, src, benchDirs, benchFiles)
	s := openDir(b, src)
	for i := 0; b.Loop(); i++ {
		dst := filepath.Join(base, strconv.Itoa(i))
		must(b, os.Mkdir(dst, 0o755))
		d, err := os.Open(dst)
		must(b, err)
		_, err = tree.Copy(b.Context(), s, d, tree.CopyOptions{})
		must(b, err)
		d.Close()
	}
}

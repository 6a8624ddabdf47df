package root

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pairs here are the promises of the package about cost: reading 4 KB six
// directories down costs no more than os.ReadFile and half of os.Root.ReadFile;
// listing 10,000 entries with their properties 1.2 times os.ReadDir and Lstat.

const deepFile = "a/b/c/d/e/f.txt"

func benchTree(b *testing.B) (*Tree, string) {
	dir := b.TempDir()
	must(b, os.MkdirAll(filepath.Join(dir, filepath.Dir(deepFile)), 0o755))
	must(b, os.WriteFile(filepath.Join(dir, deepFile), []byte(strings.Repeat("x", 4096)), 0o644))
	tr, err := Open(Options{Path: dir})
	must(b, err)
	b.Cleanup(func() { tr.Close() })
	return tr, dir
}

func BenchmarkRead(b *testing.B) {
	tr, dir := benchTree(b)
	std, err := os.OpenRoot(dir)
	must(b, err)
	defer std.Close()
	path := filepath.Join(dir, deepFile)
	b.Run("croft", func(b *testing.B) {
		for b.Loop() {
			data, err := tr.ReadFile(b.Context(), deepFile, ReadOptions{})
			if err != nil || len(data) != 4096 {
				b.Fatal(len(data), err)
			}
		}
	})
	b.Run("croft-slow-way", func(b *testing.B) {
		tr.slowOnly = true
		defer func() { tr.slowOnly = false }()
		for b.Loop() {
			if _, err := tr.ReadFile(b.Context(), deepFile, ReadOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("os.ReadFile", func(b *testing.B) {
		for b.Loop() {
			if _, err := os.ReadFile(path); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("os.Root.ReadFile", func(b *testing.B) {
		for b.Loop() {
			if _, err := std.ReadFile(deepFile); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkList10000(b *testing.B) {
	tr, dir := benchTree(b)
	must(b, os.Mkdir(filepath.Join(dir, "many"), 0o755))
	for i := range 10000 {
		must(b, os.WriteFile(fmt.Sprintf("%s/many/file-%05d.txt", dir, i), nil, 0o644))
	}
	b.Run("croft", func(b *testing.B) {
		for b.Loop() {
			entries, err := tr.List(b.Context(), "many", nil)
			if err != nil || len(entries) != 10000 {
				b.Fatal(len(entries), err)
			}
		}
	})
	b.Run("os.ReadDir+Lstat", func(b *testing.B) {
		for b.Loop() {
			entries, err := os.ReadDir(dir + "/many")
			must(b, err)
			for _, e := range entries {
				if _, err := os.Lstat(dir + "/many/" + e.Name()); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	tr, dir := benchTree(b)
	text := strings.Repeat("y", 4096)
	b.Run("croft-replace", func(b *testing.B) {
		for b.Loop() {
			if _, err := tr.WriteFile(b.Context(), deepFile, strings.NewReader(text), WriteOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("os.WriteFile", func(b *testing.B) {
		for b.Loop() {
			must(b, os.WriteFile(filepath.Join(dir, deepFile), []byte(text), 0o644))
		}
	})
}

func BenchmarkReadAsUser(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	tr, dir := benchTree(b)
	for d := dir; d != "/"; d = filepath.Dir(d) {
		os.Chmod(d, 0o755)
	}
	u, err := LookupUser(testUser)
	must(b, err)
	for b.Loop() {
		if _, err := tr.ReadFile(b.Context(), deepFile, ReadOptions{User: u}); err != nil {
			b.Fatal(err)
		}
	}
}

package root

import (
	"os"
	"testing"
)

const (
	testUser = "nobody"
	nobody   = 65534
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == hostileArg {
		hostile(os.Args[2:])
		return
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tempDir is a directory that other users can reach.
func tempDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "root-test-") //nolint:usetesting // t.TempDir is closed to other users
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

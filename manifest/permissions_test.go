package manifest

import (
	"errors"
	"testing"

	"github.com/croftdev/croft/internal/fault"
)

func TestParsePermissions(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string
		err  error
	}{
		{text: "-rw-r--r--", want: "-rw-r--r--"},
		{text: "drwxr-x---", want: "drwxr-x---"},
		{text: "-rwsr-sr-t", want: "-rwxr-xr-x"},
		{text: "-rwSr-Sr-T", want: "-rw-r--r--"},
		{text: "-rw-r--r--+", want: "-rw-r--r--"},
		{text: "-rw-r--r--@", want: "-rw-r--r--"},
		{text: "-rw-r--r--.", err: fault.InvalidArgument},
		{text: "-rw-r--r", err: fault.InvalidArgument},
		{text: "lrwxrwxrwx", err: fault.InvalidArgument},
		{text: "-wr-r--r--", err: fault.InvalidArgument},
		{text: "-rwtr--r--", err: fault.InvalidArgument},
		{text: "-rw-r--r-s", err: fault.InvalidArgument},
		{text: "-rw-r--r-X", err: fault.InvalidArgument},
		{text: "0644", err: fault.InvalidArgument},
		{text: "", err: fault.InvalidArgument},
	} {
		t.Run(tt.text, func(t *testing.T) {
			got, err := ParsePermissions(tt.text)
			if !errors.Is(err, tt.err) || err == nil && got.String() != tt.want {
				t.Errorf("ParsePermissions(%q) = %v, %v; want %s, %v", tt.text, got, err, tt.want, tt.err)
			}
		})
	}
}

// TestPermissionsFromMode keeps the nine bits and the mark of a directory only: a
// socket and a block device have that mark's bit in theirs.
func TestPermissionsFromMode(t *testing.T) {
	for mode, want := range map[uint32]string{
		0o100644: "-rw-r--r--", 0o040755: "drwxr-xr-x", 0o104755: "-rwxr-xr-x", 0o140777: "-rwxrwxrwx", 0o060660: "-rw-rw----",
	} {
		if got := PermissionsFromMode(mode).String(); got != want {
			t.Errorf("PermissionsFromMode(%o) = %s, want %s", mode, got, want)
		}
	}
}

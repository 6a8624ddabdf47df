//go:build !linux

package root

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/croftdev/croft/internal/fault"
)

// Tree cannot be opened on this system.
type Tree struct{}

var errOther error = &fault.Error{Code: fault.Unsupported, Retry: fault.RetryNo,
	Message: "workspaces are not supported on this system yet",
	Err:     fmt.Errorf("root: %w", errors.ErrUnsupported)}

func openTree(Options) (*Tree, error)   { return nil, errOther }
func doAs(identity, func() error) error { return errOther }

func (*Tree) close() error                                                  { return nil }
func (*Tree) dir() *os.File                                                 { return nil }
func (*Tree) path() string                                                  { return "" }
func (*Tree) grantRoots() []GrantRoot                                       { return nil }
func (*Tree) lexical() *Names                                               { return nil }
func (*Tree) readFile(context.Context, string, ReadOptions) ([]byte, error) { return nil, errOther }
func (*Tree) openFile(context.Context, string, *User) (*os.File, error)     { return nil, errOther }
func (*Tree) openDir(context.Context, string, *User) (*os.File, error)      { return nil, errOther }
func (*Tree) writeFile(context.Context, string, io.Reader, WriteOptions) (WriteResult, error) {
	return WriteResult{}, errOther
}
func (*Tree) appendFile(context.Context, string, io.Reader, WriteOptions) (WriteResult, error) {
	return WriteResult{}, errOther
}
func (*Tree) list(context.Context, string, *User) ([]Info, error)             { return nil, errOther }
func (*Tree) stat(context.Context, string, bool, *User) (Info, error)         { return Info{}, errOther }
func (*Tree) mkdir(context.Context, string, MkdirOptions) error               { return errOther }
func (*Tree) remove(context.Context, string, RemoveOptions) error             { return errOther }
func (*Tree) rename(context.Context, string, string, RenameOptions) error     { return errOther }
func (*Tree) copy(context.Context, string, string, CopyOptions) error         { return errOther }
func (*Tree) symlink(context.Context, string, string, *User) error            { return errOther }
func (*Tree) readlink(context.Context, string, *User) (string, error)         { return "", errOther }
func (*Tree) chmod(context.Context, string, fs.FileMode, *User) error         { return errOther }
func (*Tree) resolve(context.Context, string, ResolveOptions) (string, error) { return "", errOther }
func (*Tree) removalTarget(context.Context, string, *User) (string, error)    { return "", errOther }

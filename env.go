package croft

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/croftdev/croft/internal/confine"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/process"
	"github.com/croftdev/croft/manifest"
)

// maxHostFile bounds a file that becomes the value of a variable.
const maxHostFile = 128 << 10

// commandEnv builds the environment of commands from nothing: the basic variables,
// those of this process that were named, the manifest's, and the program's, each
// stronger than the one before. Nothing of this process's environment passes unnamed.
func (s *Session) commandEnv(ctx context.Context, cell *confine.Cell) ([]string, error) {
	resolved, err := s.plan.manifest.Environment.Resolve(ctx, manifest.Lookup{
		Variable: os.LookupEnv,
		File:     func(_ context.Context, path string) ([]byte, error) { return s.hostFile(path) },
	})
	if err != nil {
		return nil, err
	}
	vars := make(map[string]string, len(resolved))
	for _, v := range resolved {
		vars[v.Name] = v.Value
	}
	base := process.Base{Path: cell.SearchPath(), Home: cell.Home(), User: cell.User(), Term: os.Getenv("TERM")}
	return base.Environ(process.Pass(s.plan.kept.PassEnv, os.LookupEnv), vars, s.plan.kept.Env)
}

// hostFile reads a host file that a trusted manifest names as the value of a variable.
func (s *Session) hostFile(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.plan.kept.BaseDir, path)
	}
	f, err := os.Open(path) //nolint:forbidigo // a host file that the trusted side named, outside every workspace
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxHostFile+1))
	if err == nil && len(data) > maxHostFile {
		err = &fault.Error{Code: fault.LimitExceeded, Op: "start", Reason: "host_file", Retry: fault.RetryNo,
			Message: "a host file that becomes a variable is larger than 128 KiB"}
	}
	return data, err
}

// chooseUID gives a new session of root the uid under which its commands run.
func (c *Client) chooseUID(uid *int) error {
	if !confine.IsRoot() || *uid != 0 {
		return nil
	}
	chosen, err := confine.ChooseUID()
	if err != nil {
		return err
	}
	*uid = chosen
	return nil
}

// ownTop gives a restored workspace's own directory to the uid of its commands.
func ownTop(dir *os.File, uid int) error {
	if err := dir.Chmod(0o755); err != nil {
		return err
	}
	if uid == 0 {
		return nil
	}
	return dir.Chown(uid, uid)
}

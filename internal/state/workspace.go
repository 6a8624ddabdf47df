package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/durable"
)

// stagePrefix begins the name of a directory in which a workspace is being made.
const stagePrefix = ".stage-"

// WorkspacePath returns the path of the session's own workspace, be it there or not.
func (l *Lock) WorkspacePath() string { return filepath.Join(l.Path(), WorkspaceName) }

// MakeWorkspace makes an empty workspace of mode 0755, which belongs to uid and the
// gid of that number unless uid is 0. One that is there stays as it is.
func (l *Lock) MakeWorkspace(uid int) error {
	if err := l.dir.Mkdir(WorkspaceName); err != nil {
		return writeFailed("start", l.id, err)
	}
	d, err := l.dir.OpenDir(WorkspaceName)
	if err != nil {
		return writeFailed("start", l.id, err)
	}
	defer d.Close()
	err = d.File().Chmod(0o755)
	if err == nil && uid != 0 {
		err = d.File().Chown(uid, uid)
	}
	if err != nil {
		return writeFailed("start", l.id, err)
	}
	return nil
}

// Logs opens the directory of the output logs of the session's commands, made where
// it is missing. The caller closes it.
func (l *Lock) Logs() (*durable.Dir, error) {
	err := l.dir.Mkdir(LogsName)
	if err != nil {
		return nil, writeFailed("logs", l.id, err)
	}
	d, err := l.dir.OpenDir(LogsName)
	if err != nil {
		return nil, writeFailed("logs", l.id, err)
	}
	return d, nil
}

// Stage makes an empty directory beside the workspace, to be filled and then given
// to [Lock.Adopt]. What is never adopted goes to the trash when the session is
// taken the next time. The caller closes the directory.
func (l *Lock) Stage() (name string, dir *os.File, err error) {
	name = stagePrefix + durable.RandomName()
	if err := l.dir.Mkdir(name); err != nil {
		return "", nil, writeFailed("stage", l.id, err)
	}
	d, err := l.dir.OpenDir(name)
	if err != nil {
		return "", nil, writeFailed("stage", l.id, err)
	}
	return name, d.File(), nil
}

// Adopt makes the staged directory the workspace. A workspace that is there is
// swapped with it in one step, so that at every moment the one or the other is
// whole in its place, and then goes to the trash.
func (l *Lock) Adopt(stage string) error {
	err := l.dir.Exchange(stage, WorkspaceName)
	switch {
	case err == nil:
		return l.discard(stage)
	case errors.Is(err, fs.ErrNotExist):
		err = l.dir.Rename(stage, l.dir, WorkspaceName)
	}
	if err != nil {
		return writeFailed("adopt", l.id, err)
	}
	return nil
}

// TrashWorkspace moves the session's own workspace to the trash and keeps the
// session. That there is none is no error.
func (l *Lock) TrashWorkspace() error { return l.discard(WorkspaceName) }

// DiscardStage moves a staged directory to the trash.
func (l *Lock) DiscardStage(stage string) error { return l.discard(stage) }

// discard moves a directory in the session's directory to the trash.
func (l *Lock) discard(name string) error {
	err := l.unlockDir(name)
	if err == nil {
		err = l.dir.Rename(name, l.d.trash, l.id.String()+"-"+durable.RandomName())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return writeFailed("discard", l.id, err)
	}
	return nil
}

// unlockDir gives the owner all rights on the directory name. A command may have
// taken them from the workspace, and an ordinary user cannot move a directory that
// he may not write in (rename(2)) nor look into it. Nothing but croft can change
// entries of the session's directory, so the name cannot be a link in between.
func (l *Lock) unlockDir(name string) error {
	var st unix.Stat_t
	fd := int(l.dir.File().Fd())
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o700 == 0o700 {
		return nil
	}
	return unix.Fchmodat(fd, name, 0o700, 0)
}

// dropStages moves what killed processes staged to the trash.
func (l *Lock) dropStages() error {
	names, err := l.dir.Names()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if strings.HasPrefix(name, stagePrefix) {
			errs = append(errs, l.discard(name))
		}
	}
	return errors.Join(errs...)
}

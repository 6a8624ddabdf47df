package confine

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/policy"
)

// rootBuilder makes the root file system of a cell inside the warden's own mount
// namespace.
type rootBuilder struct {
	setup       *setup
	root        int // the new root, attached
	notEnforced []policy.NotEnforced
}

// stagingPoint is where the new root is mounted until it becomes the root. It exists
// on every Linux that can start a cell, and nothing below it is needed any more once
// every host path has been cloned.
const stagingPoint = "/proc"

// buildRoot makes the root of a cell and enters it. When it returns, nothing of the
// host's tree can be named any more, by this process or any later one, but by
// descriptors that are held open.
func buildRoot(s *setup) ([]policy.NotEnforced, error) {
	// Nothing mounted from here on may show on the host. MS_REC: the copy of the host's
	// mounts came as it was, shared.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, failed(stepRoot, "/", err)
	}
	if err := cloneItems(s, nil); err != nil {
		return nil, err
	}
	copyItems(s)
	b := &rootBuilder{setup: s}
	fs, err := newFS("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, [2]string{"mode", "0755"}, [2]string{"size", "16m"})
	if err != nil {
		return nil, failed(stepRoot, "/", err)
	}
	if err := unix.MoveMount(fs, "", unix.AT_FDCWD, stagingPoint, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return nil, failed(stepRoot, "/", err)
	}
	b.root = fs
	for i := range s.Items {
		if err := b.place(&s.Items[i]); err != nil {
			if f, ok := errors.AsType[*failure](err); ok {
				return nil, f
			}
			return nil, failed(stepAttach, s.Items[i].Target, err)
		}
	}
	if err := b.protect(); err != nil {
		return nil, err
	}
	ro := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(b.root, "", unix.AT_EMPTY_PATH, &ro); err != nil {
		return nil, failed(stepRoot, "/", err)
	}
	return b.notEnforced, b.enter()
}

// cloneItems makes a detached mount of each item that shows a host path and has none
// yet. prepare, if not nil, changes a mount before anybody can reach it.
func cloneItems(s *setup, prepare func(it *item) error) error {
	for i := range s.Items {
		it := &s.Items[i]
		if it.Kind != itemBind || it.Mount != 0 {
			continue
		}
		err := cloneItem(it, s.Privileged)
		if it.Optional && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES)) {
			continue
		}
		if err != nil {
			return failed(stepBind, it.Source, errnoOr(err))
		}
		if prepare != nil {
			if err := prepare(it); err != nil {
				return err
			}
		}
	}
	return nil
}

// cloneItem sets it.Mount. On the privileged side the held descriptor itself is
// cloned. An ordinary user's warden cannot do that, since the descriptor belongs to
// another mount namespace: it clones by path and compares.
func cloneItem(it *item, privileged bool) error {
	if it.Dir != 0 && privileged {
		fd, err := cloneMount(it.Dir, "", it.ReadOnly, it.Devices)
		it.Mount = max(fd, 0)
		return err
	}
	fd, err := cloneMount(unix.AT_FDCWD, it.Source, it.ReadOnly, it.Devices)
	if err != nil {
		return err
	}
	if it.Dir != 0 {
		same, err := sameFile(fd, it.Dir)
		if err == nil && !same {
			err = failed(stepIdentity, it.Source, nil)
		}
		if err != nil {
			unix.Close(fd)
			return err
		}
	}
	it.Mount = fd
	return nil
}

// errnoOr keeps a failure and an errno as they are.
func errnoOr(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return errnoOf(err)
}

// maxCopy bounds a copied file of /etc; ld.so.cache is the largest, some 100 KB.
const maxCopy = 4 << 20

// copyItems reads what is copied from the host. A file that cannot be read is left
// out: the list holds only what every user may read.
func copyItems(s *setup) {
	for i := range s.Items {
		it := &s.Items[i]
		if it.Kind != itemCopy {
			continue
		}
		if text, err := readSmall(it.Source, maxCopy); err == nil {
			it.Kind, it.Content = itemFile, text
		}
	}
}

// place puts one item into the new root.
func (b *rootBuilder) place(it *item) error {
	switch it.Kind {
	case itemBind:
		if it.Mount == 0 {
			return nil
		}
		return b.placeMount(it)
	case itemTmpfs:
		fd, err := newFS("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, [2]string{"mode", fmt.Sprintf("%o", it.Mode)})
		if err != nil {
			return err
		}
		it.Mount = fd
		return b.placeMount(it)
	case itemProc:
		// hidepid: the warden is not dumpable, so /proc/1 does not even show.
		fd, err := newFS("proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC, [2]string{"hidepid", "invisible"})
		if err != nil {
			return failed(stepProc, it.Target, errnoOf(err))
		}
		it.Mount = fd
		return b.placeMount(it)
	case itemDevpts:
		fd, err := newFS("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, [2]string{"ptmxmode", "0666"}, [2]string{"mode", "0620"})
		if err != nil {
			return err
		}
		it.Mount = fd
		return b.placeMount(it)
	}
	dir, base, err := b.parent(it.Target)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	switch it.Kind {
	case itemDir:
		err = unix.Mkdirat(dir, base, 0o755)
	case itemLink:
		err = unix.Symlinkat(it.Source, dir, base)
	case itemFile:
		err = writeFileAt(dir, base, it.Content)
	}
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// placeMount attaches it.Mount at it.Target and closes it.
func (b *rootBuilder) placeMount(it *item) error {
	defer func() {
		unix.Close(it.Mount)
		it.Mount = 0
	}()
	dir, err := isDir(it.Mount)
	if err != nil {
		return err
	}
	if err := b.mountPoint(it.Target, dir); err != nil {
		return err
	}
	target, err := openIn(b.root, strings.TrimPrefix(it.Target, "/"), 0)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	return attach(it.Mount, target)
}

// mountPoint makes an empty directory or file at target unless something is there. It
// makes them in the file systems of the session only: a name that is missing below
// something of the host is an error, since making it would leave a trace on the disk.
func (b *rootBuilder) mountPoint(target string, dir bool) error {
	if fd, err := openIn(b.root, strings.TrimPrefix(target, "/"), 0); err == nil {
		unix.Close(fd)
		return nil
	}
	for _, it := range b.setup.Items {
		if it.Kind == itemBind && below(target, it.Target) {
			return failed(stepAttach, target, fmt.Errorf("nothing has that name in %s, which is the host's", it.Target))
		}
	}
	parent, base, err := b.parent(target)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	if dir {
		err = unix.Mkdirat(parent, base, 0o755)
	} else {
		err = writeFileAt(parent, base, "")
	}
	if err == unix.EEXIST {
		return nil
	}
	return err
}

// parent opens the directory of target inside the new root, making it where it is
// missing.
func (b *rootBuilder) parent(target string) (fd int, base string, err error) {
	name, base := path.Split(strings.TrimPrefix(target, "/"))
	name = path.Clean(name)
	if fd, err := openIn(b.root, name, unix.O_DIRECTORY); err == nil {
		return fd, base, nil
	}
	for _, d := range append(parents(name), name) {
		if d == "." {
			continue
		}
		up, last := path.Split(d)
		pfd, err := openIn(b.root, path.Clean(up), unix.O_DIRECTORY)
		if err != nil {
			return -1, "", err
		}
		err = unix.Mkdirat(pfd, last, 0o755)
		unix.Close(pfd)
		// EROFS: it is there, below a read-only bind.
		if err != nil && err != unix.EEXIST && err != unix.EROFS {
			return -1, "", err
		}
	}
	fd, err = openIn(b.root, name, unix.O_DIRECTORY)
	return fd, base, err
}

func writeFileAt(dir int, name, content string) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for data := []byte(content); len(data) > 0; {
		n, err := unix.Write(fd, data)
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// enter makes the new root the root of this process and lets go of the old one. The
// double use of "." is in pivot_root(2): the old root ends up mounted over the new one
// and is detached from there.
func (b *rootBuilder) enter() error {
	defer unix.Close(b.root)
	if err := unix.Fchdir(b.root); err != nil {
		return failed(stepPivot, "", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return failed(stepPivot, "", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return failed(stepPivot, "", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return failed(stepPivot, "", err)
	}
	return nil
}

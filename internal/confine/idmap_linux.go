package confine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// prepareMounts makes, as root of the host, the detached mounts that the warden will
// attach: the session's own uid may not be able to reach the paths at all.
//
// What belongs to somebody else than the session and is to be used by it (a caller's
// root, grants) is mapped: its owner on disk appears as the session's uid and the other
// way round. So a file that a command makes belongs on disk to the owner of the
// directory, and no other owner changes.
func (f *forker) prepareMounts(set *setup) error {
	prepare := func(it *item) error {
		if !it.Foreign {
			return nil
		}
		return f.mapOwner(set, it)
	}
	if err := f.chooseOwner(set); err != nil {
		return err
	}
	return cloneItems(set, prepare)
}

// chooseOwner decides whose uid a session in a caller's root gets where mounts cannot
// be mapped (overlayfs, a container's own root): that of the directory's owner. It never
// is root.
func (f *forker) chooseOwner(set *setup) error {
	for i := range set.Items {
		it := &set.Items[i]
		if !it.Workspace || !it.Foreign {
			continue
		}
		if err := cloneItem(it, true); err != nil {
			return failed(stepBind, it.Source, errnoOr(err))
		}
		err := f.mapOwner(set, it)
		if err == nil {
			return nil
		}
		fail, ok := errors.AsType[*failure](err)
		var st unix.Stat_t
		if !ok || fail.Step != stepIDMap || unix.Fstat(it.Mount, &st) != nil || st.Uid == 0 {
			return err
		}
		set.User.HostUID, set.User.HostGID = int(st.Uid), int(st.Gid)
		if st.Gid == 0 {
			set.User.HostGID = int(st.Uid)
		}
		return nil
	}
	return nil
}

// mapOwner maps the owner of it.Mount to the session. A read-only bind that cannot be
// mapped stays as it is: commands read what others may read.
func (f *forker) mapOwner(set *setup, it *item) error {
	var st unix.Stat_t
	if err := unix.Fstat(it.Mount, &st); err != nil {
		return failed(stepIDMap, it.Source, err)
	}
	u := set.User
	if int(st.Uid) == u.HostUID {
		return nil
	}
	userns, err := f.idmapNamespace(mapping(int(st.Uid), u.HostUID), mapping(int(st.Gid), u.HostGID))
	if err != nil {
		return failed(stepFork, "", errnoOf(err))
	}
	defer unix.Close(userns)
	err = idmapMount(it.Mount, userns)
	if err != nil && it.ReadOnly {
		return nil
	}
	if err != nil {
		return failed(stepIDMap, it.Source, err)
	}
	return nil
}

// mapping maps every id to itself, but owner to session. The session's id on disk maps
// to nothing, since nothing on disk belongs to it.
func mapping(owner, session int) []syscall.SysProcIDMap {
	if owner == session {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: math.MaxUint32}}
	}
	low, high := min(owner, session), max(owner, session)
	list := []syscall.SysProcIDMap{{ContainerID: owner, HostID: session, Size: 1}}
	same := func(from, to int) { // ids from..to-1
		if to > from {
			list = append(list, syscall.SysProcIDMap{ContainerID: from, HostID: from, Size: to - from})
		}
	}
	same(0, low)
	same(low+1, high)
	same(high+1, math.MaxUint32)
	return list
}

// idmapNamespace returns a user namespace with the given maps, which serves to describe
// a mapping and runs nothing. It needs a process until the maps are written.
func (f *forker) idmapNamespace(uids, gids []syscall.SysProcIDMap) (int, error) {
	if f.paused == 0 {
		pid, err := forkPaused(uintptr(os.Getpid()))
		if err != nil {
			return -1, fmt.Errorf("make a user namespace: %w", err)
		}
		f.paused = pid
	}
	defer func() {
		endChild(f.paused)
		f.paused = 0
	}()
	proc := fmt.Sprintf("/proc/%d/", f.paused)
	if err := writeMap(proc+"uid_map", uids); err != nil {
		return -1, err
	}
	if err := writeMap(proc+"gid_map", gids); err != nil {
		return -1, err
	}
	fd, err := unix.Open(proc+"ns/user", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open a user namespace: %w", err)
	}
	return fd, nil
}

// writeMap writes a whole map at once, as user_namespaces(7) demands.
func writeMap(path string, list []syscall.SysProcIDMap) error {
	var b []byte
	for _, m := range list {
		b = fmt.Appendf(b, "%d %d %d\n", m.ContainerID, m.HostID, m.Size)
	}
	return writeProc(path, b)
}

// writeProc writes a file of /proc with one system call.
func writeProc(path string, b []byte) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, b); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func closeMounts(set *setup) {
	for i := range set.Items {
		if m := set.Items[i].Mount; m != 0 {
			unix.Close(m)
		}
	}
}

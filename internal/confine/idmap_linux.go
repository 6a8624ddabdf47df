package confine

import (
	"errors"
	"fmt"
	"math"
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
func prepareMounts(set *setup) error {
	prepare := func(it *item) error {
		if !it.Foreign {
			return nil
		}
		return mapOwner(set, it)
	}
	if err := chooseOwner(set); err != nil {
		return err
	}
	return cloneItems(set, prepare)
}

// chooseOwner decides whose uid a session in a caller's root gets where mounts cannot
// be mapped (overlayfs, a container's own root): that of the directory's owner. It never
// is root.
func chooseOwner(set *setup) error {
	for i := range set.Items {
		it := &set.Items[i]
		if !it.Workspace || !it.Foreign {
			continue
		}
		if err := cloneItem(it, true); err != nil {
			return failed(stepBind, it.Source, errnoOr(err))
		}
		err := mapOwner(set, it)
		if err == nil {
			return nil
		}
		f, ok := errors.AsType[*failure](err)
		var st unix.Stat_t
		if !ok || f.Step != stepIDMap || unix.Fstat(it.Mount, &st) != nil || st.Uid == 0 {
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
func mapOwner(set *setup, it *item) error {
	var st unix.Stat_t
	if err := unix.Fstat(it.Mount, &st); err != nil {
		return failed(stepIDMap, it.Source, err)
	}
	u := set.User
	if int(st.Uid) == u.HostUID {
		return nil
	}
	userns, err := idmapNamespace(mapping(int(st.Uid), u.HostUID), mapping(int(st.Gid), u.HostGID))
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
// a mapping and runs nothing. It needs a process for a moment: the caller's reaper
// collects it.
func idmapNamespace(uids, gids []syscall.SysProcIDMap) (int, error) {
	pid, err := syscall.ForkExec(selfProgram, []string{pauseName}, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{0, 1, 2, fdSocket},
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER, UidMappings: uids, GidMappings: gids, GidMappingsEnableSetgroups: true,
			Pdeathsig: unix.SIGKILL,
		},
	})
	if err != nil {
		return -1, fmt.Errorf("make a user namespace: %w", err)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/user", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	// The process is a child that only this starter reaps, after its death: the number
	// is its own.
	_ = unix.Kill(pid, unix.SIGKILL)
	if err != nil {
		return -1, fmt.Errorf("open a user namespace: %w", err)
	}
	return fd, nil
}

func closeMounts(set *setup) {
	for i := range set.Items {
		if m := set.Items[i].Mount; m != 0 {
			unix.Close(m)
		}
	}
}

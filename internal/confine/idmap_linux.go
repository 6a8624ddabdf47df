package confine

import (
	"errors"
	"fmt"
	"math"
	"sync"
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
func prepareMounts(set *setup, ns *idmapNamespaces) error {
	prepare := func(it *item) error {
		if !it.Foreign {
			return nil
		}
		return mapOwner(set, it, ns)
	}
	if err := chooseOwner(set, ns); err != nil {
		return err
	}
	return cloneItems(set, prepare)
}

// chooseOwner decides whose uid a session in a caller's root gets where mounts cannot
// be mapped (overlayfs, a container's own root): that of the directory's owner. It never
// is root.
func chooseOwner(set *setup, ns *idmapNamespaces) error {
	for i := range set.Items {
		it := &set.Items[i]
		if !it.Workspace || !it.Foreign {
			continue
		}
		if err := cloneItem(it, true); err != nil {
			return failed(stepBind, it.Source, errnoOr(err))
		}
		err := mapOwner(set, it, ns)
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
func mapOwner(set *setup, it *item, ns *idmapNamespaces) error {
	var st unix.Stat_t
	if err := unix.Fstat(it.Mount, &st); err != nil {
		return failed(stepIDMap, it.Source, err)
	}
	u := set.User
	if int(st.Uid) == u.HostUID {
		return nil
	}
	userns, err := ns.make(mapping(int(st.Uid), u.HostUID), mapping(int(st.Gid), u.HostGID))
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

// idmapNamespaces makes user namespaces that serve to describe a mapping and run
// nothing. Each needs a process until its maps are written; one is kept ready, since
// making it takes a fork. All of it happens on the starter's main thread.
type idmapNamespaces struct {
	mu    *sync.Mutex // guards writing spare, and reading it on other threads
	spare int         // pid of its process, or 0
}

// prepare makes the spare one, unless it is there. A failure shows when it is needed.
func (n *idmapNamespaces) prepare() {
	if n.spare != 0 {
		return
	}
	// Locked over the fork too: whoever looks for orphans must find it in spare.
	n.mu.Lock()
	defer n.mu.Unlock()
	pid, err := syscall.ForkExec(selfProgram, []string{pauseName}, &syscall.ProcAttr{
		Dir: "/", Env: []string{}, Files: []uintptr{0, 1, 2, fdSocket},
		Sys: &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, Pdeathsig: unix.SIGKILL},
	})
	if err == nil {
		n.spare = pid
	}
}

// make returns a user namespace with the given maps.
func (n *idmapNamespaces) make(uids, gids []syscall.SysProcIDMap) (int, error) {
	n.prepare()
	if n.spare == 0 {
		return -1, fmt.Errorf("make a user namespace: %w", unix.EAGAIN)
	}
	// The process is a child that only this starter reaps, after its death: the number
	// is its own.
	proc := fmt.Sprintf("/proc/%d/", n.spare)
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		_ = unix.Kill(n.spare, unix.SIGKILL)
		n.spare = 0
	}()
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
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open an id map: %w", err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, b); err != nil {
		return fmt.Errorf("write an id map: %w", err)
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

package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// mount puts a tmpfs at dir, which a held file keeps busy if busy is set.
func (e *env) mount(dir string, busy bool) {
	e.check(os.MkdirAll(dir, 0o755))
	e.check(unix.Mount("croft-case", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""))
	if busy {
		f, err := os.Create(filepath.Join(dir, "held"))
		e.check(err)
		e.cleanup(func() {
			e.check(f.Close())
			e.check(unix.Unmount(dir, unix.MNT_DETACH))
		})
	}
}

// immutableFlag is FS_IMMUTABLE_FL of linux/fs.h, which x/sys does not name.
const immutableFlag = 0x10

// immutable makes a file that nobody can remove until the case is over.
func (e *env) immutable(path string) {
	if os.Geteuid() != 0 {
		e.skipf("needs root, to make an immutable file")
	}
	f, err := os.Create(path)
	e.check(err)
	setFlags := func(flags int) error { return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags) }
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = setFlags(flags | immutableFlag)
	}
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) {
		e.check(f.Close())
		e.skipf("needs a file system with immutable files below %s", e.tmp)
	}
	e.check(err)
	e.cleanup(func() {
		e.check(setFlags(flags))
		e.check(f.Close())
	})
}

// inMountNamespace does the deletion in a child with a mount namespace of its own. An
// ordinary user's child has a user namespace too, and in it the right to mount.
func (e *env) inMountNamespace(d deletion) (got deleted) {
	request, err := json.Marshal(d)
	e.check(err)
	cmd := exec.CommandContext(e.ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), childVar+"=1")
	cmd.Stdin = bytes.NewReader(request)
	var answer, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &answer, &complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	if err := cmd.Start(); err != nil {
		e.skipf("needs a mount namespace of its own: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		e.fatalf("child: %v\n%s%s", err, answer.String(), complaint.String())
	}
	e.check(json.Unmarshal(answer.Bytes(), &got))
	switch {
	case got.Skip != "":
		e.skipf("%s", got.Skip)
	case got.Why != "":
		e.fatalf("%s", got.Why)
	}
	return got
}

// child does the deletion that inMountNamespace asks for and writes the answer.
func child() error {
	var d deletion
	if err := json.NewDecoder(os.Stdin).Decode(&d); err != nil {
		return err
	}
	// What is mounted here stays here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(childDeletion(d))
}

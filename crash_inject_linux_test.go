package croft_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Faults are injected by seccomp's user notification (seccomp_unotify(2)): the
// process under test asks this one before each system call of a few kinds, and
// is killed, given an error, or told to go on. Unlike strace's injection it needs
// no root, counts the calls of all threads together, and knows which lie below the
// state directory or a caller's root.

// faultKinds are the kinds of calls that can be counted and failed. On every
// architecture of Go the older calls without "at" are made through these.
var faultKinds = map[string][]uint32{
	"write":  {unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_COPY_FILE_RANGE, unix.SYS_FTRUNCATE},
	"fsync":  {unix.SYS_FSYNC, unix.SYS_FDATASYNC},
	"rename": {unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT},
	"unlink": {unix.SYS_UNLINKAT},
	"mkdir":  {unix.SYS_MKDIRAT},
}

// fault is what happens at the n-th call of a kind, counted from 1. The zero value
// only counts.
type fault struct {
	kind  string
	n     int64
	kill  bool
	errno unix.Errno
}

func (f fault) String() string {
	what := f.errno.Error()
	if f.kill {
		what = "SIGKILL"
	}
	return fmt.Sprintf("%s at %s %d", what, f.kind, f.n)
}

// injector answers the notifications of one process under test.
type injector struct {
	fault fault
	below []string // only calls below these directories count
	kinds map[uint32]string

	pid    int // of the process under test; its children are let through
	counts map[string]int64
	hit    atomic.Bool
	mine   map[uint32]bool // thread ids known to belong to pid, or not
}

// The kernel's structures and numbers (linux/seccomp.h).
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type response struct {
	id    uint64
	val   int64
	error int32
	flags uint32
}

const (
	ioctlNotifRecv = 0xc0502100
	ioctlNotifSend = 0xc0182101
	retUserNotif   = 0x7fc00000
	retAllow       = 0x7fff0000
	waitKillable   = 1 << 5 // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19
)

// installNotifier makes this thread ask before each call of faultKinds and sends
// the descriptor on which the answers are given through the socket.
func installNotifier(socket int) error {
	var prog []unix.SockFilter
	stmt := func(code uint16, k uint32) { prog = append(prog, unix.SockFilter{Code: code, K: k}) }
	stmt(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0) // seccomp_data.nr
	for _, numbers := range faultKinds {
		for _, nr := range numbers {
			prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1})
			stmt(unix.BPF_RET|unix.BPF_K, retUserNotif)
		}
	}
	stmt(unix.BPF_RET|unix.BPF_K, retAllow)
	runtime.LockOSThread() // the exec that follows takes this thread's filter with it
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|waitKillable, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return fmt.Errorf("install a seccomp listener: %w", errno)
	}
	return unix.Sendmsg(socket, binary.LittleEndian.AppendUint32(nil, uint32(os.Getpid())), unix.UnixRights(int(fd)), nil, 0)
}

// serve takes the listener from the socket and answers until the process under
// test and all its children have ended.
func (in *injector) serve(socket int) error {
	in.counts, in.mine, in.kinds = map[string]int64{}, map[uint32]bool{}, map[uint32]string{}
	for kind, numbers := range faultKinds {
		for _, nr := range numbers {
			in.kinds[nr] = kind
		}
	}
	pid, oob := make([]byte, 4), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(socket, pid, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n != 4 {
		return fmt.Errorf("no listener came: %d bytes, %w", n, err)
	}
	in.pid = int(binary.LittleEndian.Uint32(pid))
	msgs, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		return fmt.Errorf("no listener came: %w", err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	for {
		poll := []unix.PollFd{{Fd: int32(fds[0]), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if poll[0].Revents&unix.POLLIN != 0 {
			in.answer(fds[0])
		} else if poll[0].Revents != 0 {
			return nil // POLLHUP: nobody is left
		}
	}
}

func (in *injector) answer(fd int) {
	var q notification
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlNotifRecv, uintptr(unsafe.Pointer(&q))); errno != 0 {
		return // the caller was killed meanwhile
	}
	a := response{id: q.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if kind := in.kinds[uint32(q.nr)]; in.isMine(q.pid) && in.isBelow(&q) {
		in.counts[kind]++
		if f := in.fault; f.kind == kind && f.n == in.counts[kind] {
			in.hit.Store(true)
			if f.kill {
				_ = unix.Kill(in.pid, unix.SIGKILL)
				return
			}
			a.flags, a.error = 0, -int32(f.errno)
		}
	}
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlNotifSend, uintptr(unsafe.Pointer(&a)))
}

// isMine reports whether the thread belongs to the process under test itself.
func (in *injector) isMine(tid uint32) bool {
	is, ok := in.mine[tid]
	if !ok {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", in.pid, tid))
		is = err == nil
		in.mine[tid] = is
	}
	return is
}

// isBelow reports whether the call acts on something below one of the directories.
func (in *injector) isBelow(q *notification) bool {
	var place string
	switch uint32(q.nr) {
	case unix.SYS_UNLINKAT, unix.SYS_MKDIRAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		place = in.place(q.args[0], q.args[1])
	case unix.SYS_LINKAT: // the old name of an unnamed file lies in /proc
		place = in.place(q.args[2], q.args[3])
	case unix.SYS_COPY_FILE_RANGE:
		place = in.descriptor(q.args[2])
	default:
		place = in.descriptor(q.args[0])
	}
	return slices.ContainsFunc(in.below, func(dir string) bool {
		return dir != "" && (place == dir || strings.HasPrefix(place, dir+"/"))
	})
}

// place returns the path that a directory descriptor and a name stand for.
func (in *injector) place(dirfd, name uint64) string {
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", in.pid))
	if err != nil {
		return ""
	}
	defer mem.Close()
	buf := make([]byte, unix.PathMax)
	n, _ := mem.ReadAt(buf, int64(name))
	text, _, _ := bytes.Cut(buf[:n], []byte{0})
	if filepath.IsAbs(string(text)) {
		return filepath.Clean(string(text))
	}
	return filepath.Join(in.descriptor(dirfd), string(text))
}

// descriptor returns the path of what a descriptor has open.
func (in *injector) descriptor(fd uint64) string {
	name := "fd/" + strconv.Itoa(int(int32(fd)))
	if int32(fd) == unix.AT_FDCWD {
		name = "cwd"
	}
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/%s", in.pid, name))
	return path
}

// socketPair returns two connected sockets, the second to be given to a child.
func socketPair(t *testing.T) (int, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]) })
	return fds[0], os.NewFile(uintptr(fds[1]), "socket")
}

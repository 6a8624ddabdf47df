package fill

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/tree"
)

// allowed is a host path at or below which sources may lie, under one spelling.
type allowed struct {
	text string // clean and absolute
}

// allowedDirs returns the base and the further sources as they were configured
// and, where links are in them, under their true names too. Their own links are
// trusted: the caller named them.
func allowedDirs(opts Options) ([]allowed, error) {
	var all []allowed
	for _, p := range append([]string{opts.Base}, opts.Sources...) {
		if p == "" {
			continue
		}
		if !path.IsAbs(p) {
			return nil, &fault.Error{Code: fault.InvalidArgument, Op: "apply", Reason: "not_absolute", Retry: fault.RetryNo,
				Message: "a directory of host sources must be an absolute path"}
		}
		all = append(all, allowed{path.Clean(p)})
		//nolint:forbidigo // the result is another spelling to compare texts with; what is opened is opened anew
		if canonical, err := filepath.EvalSymlinks(p); err == nil && canonical != path.Clean(p) {
			all = append(all, allowed{canonical})
		}
	}
	return all, nil
}

// source is a file or directory of the host that may be read.
type source struct {
	dir  allowed
	rest string // below dir, "." for dir itself
	text string // as errors name it: absolute
	code fault.Code
}

// Reasons why a source cannot be read.
var (
	errOutside = errors.New("the source lies outside the allowed host directories")
	errLink    = errors.New("a symbolic link is on the way")
	errMissing = errors.New("the source does not exist")
)

// findSource judges by the text where src lies; the longest allowed path counts.
func findSource(dirs []allowed, base, src string, code fault.Code, name string) (*source, error) {
	p := src
	if !path.IsAbs(p) {
		p = path.Join(base, p)
	}
	s := &source{text: path.Clean(p), code: code}
	found := false
	for _, d := range dirs {
		if rest, ok := below(d.text, s.text); ok && (!found || len(d.text) > len(s.dir.text)) {
			s.dir, s.rest, found = d, rest, true
		}
	}
	if !found || strings.ContainsRune(src, 0) {
		return nil, s.fault(name, "", errOutside)
	}
	return s, nil
}

func below(dir, p string) (string, bool) {
	if p == dir {
		return ".", true
	}
	if dir != "/" {
		dir += "/"
	}
	return strings.CutPrefix(p, dir)
}

const (
	dirFlags  = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fileFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
)

// openDir opens a source that is a directory.
func (s *source) openDir() (*os.File, error) {
	f, err := s.walk(dirFlags)
	if errors.Is(err, unix.ENOTDIR) {
		err = tree.ErrChanged
	}
	return f, err
}

// openFile opens a source that is a regular file. O_NONBLOCK: a fifo in its place
// must not hold the caller.
func (s *source) openFile() (*os.File, error) {
	f, err := s.walk(fileFlags)
	if errors.Is(err, errMissing) && !strings.Contains(s.rest, "/") {
		// The directory is there and the name in it is not: the field's clients
		// know that as a source that vanished.
		err = tree.ErrChanged
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = tree.ErrChanged
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// walk opens the source below its allowed directory, one component after the
// other and none through a link. Who can write in that directory may put a link
// there to have another file of the host copied; this is what stops it.
func (s *source) walk(last int) (*os.File, error) {
	if s.rest == "." {
		// The path is the caller's own and its links are too.
		fd, err := unix.Open(s.dir.text, last&^unix.O_NOFOLLOW, 0)
		return s.file(fd, err)
	}
	at, err := unix.Open(s.dir.text, dirFlags&^unix.O_NOFOLLOW, 0)
	if err != nil {
		return s.file(-1, err)
	}
	parts := strings.Split(s.rest, "/")
	for i, part := range parts {
		flags := dirFlags
		if i == len(parts)-1 {
			flags = last
		}
		fd, err := openat(at, part, flags)
		if err != nil && isLink(at, part) {
			err = errLink
		}
		unix.Close(at)
		if err != nil {
			return s.file(-1, err)
		}
		at = fd
	}
	return s.file(at, nil)
}

func openat(dirfd int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dirfd, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// isLink tells why an open failed; nothing depends on it but the words.
func isLink(dirfd int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

func (s *source) file(fd int, err error) (*os.File, error) {
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), s.text), nil
	case errors.Is(err, unix.ENOENT):
		return nil, errMissing
	}
	return nil, err
}

// fault makes err, from reading the source or its entry child, the error of the
// workspace entry name.
func (s *source) fault(name, child string, err error) error {
	fe := &fault.Error{Code: s.code, Op: "apply", Path: name, Retry: fault.RetryNo, Err: err,
		Details: map[string]any{"src": s.text}}
	if child != "" {
		fe.Details["child"] = child
	}
	switch {
	case errors.Is(err, errOutside):
		fe.Reason, fe.Err = "outside_base_dir", nil
		fe.Message = "the source lies outside the base directory and every granted path; grant its directory"
	case errors.Is(err, errLink), errors.Is(err, tree.ErrSymlink):
		fe.Reason, fe.Err = "symlink_not_supported", nil
		fe.Message = `the source is or holds a symbolic link; a local_dir with symlinks: "keep" copies links as links`
	case errors.Is(err, errMissing):
		fe.Reason, fe.Err, fe.Message = "path_not_found", nil, "the source does not exist"
	case errors.Is(err, tree.ErrChanged), errors.Is(err, tree.ErrMoved):
		fe.Reason, fe.Retry = "path_changed_during_copy", fault.RetryYes
		fe.Message = "the source is not what it was expected to be, or changed while it was copied"
	case errors.Is(err, fs.ErrPermission):
		fe.Reason, fe.Message = "not_allowed", "the source may not be read"
	default:
		fe.Reason, fe.Retry, fe.Message = "read_failed", fault.RetryUnknown, "the source cannot be read"
	}
	return fe
}

package conformance

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// env is where one case runs: its fresh directory and what its placeholders mean.
type env struct {
	// ctx ends long before the test binary's own limit, so that a case that hangs
	// fails by name.
	ctx context.Context
	// tmp, root, outside and host are ${TMP}, ${ROOT}, ${OUTSIDE} and ${HOST};
	// tmp is canonical and every account may search it.
	tmp, root, outside, host string
	// user is ${USER}, an ordinary account's name.
	user string
	// workspaces are the directories whose paths errors show as names: root, and what
	// an adapter adds where a case has another one.
	workspaces []string

	cleanups []func()
}

// caseLimit is far above what any case takes on a slow machine.
const caseLimit = 3 * time.Minute

// otherUID owns what setup gives to "other": neither root nor an account in use.
const otherUID = 54321

// stopCase carries a skip or a fault of the runner out of an adapter.
type stopCase struct {
	skip bool
	why  string
}

// fatalf ends the case as failed: the runner could not do what it must.
func (e *env) fatalf(format string, args ...any) {
	panic(stopCase{why: fmt.Sprintf(format, args...)})
}

// skipf ends the case as skipped; the text says what this machine lacks.
func (e *env) skipf(format string, args ...any) {
	panic(stopCase{skip: true, why: fmt.Sprintf(format, args...)})
}

// check ends the case as failed if err is not nil. It is for the runner's own
// steps and not for the outcome of the call under test.
func (e *env) check(err error) {
	if err != nil {
		e.fatalf("%v", err)
	}
}

// cleanup runs f when the case is over, after the comparison; the last added first.
func (e *env) cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

// newEnv makes the directory of one case and the directories that makes names.
func newEnv(makes []string) (*env, error) {
	tmp, err := os.MkdirTemp("", "croft-case-")
	if err != nil {
		return nil, err
	}
	if tmp, err = filepath.EvalSymlinks(tmp); err != nil {
		return nil, err
	}
	e := envAt(tmp)
	e.cleanup(func() { removeAll(tmp) })
	// Another account must reach the workspace in cases that act as that account.
	if err := os.Chmod(tmp, 0o755); err != nil {
		return e, err
	}
	dirs := map[string]string{"ROOT": e.root, "OUTSIDE": e.outside, "HOST": e.host}
	for _, name := range makes {
		if err := os.Mkdir(dirs[name], 0o755); err != nil {
			return e, err
		}
	}
	return e, nil
}

// envAt is the environment of a case whose directory exists already.
func envAt(tmp string) *env {
	ctx, cancel := context.WithTimeout(context.Background(), caseLimit)
	e := &env{ctx: ctx, tmp: tmp, user: testUser()}
	e.root, e.outside, e.host = filepath.Join(tmp, "ws"), filepath.Join(tmp, "outside"), filepath.Join(tmp, "host")
	e.workspaces = []string{e.root}
	e.cleanup(cancel)
	return e
}

// close runs the cleanups, all of them, and returns the first thing that went wrong.
func (e *env) close() (why string) {
	for i := len(e.cleanups) - 1; i >= 0; i-- {
		func() {
			defer func() {
				switch p := recover().(type) {
				case nil:
				case stopCase:
					if why == "" {
						why = "clean-up: " + p.why
					}
				default:
					panic(p)
				}
			}()
			e.cleanups[i]()
		}()
	}
	return why
}

// removeAll removes dir also where a case took its directories' permissions away.
func removeAll(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

// testUser is the ordinary account of cases that act as one.
func testUser() string {
	if name := os.Getenv("CROFT_TEST_USER"); name != "" {
		return name
	}
	return "nobody"
}

// fill puts the values of the placeholders into the JSON text raw. The values are
// plain paths and names, so they need no quoting. ${CHUNK} stays: it is a pattern
// of what is wanted, see equal.
func (e *env) fill(raw json.RawMessage) json.RawMessage {
	for _, p := range [][2]string{
		{"${TMP}", e.tmp}, {"${ROOT}", e.root}, {"${OUTSIDE}", e.outside}, {"${HOST}", e.host},
		{"${USER}", e.user}, {"${APP}", "croft"},
	} {
		raw = bytes.ReplaceAll(raw, []byte(p[0]), []byte(p[1]))
	}
	return raw
}

// setup does one step: dir, file, symlink or fifo.
func (e *env) setup(step *fields) error {
	kinds := 0
	var path string
	var err error
	for _, kind := range []string{"dir", "file", "symlink", "fifo"} {
		if !step.has(kind) {
			continue
		}
		kinds++
		path = step.str(kind)
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		switch kind {
		case "dir":
			err = os.MkdirAll(path, 0o755)
		case "file":
			err = writeFile(path, step)
		case "symlink":
			err = os.Symlink(step.str("to"), path)
		case "fifo":
			err = unix.Mkfifo(path, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if kinds != 1 {
		return fmt.Errorf("%s: a step names exactly one of dir, file, symlink and fifo", step.at)
	}
	return setAttributes(path, step)
}

func writeFile(path string, step *fields) error {
	text, isText := step.optStr("text")
	data := []byte(text)
	if digits, ok := step.optStr("hex"); ok {
		if isText {
			return fmt.Errorf("%s: both text and hex", step.at)
		}
		var err error
		if data, err = hex.DecodeString(digits); err != nil {
			return err
		}
	} else if !isText {
		return fmt.Errorf("%s: a file needs text or hex", step.at)
	}
	return os.WriteFile(path, data, 0o644)
}

// setAttributes gives the entry its owner and then its mode, since a change of
// owner clears the special bits.
func setAttributes(path string, step *fields) error {
	if owner, ok := step.optStr("owner"); ok {
		uid, err := ownerID(owner)
		if err != nil {
			return err
		}
		if err := os.Lchown(path, uid, uid); err != nil {
			return err
		}
	}
	if mode, ok := step.optStr("mode"); ok {
		bits, err := strconv.ParseUint(mode, 8, 12)
		if err != nil {
			return fmt.Errorf("%s.mode: %w", step.at, err)
		}
		return unix.Chmod(path, uint32(bits))
	}
	return nil
}

func ownerID(owner string) (int, error) {
	switch owner {
	case "root":
		return 0, nil
	case "other":
		return otherUID, nil
	case "user":
		u, err := user.Lookup(testUser())
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(u.Uid)
	default:
		return 0, fmt.Errorf("unknown owner %q", owner)
	}
}

// missing returns why the case cannot run here, or "".
func missing(requires []string) (string, error) {
	for _, r := range requires {
		switch r {
		case "root":
			if os.Geteuid() != 0 {
				return "needs root", nil
			}
		case "sudo":
			// A need of the reference; acting as another user needs root alone.
		default:
			return "", fmt.Errorf("unknown requirement %q", r)
		}
	}
	return "", nil
}

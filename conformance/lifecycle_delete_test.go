package conformance

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croftdev/croft"
)

// deletion is the arguments of create_then_delete, in a form that a child process can read.
type deletion struct {
	Tmp         string   `json:"tmp"`
	Root        string   `json:"root"` // empty: croft's own
	Mounts      []string `json:"mounts"`
	UnmountFail bool     `json:"unmount_fail"`
	RemoveFail  bool     `json:"rm_fail"`
}

// deleted is what came of it.
type deleted struct {
	Steps     []string       `json:"steps"`
	Result    map[string]any `json:"result"`
	Exists    bool           `json:"root_exists_after"`
	Owned     bool           `json:"root_owned"`
	Generated bool           `json:"generated_root"`

	Skip string `json:"skip,omitempty"`
	Why  string `json:"why,omitempty"`
}

func runCreateThenDelete(e *env, op *fields) (outcome, error) {
	d := deletion{
		Tmp: e.tmp, Root: optional(op, "root"), Mounts: op.strs("mounts"),
		UnmountFail: op.flag("unmount_fail"), RemoveFail: op.flag("rm_fail"),
	}
	var got deleted
	if len(d.Mounts) > 0 {
		got = e.inMountNamespace(d)
	} else {
		got = e.createThenDelete(d)
	}
	return outcome{
		"steps": got.Steps, "result": got.Result, "root_exists_after": got.Exists,
		"root_owned": got.Owned, "generated_root": got.Generated,
	}, nil
}

// createThenDelete makes, starts, closes and deletes a session.
func (e *env) createThenDelete(d deletion) deleted {
	tr := &trace{}
	c := e.client(croft.Config{OnStep: tr.onStep})
	s, err := c.Create(e.ctx, croft.CreateOptions{Root: d.Root, Mounts: d.Mounts})
	e.check(err)
	e.check(s.Start(e.ctx))
	workspace := s.HostRoot()
	for i, name := range d.Mounts {
		e.mount(filepath.Join(workspace, name), d.UnmountFail && i == 0)
	}
	if d.RemoveFail {
		e.immutable(filepath.Join(workspace, "kept"))
	}
	// The directory itself, whatever it is called: one that was only renamed away still exists.
	dir, err := os.Open(workspace)
	e.check(err)
	e.cleanup(func() { e.check(dir.Close()) })
	got := deleted{Owned: s.State().RootOwned, Generated: d.Root == "" && strings.HasPrefix(workspace, e.tmp)}
	e.check(s.Close(e.ctx))
	tr.cut(ofRemoval)
	got.Result = resultOf(c.Delete(e.ctx, s.ID()))
	got.Steps = tr.cut(ofRemoval)
	var st unix.Stat_t
	e.check(unix.Fstat(int(dir.Fd()), &st))
	got.Exists = st.Nlink > 0
	return got
}

// childVar tells the test binary that it is to do one deletion in the mount
// namespace that it was started in.
const childVar = "CROFT_CONFORMANCE_CHILD"

// childDeletion does the deletion that inMountNamespace asks its child for.
func childDeletion(d deletion) (got deleted) {
	e := envAt(d.Tmp)
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stopCase:
			got = deleted{Why: p.why}
			if p.skip {
				got = deleted{Skip: p.why}
			}
		default:
			panic(p)
		}
		if why := e.close(); why != "" && got.Why == "" {
			got.Why = why
		}
	}()
	return e.createThenDelete(d)
}

package event

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// workspaceKeep is how many bytes of records are kept while the workspace cannot
// be written.
const workspaceKeep = 8 << 20

var errWorkspaceFull = errors.New("too many event records wait for the workspace; the record is lost")

// WorkspaceOptions are the options of [InWorkspace]. The zero value is good.
type WorkspaceOptions struct {
	Delivery
	// File is the file's name in the workspace; logs/events-{session_id}.jsonl,
	// if empty. In it, {session_id} stands for the session's id, {session_id_hex}
	// for the id without its hyphens, {{ and }} for a brace. A name with any other
	// brace is taken as it is.
	File string
	// FlushEvery is how many records are written together; less than 1 is 1.
	FlushEvery int
	// Ephemeral keeps the file out of snapshots.
	Ephemeral bool
}

// InWorkspace is a sink that appends each record as a line to a file in the
// workspace, where the agent finds it, by default in the background ([BestEffort],
// [Log]). The agent can change that file: it is no audit.
//
// Records made while the workspace cannot be written are kept, up to 8 MiB, and
// written later. So that a snapshot holds them, the records are also written when
// a save, a stop or a shutdown begins, when a stop or shutdown is over, and by Close.
// Records made before [Recorder.Bind] are dropped.
func InWorkspace(o WorkspaceOptions) Sink { return inWorkspace{o} }

type inWorkspace struct{ o WorkspaceOptions }

func (s inWorkspace) Delivery() Delivery { return s.o.Delivery.or("workspace", BestEffort, Log) }

func (s inWorkspace) open(r *Recorder) ([]*outlet, error) {
	name := s.o.File
	if name == "" {
		name = "logs/events-{session_id}.jsonl"
	}
	return outletOf(r, s.Delivery(), &workspaceDest{
		name:      expand(name, r.sessionID),
		every:     max(1, s.o.FlushEvery),
		ephemeral: s.o.Ephemeral,
	})
}

// expand fills in a file name; one that it cannot read it returns as it is.
func expand(name, sessionID string) string {
	hex := sessionID
	if id, err := uuid.Parse(sessionID); err == nil {
		hex = strings.ReplaceAll(id.String(), "-", "")
	}
	var out strings.Builder
	for rest := name; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			i = len(rest)
		}
		out.WriteString(rest[:i])
		rest = rest[i:]
		switch {
		case rest == "":
		case cut(&rest, "{{"):
			out.WriteByte('{')
		case cut(&rest, "}}"):
			out.WriteByte('}')
		case cut(&rest, "{session_id}"):
			out.WriteString(sessionID)
		case cut(&rest, "{session_id_hex}"):
			out.WriteString(hex)
		default:
			return name
		}
	}
	return out.String()
}

// cut takes prefix off s, if it is there.
func cut(s *string, prefix string) (ok bool) {
	*s, ok = strings.CutPrefix(*s, prefix)
	return ok
}

type workspaceDest struct {
	name      string
	every     int
	ephemeral bool

	mu   sync.Mutex // held while writing too, so that the order stays
	w    Workspace
	buf  []byte
	seen int
	ran  bool // the workspace could be written once
}

func (d *workspaceDest) bind(w Workspace) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.w = w
	if !d.ephemeral {
		return nil
	}
	return w.ExcludeFromSnapshots(d.name)
}

func (d *workspaceDest) handle(ctx context.Context, r *Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.w == nil {
		return nil
	}
	d.seen++
	if len(d.buf) >= workspaceKeep {
		return errors.Join(errWorkspaceFull, d.write(ctx))
	}
	d.buf = AppendLine(d.buf, r)
	if d.seen%d.every != 0 && !urgent(r) {
		return nil
	}
	return d.write(ctx)
}

// urgent reports whether the file should be up to date now: it is about to be
// saved, or may be out of reach soon.
func urgent(r *Record) bool {
	switch r.Op {
	case OpPersistWorkspace, OpSnapshotPersist:
		return r.Phase == PhaseStart
	case OpStop, OpShutdown:
		return true
	default:
		return false
	}
}

// write writes what waits, if it can be written now. What could not be written
// goes on waiting; if the workspace took a part before it failed, that part will
// be there twice, and can be told by the records' ids.
func (d *workspaceDest) write(ctx context.Context) error {
	if len(d.buf) == 0 || !d.w.Running() {
		return nil
	}
	d.ran = true
	if err := d.w.AppendFile(ctx, d.name, d.buf); err != nil {
		return err
	}
	d.buf = d.buf[:0]
	return nil
}

func (d *workspaceDest) close(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.w == nil {
		return nil
	}
	err := d.write(context.WithoutCancel(ctx))
	if err == nil && d.ran && len(d.buf) > 0 {
		err = errWorkspaceGone // of a workspace that never came to be, nothing is missed
	}
	d.buf = nil
	return err
}

var errWorkspaceGone = errors.New("event records were lost: the workspace could not be written any more")

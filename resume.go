package croft

import (
	"context"
	"errors"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/internal/state"
	"github.com/croftdev/croft/manifest"
	"github.com/croftdev/croft/policy"
	"github.com/croftdev/croft/snapshot"
)

// State is what a program carries away to resume a session later, also on another
// machine: its JSON form is stable and holds no secret and no authority over the
// host. Credentials of mounts and host paths of grants are taken out and marked, and
// are bound again by the program that resumes.
type State = state.Serialized

// ParseState reads the JSON form of a [State]. Its errors are invalid_argument.
func ParseState(data []byte) (State, error) { return state.ParseSerialized(data) }

// ResumeOptions is what the resuming program vouches for.
type ResumeOptions struct {
	// Manifest, when set, is trusted: host paths that the state has lost are taken from it.
	Manifest *manifest.Manifest
	// Root is the caller's root, where the state's session had one.
	Root string
	// AllowHome is as in [CreateOptions].
	AllowHome bool
	// Policy is what commands may touch. Nil: the client's. It is never in a state.
	Policy *policy.Policy
	// Env, PassEnv, BaseDir and PrivateHome are as in [CreateOptions].
	Env         map[string]string
	PassEnv     []string
	BaseDir     string
	PrivateHome bool
}

// Create makes a new session and holds it. Nothing but its record is on disk until
// Start. A manifest that asks for what croft cannot do yet (accounts, storage mounts,
// git_repo, host_path) is refused here, before anything is written.
func (c *Client) Create(ctx context.Context, opts CreateOptions) (*Session, error) {
	end, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	rec, err := c.newRecord(opts)
	if err != nil {
		return nil, err
	}
	c.launcher.Warm() // a Start comes next; the record is written meanwhile
	return c.create(ctx, rec)
}

// create writes the first record of a session and returns the session, held.
//
// The session's own event log lies in its directory, so the operation's events are
// written once that is there; a creation that fails leaves neither.
func (c *Client) create(ctx context.Context, rec state.Record) (*Session, error) {
	s, err := c.newSession(rec)
	if err != nil {
		return nil, err
	}
	if s.plan.policy.Tier != policy.None { // there commands run as this process does
		if err := c.chooseUID(&rec.UID); err != nil {
			return nil, err
		}
	}
	err = s.step(ctx, StepCreate, func(context.Context) error {
		lock, err := c.dir.NewSession(rec)
		if err != nil {
			return err
		}
		s.lock = lock
		s.rec, err = lock.Load()
		return err
	})
	if err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	return s.taken(ctx, event.OpCreate)
}

// taken makes a session whose lock was taken usable, and says so in its events.
func (s *Session) taken(ctx context.Context, op event.Op) (*Session, error) {
	err := s.openEvents()
	if err == nil {
		err = s.c.hold(s)
	}
	if err == nil {
		err = s.observe(ctx, op, nil, func(context.Context) error { return nil })
	}
	if err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	return s, nil
}

// Resume takes a session of the state directory again. It is not started. The
// errors are invalid_argument for what is no id, session_not_found, state_corrupt,
// and session_busy while another process, or a Session of this one, holds it.
func (c *Client) Resume(ctx context.Context, id string) (*Session, error) {
	end, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	sid, err := state.ParseID(id)
	if err != nil {
		return nil, err
	}
	lock, err := c.dir.Lock(sid)
	if err != nil {
		return nil, err
	}
	rec, err := lock.Load()
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	s, err := c.newSession(rec)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	s.lock = lock
	return s.taken(ctx, event.OpResume)
}

// ResumeState takes the session that a [State] describes: the one in the state
// directory if it is still there, else one made again under the same id, whose
// workspace Start restores from the state's snapshot. A state of another program's
// sessions is invalid_argument, as is one whose host paths are not bound by opts.
func (c *Client) ResumeState(ctx context.Context, st State, opts ResumeOptions) (*Session, error) {
	end, err := c.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	st, err = st.Rebind(opts.Manifest)
	if err != nil {
		return nil, err
	}
	if err := st.CheckBound(); err != nil {
		return nil, err
	}
	s, err := c.Resume(ctx, st.SessionID.String())
	if !errors.Is(err, fault.SessionNotFound) {
		return s, err
	}
	spec := st.Snapshot
	rec, err := c.newRecord(CreateOptions{
		Manifest: st.Manifest, Root: opts.Root, AllowHome: opts.AllowHome, Policy: opts.Policy, Env: opts.Env,
		PassEnv: opts.PassEnv, BaseDir: opts.BaseDir, PrivateHome: opts.PrivateHome,
		Snapshot: &spec, ExposedPorts: st.ExposedPorts,
	})
	if err != nil {
		return nil, err
	}
	rec.ID, rec.Snapshot, rec.Fingerprint = st.SessionID, st.Snapshot, st.Fingerprint
	return c.create(ctx, rec)
}

// State returns what a program needs to resume the session, as things stand now.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{
		SessionID: s.rec.ID, Snapshot: s.rec.Snapshot, Manifest: s.plan.manifest, ExposedPorts: s.rec.ExposedPorts,
		Fingerprint: s.rec.Fingerprint, RootReady: s.rec.RootReady, RootOwned: s.rec.RootOwned,
	}
}

// newSession makes the value for a record; nothing on disk is touched.
func (c *Client) newSession(rec state.Record) (*Session, error) {
	p, err := planOf(rec)
	if err != nil {
		return nil, err
	}
	store, err := snapshot.Open(rec.Snapshot)
	if err != nil {
		return nil, err
	}
	return &Session{c: c, id: rec.ID, rec: rec, plan: p, store: store, turn: make(chan struct{}, 1)}, nil
}

// letGo ends the hold on the session: its descriptors, its events, its lock.
func (s *Session) letGo() error {
	s.releaseTree()
	err := s.closeEvents(context.Background())
	s.mu.Lock()
	lock := s.lock
	s.lock = nil
	s.mu.Unlock()
	s.c.letGo(s)
	if lock == nil {
		return err
	}
	return errors.Join(err, lock.Release())
}

// abandonInTurn is abandon once no other call changes the session's life.
func (s *Session) abandonInTurn() error {
	leave, err := s.takeTurn(context.Background())
	if err != nil {
		return err
	}
	defer leave()
	return s.abandon()
}

// abandon ends what is live without saving, for a client that closes.
func (s *Session) abandon() error {
	ctx := context.Background()
	err := errors.Join(s.endCommands(ctx), s.endCell(ctx))
	if s.Running() {
		err = errors.Join(err, s.markNotRunning(ctx))
	}
	return errors.Join(err, s.letGo())
}

package conformance

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/croftdev/croft"
	"github.com/croftdev/croft/internal/state"
	"github.com/croftdev/croft/manifest"
	"github.com/croftdev/croft/snapshot"
)

func init() {
	register(area{name: "session_state", calls: map[string]call{
		"snapshot_file_name":       {fields: "file", run: runSnapshotFileName},
		"snapshot_persist":         {fields: "files contents", run: runSnapshotPersist},
		"snapshot_restore":         {fields: "files contents data", run: runSnapshotRestore},
		"snapshot_restorable":      {fields: "files contents restorable", run: runSnapshotRestorable},
		"noop_restorable":          {fields: "restorable", run: runNoopRestorable},
		"noop_restore":             {fields: "data", run: runNoopRestore},
		"parse_snapshot":           {fields: "snapshot", run: runParseSnapshot},
		"resolve_snapshot":         {fields: "snapshot", run: runResolveSnapshot},
		"default_snapshot_dir":     {fields: "dir", run: runDefaultSnapshotDir},
		"resolve_default_spec":     {fields: "dir_mode stale_file_left", run: runResolveDefaultSpec},
		"cleanup_stale_snapshots":  {fields: "left", run: runCleanupStale},
		"parse_fingerprint_record": {fields: "record", run: runParseFingerprint},
		"start_decision":           {fields: "steps skips_restore root_ready_after", run: runStartDecision},
		"local_resume_decision":    {fields: "steps", run: runLocalResumeDecision},
		"stop_persist":             {fields: "steps fingerprint_after", run: runStopPersist},
		"exposed_ports":            {fields: "exposed_ports", run: runExposedPorts},
		"state_roundtrip": {fields: "needs_rebind mount_authority_redacted state grants_after_rebind",
			match: map[string]match{"state": savedState}, run: runStateRoundtrip},
		"state_resume": {fields: "needs_rebind mount_authority_redacted resumed", run: runStateResume},
	}})
}

// savedState wants a saved state to be equal, but of its manifest only the fields listed.
func savedState(want, got any) string {
	w, wok := want.(map[string]any)
	g, gok := got.(map[string]any)
	if !wok || !gok {
		return differ(want, got)
	}
	wm, wok := w["manifest"].(map[string]any)
	gm, gok := g["manifest"].(map[string]any)
	if !wok || !gok {
		return equal(want, got)
	}
	if d := eachKey(wm, gm, equal); d != "" {
		return ".manifest" + d
	}
	return equal(with(w, "manifest", nil), with(g, "manifest", nil))
}

func runSnapshotFileName(e *env, op *fields) (outcome, error) {
	name, err := snapshot.FileName(op.str("snapshot_id"))
	return outcome{"file": name}, err
}

// tarOf returns the store that op names and what lies in its directory.
func tarOf(op *fields) (snapshot.Store, outcome, error) {
	base := op.str("base")
	out := outcome{
		"files": lazy(func([]string) any { return namesIn(base) }),
		"contents": lazy(func(names []string) any {
			got := map[string]any{}
			for _, name := range names {
				data, err := os.ReadFile(filepath.Join(base, name))
				if err == nil {
					got[name] = string(data)
				}
			}
			return got
		}),
	}
	store, err := snapshot.Open(snapshot.Spec{Type: snapshot.Tar, ID: op.str("snapshot_id"), BasePath: base})
	return store, out, err
}

// namesIn lists a directory, or nil where there is none.
func namesIn(dir string) any {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func runSnapshotPersist(e *env, op *fields) (outcome, error) {
	store, out, err := tarOf(op)
	data := op.str("data")
	if err != nil {
		return out, err
	}
	return out, store.Persist(e.ctx, func(w io.Writer) error {
		_, err := io.WriteString(w, data)
		return err
	})
}

func runSnapshotRestore(e *env, op *fields) (outcome, error) {
	store, out, err := tarOf(op)
	if err == nil {
		out["data"], err = restored(e, store)
	}
	return out, err
}

func restored(e *env, store snapshot.Store) (string, error) {
	r, err := store.Restore(e.ctx)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	e.check(err)
	return string(data), nil
}

func runSnapshotRestorable(e *env, op *fields) (outcome, error) {
	store, out, err := tarOf(op)
	if err == nil {
		out["restorable"], err = store.Restorable(e.ctx)
	}
	return out, err
}

func noopStore(e *env) snapshot.Store {
	store, err := snapshot.Open(snapshot.Spec{Type: snapshot.None, ID: "n"})
	e.check(err)
	return store
}

func runNoopRestorable(e *env, op *fields) (outcome, error) {
	is, err := noopStore(e).Restorable(e.ctx)
	return outcome{"restorable": is}, err
}

func runNoopRestore(e *env, op *fields) (outcome, error) {
	data, err := restored(e, noopStore(e))
	return outcome{"data": data}, err
}

func runParseSnapshot(e *env, op *fields) (outcome, error) {
	var spec snapshot.Spec
	if err := spec.UnmarshalJSON(op.raw("payload")); err != nil {
		return nil, err
	}
	return outcome{"snapshot": spec}, nil
}

func runResolveSnapshot(e *env, op *fields) (outcome, error) {
	var given *snapshot.Spec
	if f := op.object("spec"); f != nil {
		given = &snapshot.Spec{Type: snapshot.Kind(f.str("type"))}
		given.ID, _ = f.optStr("id")
		given.BasePath, _ = f.optStr("base_path")
		given.ClientDependencyKey, _ = f.optStr("client_dependency_key")
	}
	return outcome{"snapshot": given.ForSession(op.str("session_id"))}, nil
}

// hostOf returns the machine that op describes.
func hostOf(op *fields, env map[string]string) state.Host {
	return state.Host{GOOS: op.str("platform"), Home: op.str("home"), Env: func(name string) string { return env[name] }}
}

func runDefaultSnapshotDir(e *env, op *fields) (outcome, error) {
	var env map[string]string
	op.decode("env", &env)
	dir, err := hostOf(op, env).StateDir()
	return outcome{"dir": state.SnapshotDir(dir)}, err
}

func runResolveDefaultSpec(e *env, op *fields) (outcome, error) {
	place, err := hostOf(op, nil).StateDir()
	e.check(err)
	stale := filepath.Join(state.SnapshotDir(place), "o.tar")
	if op.flag("stale_file_present") {
		e.check(os.MkdirAll(filepath.Dir(stale), 0o755))
		e.check(os.WriteFile(stale, nil, 0o600))
		old := time.Now().Add(-2 * snapshot.MaxAge)
		e.check(os.Chtimes(stale, old, old))
	}
	dir, err := state.Open(place)
	if err != nil {
		return nil, err
	}
	e.cleanup(func() { dir.Close() })
	fi, err := os.Stat(dir.SnapshotSpec(&snapshot.Spec{Type: snapshot.Tar}, state.NewID()).BasePath)
	e.check(err)
	_, err = os.Stat(stale)
	return outcome{"dir_mode": "0" + octal(fi.Mode()), "stale_file_left": err == nil}, nil
}

func octal(m fs.FileMode) string {
	digits := []byte{byte(m >> 6 & 7), byte(m >> 3 & 7), byte(m & 7)}
	for i := range digits {
		digits[i] += '0'
	}
	return string(digits)
}

func runCleanupStale(e *env, op *fields) (outcome, error) {
	dir := filepath.Join(e.tmp, "snaps")
	e.check(os.Mkdir(dir, 0o700))
	now := time.Now()
	for _, f := range op.objects("files") {
		path := filepath.Join(dir, f.str("name"))
		if f.flag("dir") {
			e.check(os.Mkdir(path, 0o700))
		} else {
			e.check(os.WriteFile(path, nil, 0o600))
		}
		mtime := now.Add(-time.Duration(f.num("age_s")) * time.Second)
		e.check(os.Chtimes(path, mtime, mtime))
	}
	maxAge := snapshot.MaxAge
	if s, ok := op.optNum("max_age_s"); ok {
		maxAge = time.Duration(s) * time.Second
	}
	_, err := snapshot.RemoveStale(e.ctx, dir, maxAge, now, func(string) bool { return false })
	return outcome{"left": lazy(func([]string) any { return namesIn(dir) })}, err
}

func runParseFingerprint(e *env, op *fields) (outcome, error) {
	rec, err := snapshot.ParseFingerprint([]byte(op.str("payload")))
	return outcome{"record": rec}, err
}

// fingerprintOf reads a pair of a fingerprint and its version; null, or an absent
// pair, is none.
func fingerprintOf(op *fields, key string) *snapshot.Fingerprint {
	var pair []*string
	op.decode(key, &pair)
	if len(pair) != 2 || pair[0] == nil && pair[1] == nil {
		return nil
	}
	f := &snapshot.Fingerprint{}
	if pair[0] != nil {
		f.Value = *pair[0]
	}
	if pair[1] != nil {
		f.Version = *pair[1]
	}
	return f
}

func runStartDecision(e *env, op *fields) (outcome, error) {
	probe, running, live := op.flag("probe_ok"), op.flag("running"), fingerprintOf(op, "live")
	in := state.StartInput{
		Restorable: op.flag("restorable"), Preserved: op.flag("preserved"), RootReady: op.flag("root_ready"),
		Stored:  fingerprintOf(op, "stored"),
		Probe:   func() bool { return probe },
		Running: func() bool { return running },
		Live:    func() *snapshot.Fingerprint { return live },
	}
	in.SystemPreserved = in.Preserved
	if op.has("system_preserved") {
		in.SystemPreserved = op.flag("system_preserved")
	}
	plan := state.DecideStart(in)
	return outcome{"steps": plan.Steps, "skips_restore": plan.SkipsRestore, "root_ready_after": plan.RootReady}, nil
}

func runLocalResumeDecision(e *env, op *fields) (outcome, error) {
	exists := op.flag("workspace_directory_exists")
	plan := state.LocalWorkspace{
		Exists: exists, Ready: exists, Restorable: durable(op),
	}.Start()
	return outcome{"steps": plan.Steps}, nil
}

// durable reads op.snapshot, which is "noop" or a kind that keeps something.
func durable(op *fields) bool { return op.str("snapshot") != string(snapshot.None) }

func runStopPersist(e *env, op *fields) (outcome, error) {
	spec := snapshot.Spec{Type: snapshot.None, ID: "s"}
	if durable(op) {
		spec = snapshot.Spec{Type: snapshot.Tar, ID: "s", BasePath: filepath.Join(e.tmp, "snaps")}
	}
	before := fingerprintOf(op, "state_fingerprint_before")
	if op.flag("persist_fails") { // a directory has the snapshot's name
		e.check(os.MkdirAll(filepath.Join(spec.BasePath, "s.tar"), 0o700))
	}
	store, err := snapshot.Open(spec)
	e.check(err)
	steps := state.DecideStop(spec)
	after, saved := before, state.Saved{Live: fingerprintOf(op, "live")}
	if slices.Contains(steps, state.Archive) {
		saved.Err = store.Persist(e.ctx, func(io.Writer) error { return nil })
		after = saved.Fingerprint(before)
	}
	pair := []any{nil, nil}
	if after != nil {
		pair = []any{after.Value, after.Version}
	}
	return outcome{"steps": steps, "fingerprint_after": pair}, state.StopError(state.NewID(), saved.Err)
}

func runExposedPorts(e *env, op *fields) (outcome, error) {
	var ports state.Ports
	err := ports.UnmarshalJSON(op.raw("value"))
	return outcome{"exposed_ports": ports}, err
}

// trustedManifest reads op's trusted manifest, or nil.
func trustedManifest(e *env, op *fields) *manifest.Manifest {
	if !op.has("trusted_manifest") {
		return nil
	}
	m, err := manifest.Parse(op.raw("trusted_manifest"), manifest.Options{Format: manifest.JSON})
	e.check(err)
	return m
}

// loadState reads op's payload.
func loadState(op *fields) (croft.State, outcome, error) {
	st, err := croft.ParseState(op.raw("payload"))
	return st, outcome{
		"needs_rebind":             append([]string{}, st.NeedsRebind()...),
		"mount_authority_redacted": st.MountAuthorityRedacted(),
	}, err
}

func runStateRoundtrip(e *env, op *fields) (outcome, error) {
	trusted := trustedManifest(e, op)
	st, out, err := loadState(op)
	if err != nil {
		return out, err
	}
	if trusted != nil {
		bound, err := st.Rebind(trusted)
		if err != nil {
			return out, err
		}
		var m struct {
			Grants json.RawMessage `json:"extra_path_grants"`
		}
		data, err := json.Marshal(bound.Manifest)
		e.check(err)
		e.check(json.Unmarshal(data, &m))
		out["grants_after_rebind"] = m.Grants
	}
	saved, err := json.Marshal(st)
	e.check(err)
	out["state"] = json.RawMessage(saved)
	return out, nil
}

func runStateResume(e *env, op *fields) (outcome, error) {
	opts := croft.ResumeOptions{Manifest: trustedManifest(e, op)}
	st, out, err := loadState(op)
	if err != nil {
		return out, err
	}
	c, err := croft.Open(croft.Config{Dir: filepath.Join(e.tmp, "state")})
	e.check(err)
	e.cleanup(func() { c.Close() })
	s, err := c.ResumeState(e.ctx, st, opts)
	if err != nil {
		return out, err
	}
	out["resumed"] = s.ID() == st.SessionID.String()
	return out, nil
}

package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/manifest"
	"github.com/croftdev/croft/snapshot"
)

// serializedType marks a state as croft's own; states of other programs look alike.
const serializedType = "croft"

// The markers of what was left out of a state.
const (
	hostPathsMarker = "__croft_redacted_host_path_grant_paths"
	mountsMarker    = "__croft_redacted_mount_authority"
)

// Serialized is the state from which a session goes on, as a program carries it
// away: in a database, to another machine. Its JSON form is stable.
//
// It holds no secret and no authority over the host: host paths of grants and
// credentials of mounts are taken out when it is written and also when it is read,
// and what was taken out is marked. A marked state does not resume before the
// program has bound it again to a manifest that it trusts now ([Serialized.Rebind]).
// What stays is the manifest, with path-only grants and the values of variables
// that stand in it, and the place of the snapshot: a program keeps states where
// nobody else may write.
type Serialized struct {
	SessionID    ID
	Snapshot     snapshot.Spec
	Manifest     *manifest.Manifest
	ExposedPorts Ports
	// Fingerprint is that of the snapshot, nil where there is none.
	Fingerprint *snapshot.Fingerprint
	// RootReady says that the workspace was whole; RootOwned that it was croft's own.
	// They describe the session that was: nothing is deleted because of them.
	RootReady bool
	RootOwned bool

	rebind []string // grants whose host path was taken out
	mounts bool     // authority of mounts was taken out
}

// serializedJSON is the form of a state.
type serializedJSON struct {
	Type               string          `json:"type"`
	SessionID          string          `json:"session_id"`
	Snapshot           json.RawMessage `json:"snapshot"`
	Manifest           json.RawMessage `json:"manifest"`
	ExposedPorts       Ports           `json:"exposed_ports"`
	Fingerprint        *string         `json:"snapshot_fingerprint"`
	FingerprintVersion *string         `json:"snapshot_fingerprint_version"`
	RootReady          bool            `json:"workspace_root_ready"`
	RootOwned          bool            `json:"workspace_root_owned"`
	HostPaths          []string        `json:"__croft_redacted_host_path_grant_paths,omitempty"`
	Mounts             bool            `json:"__croft_redacted_mount_authority,omitempty"`
}

// MarshalJSON writes the state without secrets and authority.
func (s Serialized) MarshalJSON() ([]byte, error) {
	spec, err := json.Marshal(s.Snapshot)
	if err != nil {
		return nil, err
	}
	m, rebind, mounts, err := withoutAuthority(s.Manifest)
	if err != nil {
		return nil, err
	}
	out := serializedJSON{
		Type: serializedType, SessionID: s.SessionID.String(), Snapshot: spec, Manifest: m,
		ExposedPorts: s.ExposedPorts, RootReady: s.RootReady, RootOwned: s.RootOwned,
		HostPaths: union(s.rebind, rebind), Mounts: s.mounts || mounts,
	}
	if f := s.Fingerprint; f != nil {
		out.Fingerprint, out.FingerprintVersion = textOrNull(f.Value), textOrNull(f.Version)
	}
	return json.Marshal(out)
}

// withoutAuthority returns the manifest's normal form without host paths and
// mount authority, and what was taken out.
func withoutAuthority(m *manifest.Manifest) (_ json.RawMessage, rebind []string, mounts bool, _ error) {
	if m == nil {
		m = &manifest.Manifest{}
	}
	clean := *m
	clean.Grants, rebind = withoutHostPaths(m.Grants)
	data, err := json.Marshal(&clean)
	if err != nil {
		return nil, nil, false, err
	}
	tree, err := parseValue(data)
	if err != nil {
		return nil, nil, false, err
	}
	if !redactMounts(tree) {
		return data, rebind, false, nil
	}
	data, err = tree.MarshalJSON()
	return data, rebind, true, err
}

func withoutHostPaths(grants []manifest.Grant) (kept []manifest.Grant, dropped []string) {
	for _, g := range grants {
		if g.HostPath == "" {
			kept = append(kept, g)
		} else {
			dropped = append(dropped, g.Path)
		}
	}
	return kept, dropped
}

// UnmarshalJSON reads a state; see [ParseSerialized].
func (s *Serialized) UnmarshalJSON(data []byte) error {
	parsed, err := ParseSerialized(data)
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

// ParseSerialized reads a state that a program has kept. A field that is missing
// has its default; unknown ones are ignored, except in the manifest. Another
// program's type, an id that is none, and a snapshot or manifest that is missing or
// wrong are fault.InvalidArgument (cases SS-112 to SS-149). No error repeats a
// value of the payload.
func ParseSerialized(data []byte) (Serialized, error) {
	tree, err := parseValue(data)
	if err != nil || tree.kind != '{' {
		return Serialized{}, badState("must be a JSON object", "")
	}
	if t, _ := tree.get("type").text(); t != serializedType {
		return Serialized{}, badState("is not of the type `croft`", "type")
	}
	var out Serialized
	for _, read := range []func(*value) error{out.readID, out.readSnapshot, out.readManifest, out.readRest} {
		if err := read(tree); err != nil {
			return Serialized{}, err
		}
	}
	return out, nil
}

func (s *Serialized) readID(tree *value) error {
	v := tree.get("session_id")
	if v == nil {
		s.SessionID = NewID()
		return nil
	}
	text, ok := v.text()
	if !ok {
		return badState("must have a UUID as its id", "session_id")
	}
	id, err := ParseID(text)
	if err != nil {
		return badState("must have a UUID as its id", "session_id")
	}
	s.SessionID = id
	return nil
}

func (s *Serialized) readSnapshot(tree *value) error {
	data, err := tree.get("snapshot").orNull()
	if err == nil {
		err = json.Unmarshal(data, &s.Snapshot)
	}
	if err != nil || s.Snapshot.Type == "" {
		return badState("has no valid snapshot", "snapshot")
	}
	return nil
}

func (s *Serialized) readManifest(tree *value) error {
	raw := tree.get("manifest")
	if raw == nil || raw.kind != '{' {
		return badState("must have a manifest that is an object", "manifest")
	}
	s.mounts = redactMounts(raw)
	data, err := raw.MarshalJSON()
	if err != nil {
		return badState("has no valid manifest", "manifest")
	}
	m, err := manifest.Parse(data, manifest.Options{Format: manifest.JSON, Name: "state"})
	if err != nil {
		return badState("has no valid manifest", "manifest"+placeOf(err))
	}
	clean := *m
	clean.Grants, s.rebind = withoutHostPaths(m.Grants)
	s.Manifest = &clean
	return nil
}

// placeOf returns where in the manifest the fault lies: names from the format, or
// chosen by the payload's author for entries, but no values.
func placeOf(err error) string {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return ""
	}
	place, _ := e.Details["place"].(string)
	if place == "" || place == "." {
		return ""
	}
	return "." + place
}

func (s *Serialized) readRest(tree *value) error {
	ports, err := tree.get("exposed_ports").orNull()
	if err == nil {
		err = s.ExposedPorts.UnmarshalJSON(ports)
	}
	if err != nil {
		return badState("must have a list of port numbers", "exposed_ports")
	}
	value, ok1 := tree.get("snapshot_fingerprint").textOrNull()
	version, ok2 := tree.get("snapshot_fingerprint_version").textOrNull()
	if !ok1 || !ok2 {
		return badState("has a fingerprint that is no text", "snapshot_fingerprint")
	}
	if value != "" || version != "" {
		s.Fingerprint = &snapshot.Fingerprint{Value: value, Version: version}
	}
	for name, to := range map[string]*bool{"workspace_root_ready": &s.RootReady, "workspace_root_owned": &s.RootOwned} {
		if v := tree.get(name); v != nil {
			b, ok := v.scalar.(bool)
			if !ok {
				return badState("has a flag that is neither true nor false", name)
			}
			*to = b
		}
	}
	var marked []string
	if v := tree.get(hostPathsMarker); v != nil {
		for _, item := range v.items {
			if path, ok := item.text(); ok {
				marked = append(marked, path)
			}
		}
	}
	s.rebind = union(marked, s.rebind)
	if v := tree.get(mountsMarker); v != nil {
		s.mounts = s.mounts || v.scalar == true
	}
	return nil
}

// NeedsRebind returns the paths of the grants whose host path was taken out.
func (s Serialized) NeedsRebind() []string { return slices.Clone(s.rebind) }

// MountAuthorityRedacted reports whether credentials of mounts were taken out.
func (s Serialized) MountAuthorityRedacted() bool { return s.mounts }

// Rebind returns the state bound to what trusted grants now: where host paths had
// been taken out, the grants are those of trusted, which must name a host path for
// each of them; where nothing had been taken out, nothing changes. The error is
// fault.InvalidArgument and names the paths that are missing (cases SS-139 to SS-143).
func (s Serialized) Rebind(trusted *manifest.Manifest) (Serialized, error) {
	if len(s.rebind) == 0 {
		return s, nil
	}
	var missing []string
	for _, path := range s.rebind {
		bound := trusted != nil && slices.ContainsFunc(trusted.Grants, func(g manifest.Grant) bool {
			return g.Path == path && g.HostPath != ""
		})
		if !bound {
			missing = append(missing, path)
		}
	}
	if len(missing) > 0 {
		return Serialized{}, &fault.Error{Code: fault.InvalidArgument, Op: "resume", Reason: "not_bound", Retry: fault.RetryNo,
			Message: "the trusted manifest must grant these paths with a host path: " + strings.Join(missing, ", "),
			Details: map[string]any{"paths": missing}}
	}
	m := *s.Manifest
	m.Grants = slices.Clone(trusted.Grants)
	s.Manifest = &m
	s.rebind = nil
	return s, nil
}

// CheckBound returns fault.InvalidArgument while something that was taken out of
// the state has not been bound again, and for grants that show one host path at
// another, which croft does not support.
func (s Serialized) CheckBound() error {
	switch {
	case len(s.rebind) > 0:
		return notBound("grants of the state have lost their host paths: bind it to a trusted manifest (paths " + strings.Join(s.rebind, ", ") + ")")
	case s.mounts:
		return notBound("mounts of the state have lost their credentials: storage mounts cannot be resumed yet")
	}
	for _, g := range s.Manifest.Grants {
		if g.HostPath != "" {
			return notBound("the grant of " + g.Path + " shows another host path there, which is not supported: grant the path itself")
		}
	}
	return nil
}

func notBound(message string) error {
	return &fault.Error{Code: fault.InvalidArgument, Op: "resume", Reason: "not_bound", Retry: fault.RetryNo, Message: message}
}

func badState(what, place string) error {
	e := &fault.Error{Code: fault.InvalidArgument, Op: "resume", Reason: "bad_state", Retry: fault.RetryNo,
		Message: "the session state " + what}
	if place != "" {
		e.Message = fmt.Sprintf("the session state %s (at %s)", what, place)
		e.Details = map[string]any{"place": place}
	}
	return e
}

// union returns a and then what b has besides, each once.
func union(a, b []string) []string {
	var out []string
	for _, s := range slices.Concat(a, b) {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

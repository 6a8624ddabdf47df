package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/snapshot"
)

// recordVersion is the version of the record's form that this package writes.
// Reading an older one must go on working: testdata holds one of each.
const recordVersion = 1

// maxRecord bounds what is read as a record; a manifest may have 4 MiB.
const maxRecord = 32 << 20

// Phase says how far a session is in its life. It is recorded before what it
// announces can have an effect that the next look must know of.
type Phase string

// The phases.
const (
	// Created: never started to the end. What is in a workspace of croft's own was put
	// there by a start that was cut short.
	Created Phase = "created"
	// Running: started, and not shut down; on a session that nobody holds, its
	// process was killed.
	Running Phase = "running"
	// Stopped: nothing runs.
	Stopped Phase = "stopped"
	// Deleting: mounts are being released; the rename to the trash comes last.
	Deleting Phase = "deleting"
)

func (p Phase) known() bool {
	return p == Created || p == Running || p == Stopped || p == Deleting
}

// Record is what croft remembers of one session.
type Record struct {
	Version int       `json:"version"`
	ID      ID        `json:"id"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
	Phase   Phase     `json:"phase"`
	Parent  ID        `json:"parent,omitempty"` // the session this one was forked from

	// RootReady says that the workspace was whole once: filled or restored to the end.
	RootReady bool `json:"workspace_root_ready"`
	// Root is the canonical host path of the workspace; empty until it is known.
	Root string `json:"root,omitempty"`
	// RootOwned says that the workspace is croft's own and goes with the session.
	RootOwned bool `json:"workspace_root_owned"`
	// SeenRoot is where commands saw the workspace at the last start, and Tier how
	// they were confined: a resume elsewhere tells when they differ.
	SeenRoot string `json:"seen_root,omitempty"`
	Tier     string `json:"tier,omitempty"`

	// Manifest is the manifest in its normal form.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	// Options are further options of the session that its owner wants back.
	Options json.RawMessage `json:"options,omitempty"`
	// Policy is the policy in its file form.
	Policy json.RawMessage `json:"policy,omitempty"`
	// Grants are the host paths granted by the program, beside the manifest's.
	Grants []Grant `json:"grants,omitempty"`
	// ExposedPorts are the ports that may be reached from outside.
	ExposedPorts []int `json:"exposed_ports,omitempty"`

	// Snapshot says where the workspace is saved.
	Snapshot snapshot.Spec `json:"snapshot"`
	// Fingerprint is that of the last save or restore; nil where there was none.
	Fingerprint *snapshot.Fingerprint `json:"snapshot_fingerprint,omitempty"`

	// UID is the session's own uid where croft runs as root, else 0.
	UID int `json:"uid,omitempty"`
	// Warden is the process that holds the session's namespaces, nil when none runs.
	Warden *Process `json:"warden,omitempty"`
	// Kept tells why a workspace was kept that would else be gone.
	Kept *Kept `json:"kept,omitempty"`
}

// Grant is access to one host path outside the workspace.
type Grant struct {
	Path        string `json:"path"`
	ReadOnly    bool   `json:"read_only,omitempty"`
	Description string `json:"description,omitempty"`
	HostPath    string `json:"host_path,omitempty"`
}

// Process names a process beyond the reuse of its pid.
type Process struct {
	PID int `json:"pid"`
	// StartTime is field 22 of /proc/PID/stat (proc_pid_stat(5)), in clock ticks since boot.
	StartTime uint64 `json:"start_time"`
	// BootID is /proc/sys/kernel/random/boot_id: no process of an earlier boot lives.
	BootID string `json:"boot_id,omitempty"`
}

// Kept says why and since when a workspace is kept.
type Kept struct {
	Why  string    `json:"why"`
	When time.Time `json:"when"`
}

// encode returns the record's form on disk.
func (r Record) encode() ([]byte, error) {
	r.Version = recordVersion
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode session record: %w", err)
	}
	return append(data, '\n'), nil
}

// decode reads a record. The error is fault.StateCorrupt, whose reason is
// "unknown_version" or "unreadable".
func decode(id ID, data []byte) (Record, error) {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Record{}, corrupt(id, "unreadable", "is damaged", err)
	}
	if head.Version > recordVersion {
		return Record{}, corrupt(id, "unknown_version",
			fmt.Sprintf("was written by a newer croft (record version %d, this one reads up to %d): use that croft", head.Version, recordVersion), nil)
	}
	// Every change of the form counts the version up, so an unknown field is damage.
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var r Record
	if err := dec.Decode(&r); err != nil {
		return Record{}, corrupt(id, "unreadable", "is damaged", err)
	}
	switch {
	case head.Version < 1:
		return Record{}, corrupt(id, "unreadable", "has no version", nil)
	case r.ID != id:
		return Record{}, corrupt(id, "unreadable", "names another session", nil)
	case !r.Phase.known():
		return Record{}, corrupt(id, "unreadable", "has an unknown phase", nil)
	}
	return r, nil
}

func corrupt(id ID, reason, what string, cause error) error {
	return &fault.Error{Code: fault.StateCorrupt, Op: "load", Reason: reason, Retry: fault.RetryNo, Err: cause,
		Message: "the record of session " + id.String() + " " + what + "; deleting the session removes it with its workspace",
		Details: map[string]any{"session_id": id.String()}}
}

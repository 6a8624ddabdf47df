package state

import "github.com/croftdev/croft/snapshot"

// StartStep is one thing that a start does to the workspace, or one question that
// it asks before.
type StartStep string

// The steps of a start. The first three are questions, asked by [DecideStart]
// itself through its input; the others are what remains to be done.
const (
	ProbeRoot   StartStep = "probe_root"  // is the preserved workspace there after all?
	AskRunning  StartStep = "ask_running" // does the session's backend still run?
	Fingerprint StartStep = "fingerprint" // what does the workspace hold now?

	ClearWorkspace        StartStep = "clear_workspace"          // empty it; never a caller's root
	RestoreArchive        StartStep = "restore_archive"          // unpack the snapshot
	ProvisionAccounts     StartStep = "provision_accounts"       // the manifest's users and groups
	ApplyEphemeral        StartStep = "apply_ephemeral"          // the manifest's ephemeral entries only
	ApplyFull             StartStep = "apply_full"               // the whole manifest
	ApplyFullWithAccounts StartStep = "apply_full_with_accounts" // and its users and groups
)

// StartInput is what a start knows. The three functions are asked at most once
// each and only where their answer matters; a nil one answers no.
type StartInput struct {
	// Restorable says that there is a snapshot to restore.
	Restorable bool
	// Preserved says that the workspace may still be there as the session left it.
	Preserved bool
	// SystemPreserved says that accounts made at an earlier start may still be there.
	SystemPreserved bool
	// RootReady says that the record knows the workspace to have been whole.
	RootReady bool
	// CallersRoot says that the workspace is a directory of the caller's, which is
	// never cleared.
	CallersRoot bool
	// Stored is the fingerprint in the record; nil where there is none.
	Stored *snapshot.Fingerprint

	// Probe looks whether the root of a preserved workspace is there.
	Probe func() bool
	// Running tells whether the session's backend runs.
	Running func() bool
	// Live computes the fingerprint of the workspace; nil if that fails.
	Live func() *snapshot.Fingerprint
}

// StartPlan is what a start has to do.
type StartPlan struct {
	// Steps are the questions that were asked and then what is to be done, in order.
	Steps []StartStep
	// SkipsRestore says that there is a snapshot and the workspace already holds it.
	SkipsRestore bool
	// RootReady is what the record says once every step has been done.
	RootReady bool
}

// Do returns the steps that remain to be done, without the questions.
func (p StartPlan) Do() []StartStep {
	for i, s := range p.Steps {
		if s != ProbeRoot && s != AskRunning && s != Fingerprint {
			return p.Steps[i:]
		}
	}
	return nil
}

// DecideStart decides how a start brings the workspace into being (cases SS-082
// to SS-105). The rule: a workspace is used as it is only if it is preserved and
// its root known or found to be ready; where there is a snapshot, only if besides
// the backend runs and the live fingerprint equals the stored one. Else the
// snapshot is restored, and without one the whole manifest applied. Ephemeral
// entries are built again in every case.
func DecideStart(in StartInput) StartPlan {
	plan := StartPlan{RootReady: true}
	ask := func(s StartStep) { plan.Steps = append(plan.Steps, s) }
	ready := in.RootReady
	if in.Preserved && !ready {
		ask(ProbeRoot)
		ready = in.Probe != nil && in.Probe()
	}
	reusable := in.Preserved && ready
	switch {
	case in.Restorable && reusable && in.holdsSnapshot(ask):
		plan.SkipsRestore = true
		ask(ApplyEphemeral)
	case in.Restorable:
		if !in.CallersRoot {
			ask(ClearWorkspace)
		}
		ask(RestoreArchive)
		if !in.SystemPreserved {
			ask(ProvisionAccounts)
		}
		ask(ApplyEphemeral)
	case reusable:
		ask(ApplyEphemeral)
	case in.SystemPreserved:
		ask(ApplyFull)
	default:
		ask(ApplyFullWithAccounts)
	}
	return plan
}

// holdsSnapshot reports whether the workspace still holds what was saved last.
func (in StartInput) holdsSnapshot(ask func(StartStep)) bool {
	ask(AskRunning)
	if in.Running == nil || !in.Running() || in.Stored == nil || in.Stored.Value == "" || in.Stored.Version == "" {
		return false
	}
	ask(Fingerprint)
	if in.Live == nil {
		return false
	}
	live := in.Live()
	return live != nil && *live == *in.Stored
}

// LocalWorkspace is what croft finds on this machine when a session starts.
type LocalWorkspace struct {
	// Exists says that the workspace's directory is there.
	Exists bool
	// Ready says that the record knows it to have been whole.
	Ready bool
	// CallersRoot says that it is a directory of the caller's.
	CallersRoot bool
	// Restorable says that there is a snapshot to restore.
	Restorable bool
	// Demanded says that the caller asks for the snapshot although there may be a
	// workspace; he saves that one first.
	Demanded bool
	// Stored is the fingerprint in the record.
	Stored *snapshot.Fingerprint
}

// Start decides how a session starts on this machine, by [DecideStart].
//
// A workspace on disk wins (case SS-150): it holds the latest work, also what was
// done after the last save, so a snapshot is restored only where the workspace is
// missing, was never whole, or the caller demands it. No fingerprint is needed for
// that.
func (w LocalWorkspace) Start() StartPlan {
	kept := w.Exists && w.Ready && !w.Demanded
	return DecideStart(StartInput{
		Restorable:      w.Restorable && !kept,
		Preserved:       kept,
		SystemPreserved: kept,
		RootReady:       w.Ready,
		CallersRoot:     w.CallersRoot,
		Stored:          w.Stored,
	})
}

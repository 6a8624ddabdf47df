package state

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/snapshot"
)

// The rules that hold whatever a start finds; single cases stand in the
// conformance cases.
func TestDecideStartRules(t *testing.T) {
	f := func(v string) *snapshot.Fingerprint { return &snapshot.Fingerprint{Value: v, Version: "v"} }
	prints := []*snapshot.Fingerprint{nil, f("a"), f("b"), {Value: "a"}}
	n := 0
	for bits := range 1 << 7 {
		bit := func(i int) bool { return bits>>i&1 == 1 }
		for _, stored := range prints {
			for _, live := range prints {
				asked := map[StartStep]int{}
				in := StartInput{
					Restorable: bit(0), Preserved: bit(1), SystemPreserved: bit(2), RootReady: bit(3), CallersRoot: bit(4), Stored: stored,
					Probe:   func() bool { asked[ProbeRoot]++; return bit(5) },
					Running: func() bool { asked[AskRunning]++; return bit(6) },
					Live:    func() *snapshot.Fingerprint { asked[Fingerprint]++; return live },
				}
				plan := DecideStart(in)
				n++
				if err := brokenRule(in, plan, asked, bit(5), bit(6), live); err != "" {
					t.Fatalf("%s: %+v gives %+v, asked %v", err, in, plan, asked)
				}
			}
		}
	}
	t.Logf("%d inputs", n)
}

func brokenRule(in StartInput, plan StartPlan, asked map[StartStep]int, probe, running bool, live *snapshot.Fingerprint) string {
	has := func(s StartStep) bool { return slices.Contains(plan.Steps, s) }
	for _, q := range []StartStep{ProbeRoot, AskRunning, Fingerprint} {
		if has(q) != (asked[q] == 1) || asked[q] > 1 {
			return fmt.Sprintf("%s is a step but was not asked once, or the reverse", q)
		}
	}
	do := plan.Do()
	reusable := in.Preserved && (in.RootReady || probe)
	same := in.Stored != nil && in.Stored.Version != "" && live != nil && *in.Stored == *live
	switch {
	case has(ClearWorkspace) && (in.CallersRoot || !has(RestoreArchive)):
		return "cleared a caller's root, or what is not restored"
	case has(RestoreArchive) && !in.Restorable:
		return "restores what is not restorable"
	case in.Restorable != (has(RestoreArchive) || plan.SkipsRestore):
		return "a restorable snapshot is neither restored nor known to be there"
	case plan.SkipsRestore && !(reusable && running && same):
		return "skips a restore without proof"
	case has(ApplyFull) || has(ApplyFullWithAccounts):
		if in.Restorable || reusable || len(do) != 1 {
			return "applies the whole manifest over a workspace"
		}
	case do[len(do)-1] != ApplyEphemeral:
		return "ephemeral entries are not built last"
	case !in.Restorable && len(do) != 1:
		return "does more than it must"
	}
	if !plan.RootReady {
		return "a root that is not ready after a start"
	}
	return ""
}

// A workspace on disk wins over a snapshot unless it was never whole or the
// caller demands the snapshot.
func TestLocalWorkspace(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   LocalWorkspace
		want []StartStep
	}{
		{"new, no snapshot", LocalWorkspace{}, []StartStep{ApplyFullWithAccounts}},
		{"new, from a snapshot", LocalWorkspace{Restorable: true}, []StartStep{ClearWorkspace, RestoreArchive, ProvisionAccounts, ApplyEphemeral}},
		{"there and whole", LocalWorkspace{Exists: true, Ready: true}, []StartStep{ApplyEphemeral}},
		{"there and whole, a snapshot too", LocalWorkspace{Exists: true, Ready: true, Restorable: true}, []StartStep{ApplyEphemeral}},
		{"the snapshot is demanded", LocalWorkspace{Exists: true, Ready: true, Restorable: true, Demanded: true}, []StartStep{ClearWorkspace, RestoreArchive, ProvisionAccounts, ApplyEphemeral}},
		{"cut short while it was filled", LocalWorkspace{Exists: true}, []StartStep{ApplyFullWithAccounts}},
		{"cut short while it was restored", LocalWorkspace{Exists: true, Restorable: true}, []StartStep{ClearWorkspace, RestoreArchive, ProvisionAccounts, ApplyEphemeral}},
		{"lost, no snapshot", LocalWorkspace{Ready: true}, []StartStep{ApplyFullWithAccounts}},
		{"lost", LocalWorkspace{Ready: true, Restorable: true}, []StartStep{ClearWorkspace, RestoreArchive, ProvisionAccounts, ApplyEphemeral}},
		{"a caller's root is never cleared", LocalWorkspace{Exists: true, CallersRoot: true, Restorable: true}, []StartStep{RestoreArchive, ProvisionAccounts, ApplyEphemeral}},
	} {
		if got := tt.in.Start().Steps; !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestSavedFingerprint(t *testing.T) {
	before, live := &snapshot.Fingerprint{Value: "b"}, &snapshot.Fingerprint{Value: "l"}
	broken := errors.New("broken")
	for _, tt := range []struct {
		saved Saved
		want  *snapshot.Fingerprint
	}{{Saved{Live: live}, live}, {Saved{}, nil}, {Saved{Live: live, Err: broken}, before}, {Saved{Err: broken}, before}} {
		if got := tt.saved.Fingerprint(before); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.saved, got, tt.want)
		}
	}
	if err := StopError(NewID(), broken); !errors.Is(err, fault.WorkspaceStopError) || !errors.Is(err, broken) {
		t.Errorf("StopError = %v", err)
	}
	if err := StopError(NewID(), nil); err != nil {
		t.Errorf("StopError of nothing = %v", err)
	}
}

package confine

import (
	"errors"
	"math"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/policy"
)

func TestParseProcStat(t *testing.T) {
	line := "42 (sh) x) R 1) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2"
	got, err := parseProcStat(line)
	if err != nil {
		t.Fatal(err)
	}
	if want := (procStat{state: 'S', ppid: 7, pgrp: 8, session: 9, startTime: 12345}); got != want {
		t.Errorf("stat %+v, want %+v", got, want)
	}
	for _, bad := range []string{"", ")", "1 (x) S 1", "1 (x) S a b c 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0"} {
		if _, err := parseProcStat(bad); !errors.Is(err, errWire) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzParseProcStat(f *testing.F) {
	f.Add("42 (sh) x) R 1) S 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2")
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := parseProcStat(s); err != nil && !errors.Is(err, errWire) {
			t.Errorf("%v", err)
		}
	})
}

func TestDescendants(t *testing.T) {
	procs := map[int]procStat{
		1: {state: 'S'}, 2: {state: 'S', ppid: 1}, 3: {state: 'Z', ppid: 2}, 4: {state: 'T', ppid: 3},
		5: {state: 'S', ppid: 1}, 6: {state: 'S', ppid: 5}, 7: {state: 'S', ppid: 99},
	}
	got := make(map[int]bool)
	for _, pid := range descendants(procs, 1, func(pid int) bool { return pid == 5 }) {
		got[pid] = true
	}
	// 3 is dead, but its child lives; 5 is left out with all below it.
	if diff := cmp.Diff(map[int]bool{2: true, 4: true}, got); diff != "" {
		t.Errorf("descendants (-want +got):\n%s", diff)
	}
}

// TestMapping: every id appears once on each side, and only the owner changes.
func TestMapping(t *testing.T) {
	for _, tt := range []struct{ owner, session int }{{0, 2_000_000_000}, {1000, 2_000_000_000}, {5, 3}, {7, 7}, {0, 1}} {
		seen := func(id int) (int, bool) {
			at, n := 0, 0
			for _, m := range mapping(tt.owner, tt.session) {
				if id >= m.ContainerID && id < m.ContainerID+m.Size {
					at, n = m.HostID+id-m.ContainerID, n+1
				}
			}
			if n > 1 {
				t.Errorf("%+v: id %d is mapped twice", tt, id)
			}
			return at, n == 1
		}
		if at, ok := seen(tt.owner); !ok || at != tt.session {
			t.Errorf("%+v: the owner is seen as %d", tt, at)
		}
		if at, ok := seen(tt.session); ok && tt.owner != tt.session {
			t.Errorf("%+v: the session's id on disk is seen as %d", tt, at)
		}
		for _, id := range []int{0, 1, 2, 4, 999, 1001, 65534, 2_100_000_000, math.MaxUint32 - 1} {
			if id == tt.owner || id == tt.session {
				continue
			}
			if at, ok := seen(id); !ok || at != id {
				t.Errorf("%+v: %d is seen as %d", tt, id, at)
			}
		}
	}
}

func TestParseIDMap(t *testing.T) {
	got, err := parseIDMap("         0       1000          1\n         1     100000      65536\n")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]policy.IDMap{{Inside: 0, Outside: 1000, Count: 1}, {Inside: 1, Outside: 100000, Count: 65536}}, got); diff != "" {
		t.Errorf("map (-want +got):\n%s", diff)
	}
}

func TestUnescapeMount(t *testing.T) {
	for in, want := range map[string]string{`/a\040b`: "/a b", `/a\134040`: `/a\040`, `/a\`: `/a\`, `/a\9xy`: `/a\9xy`, "/ü": "/ü"} {
		if got := unescapeMount(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestExplain: each failure names what is missing and what would bring it.
func TestExplain(t *testing.T) {
	for _, s := range []step{
		stepSetup, stepFork, stepBind, stepIdentity, stepIDMap, stepRoot, stepAttach, stepProc, stepPivot, stepProtect,
		stepNetwork, stepPrivileges, stepLandlock, stepSeccomp, stepReceipt,
	} {
		for _, errno := range []syscall.Errno{0, syscall.EPERM, syscall.EINVAL, syscall.ENOSPC, syscall.EACCES, syscall.ENOSYS} {
			err := explain(&failure{Step: s, Path: "/p", Errno: errno})
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Message == "" || e.Details["missing"] == "" || e.Details["fix"] == "" {
				t.Errorf("%s %v: %#v", s, errno, err)
			}
			if errno != 0 && !errors.Is(err, errno) {
				t.Errorf("%s: the errno %v is lost", s, errno)
			}
		}
	}
}

package confine

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"strings"

	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/policy"
)

// Session uids come from here: below 2^31, so that every tool prints them well, and
// above what distributions, subuid files, systemd (up to 1879048191, see
// systemd's UIDS-GIDS) and directory services hand out.
const (
	firstUID = 2_000_000_000
	lastUID  = 2_100_000_000
)

func chooseUID() (int, error) {
	low, high, err := uidRange()
	if err != nil {
		return 0, err
	}
	n, err := rand.Int(rand.Reader, big.NewInt(int64(high-low)+1))
	if err != nil {
		return 0, fmt.Errorf("choose a uid: %w", err)
	}
	return int(low) + int(n.Int64()), nil
}

// uidRange returns the range to choose from: the usual one if this user namespace
// maps it whole, else the upper half of the largest range that it maps (a container with
// 65536 ids).
func uidRange() (low, high uint32, err error) {
	ranges, err := mappedUIDs()
	if err != nil {
		return 0, 0, fmt.Errorf("choose a uid: %w", err)
	}
	var largest policy.IDMap
	for _, r := range ranges {
		if r.Inside <= firstUID && uint64(r.Inside)+uint64(r.Count) > lastUID {
			return firstUID, lastUID, nil
		}
		if r.Count > largest.Count {
			largest = r
		}
	}
	// Above 60000 distributions assign nothing but nobody (65534).
	low, high = max(largest.Inside+largest.Count/2, 60001), largest.Inside+largest.Count-3
	if largest.Count < 4 || low >= high {
		return 0, 0, &fault.Error{
			Code: fault.ConfinementUnavailable, Op: "start", Reason: "uid", Retry: fault.RetryNo,
			Message: "this user namespace maps too few uids to give a session its own: run croft as an ordinary user, or map at least 65536 uids",
		}
	}
	return low, high, nil
}

// mappedUIDs returns the uid map of this process.
func mappedUIDs() ([]policy.IDMap, error) {
	text, err := readSmall("/proc/self/uid_map", 64<<10)
	if err != nil {
		return nil, err
	}
	return parseIDMap(text)
}

// parseIDMap parses /proc/PID/uid_map, see user_namespaces(7).
func parseIDMap(text string) ([]policy.IDMap, error) {
	list := []policy.IDMap{}
	for line := range strings.Lines(text) {
		var m policy.IDMap
		if _, err := fmt.Sscan(line, &m.Inside, &m.Outside, &m.Count); err != nil {
			return nil, fmt.Errorf("read an id map: %w", err)
		}
		list = append(list, m)
	}
	return list, nil
}

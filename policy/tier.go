package policy

import "fmt"

// Tier is a way to confine commands.
type Tier string

// The tiers. None is never chosen by croft, only by name.
const (
	Namespaces Tier = "namespaces" // Linux: namespaces, a root of its own, landlock and seccomp
	Landlock   Tier = "landlock"   // Linux without namespaces: landlock and seccomp
	Seatbelt   Tier = "seatbelt"   // macOS
	None       Tier = "none"       // commands run like any other program of the user
)

// strength orders the tiers; landlock and seatbelt never meet on one machine.
func (t Tier) strength() int {
	switch t {
	case Namespaces:
		return 3
	case Landlock, Seatbelt:
		return 2
	case None:
		return 1
	default:
		return 0
	}
}

func (t Tier) known() bool { return t.strength() > 0 }

// tierNames and networkNames are what the file form takes.
var (
	tierNames    = []string{string(Namespaces), string(Landlock), string(Seatbelt), string(None)}
	networkNames = []string{string(NetworkNone), string(NetworkHost)}
)

// AtLeast reports whether t confines at least as much as floor. Every tier is at
// least the empty floor except [None], which only a floor of none allows.
func (t Tier) AtLeast(floor Tier) bool {
	if floor == "" {
		return t != None
	}
	return t.strength() >= floor.strength()
}

// ParseTier returns the tier with the given name; the error wraps [ErrInvalid].
func ParseTier(s string) (Tier, error) {
	if t := Tier(s); t.known() {
		return t, nil
	}
	return "", fmt.Errorf("%w: no tier is called %q: use namespaces, landlock, seatbelt or none", ErrInvalid, s)
}

// Network is the network that commands see.
type Network string

// The networks.
const (
	NetworkNone Network = "none" // a loopback interface of the session's own and nothing else
	NetworkHost Network = "host" // the host's network, unfiltered
)

func (n Network) known() bool { return n == NetworkNone || n == NetworkHost }

// OrDefault returns n, or [NetworkNone] if n is empty.
func (n Network) OrDefault() Network {
	if n == "" {
		return NetworkNone
	}
	return n
}

// ParseNetwork returns the network with the given name; the error wraps [ErrInvalid].
func ParseNetwork(s string) (Network, error) {
	if n := Network(s); n.known() {
		return n, nil
	}
	return "", fmt.Errorf("%w: no network is called %q: use none or host", ErrInvalid, s)
}

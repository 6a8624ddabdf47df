package policy

import (
	"fmt"
	"strings"
)

// presets are the policies that have a name.
var presets = []struct {
	name, purpose string
	policy        Policy
}{
	{"default", "the strongest confinement of this machine, without a network", Policy{}},
	{"strict", "the namespaces tier or nothing, without a network", Policy{Floor: Namespaces, Network: NetworkNone}},
	{"open-network", "as default, with the host's network", Policy{Network: NetworkHost}},
}

// PresetNames returns the names that [Preset] knows.
func PresetNames() []string {
	var names []string
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}

// Preset returns the policy with the given name: "default" is the zero value, "strict" refuses
// every tier but namespaces, "open-network" shows the host's network. The error wraps [ErrInvalid].
func Preset(name string) (Policy, error) {
	for _, p := range presets {
		if p.name == name {
			return p.policy, nil
		}
	}
	return Policy{}, fmt.Errorf("%w: no preset is called %q: use %s", ErrInvalid, name, strings.Join(PresetNames(), ", "))
}

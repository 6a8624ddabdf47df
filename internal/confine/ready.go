package confine

import "github.com/croftdev/croft/policy"

// ready is what the warden reports when it is complete, as JSON.
type ready struct {
	// Home is where commands have their HOME; only the tier none chooses it itself.
	Home    string         `json:"home"`
	Receipt policy.Receipt `json:"receipt"`
}

package confine

import "github.com/croftdev/croft/policy"

// ready is what the warden reports when it is complete, as JSON.
type ready struct {
	Root       string         `json:"root"`
	Home       string         `json:"home"`
	User       string         `json:"user"`
	SearchPath string         `json:"search_path"`
	Receipt    policy.Receipt `json:"receipt"`
}

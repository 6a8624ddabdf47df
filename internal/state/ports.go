package state

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/croftdev/croft/internal/fault"
)

// Ports are the ports of a session that may be reached from outside. Their JSON
// form is a list.
type Ports []int

// NewPorts returns the ports in their order, each once. A number outside 1 to
// 65535 is fault.InvalidArgument.
func NewPorts(ports []int) (Ports, error) {
	out := Ports{}
	for _, p := range ports {
		if p < 1 || p > 65535 {
			return nil, portFault("exposed ports must be between 1 and 65535")
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// MarshalJSON writes a list, also for nil.
func (p Ports) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("[]"), nil
	}
	return json.Marshal([]int(p))
}

// UnmarshalJSON reads null as no port, one whole number, or a list of whole
// numbers, and applies [NewPorts] (cases SS-123 to SS-132). Everything else, also
// 80.0 and "80", is fault.InvalidArgument.
func (p *Ports) UnmarshalJSON(data []byte) error {
	var items []json.RawMessage
	switch data = bytes.TrimSpace(data); {
	case string(data) == "null":
	case len(data) > 0 && data[0] == '[':
		if err := json.Unmarshal(data, &items); err != nil {
			return portFault("exposed ports must be a list of port numbers")
		}
	default:
		items = []json.RawMessage{data}
	}
	numbers := make([]int, len(items))
	for i, item := range items {
		n, err := strconv.Atoi(string(item))
		if err != nil {
			return portFault("exposed ports must be whole numbers")
		}
		numbers[i] = n
	}
	out, err := NewPorts(numbers)
	if err != nil {
		return err
	}
	*p = out
	return nil
}

func portFault(message string) error {
	return &fault.Error{Code: fault.InvalidArgument, Op: "exposed_ports", Message: message, Retry: fault.RetryNo}
}

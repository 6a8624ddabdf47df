package croft

import (
	"context"
	"fmt"
	"slices"

	"github.com/croftdev/croft/event"
	"github.com/croftdev/croft/internal/endpoint"
	"github.com/croftdev/croft/internal/fault"
	"github.com/croftdev/croft/policy"
)

// Endpoint is where a port of a session is reached from this machine. Its URL method
// gives it the form that HTTP and WebSocket clients take.
type Endpoint = endpoint.Endpoint

// ExposedPort returns where a port that the session declared is reached. With the
// host's network that is the loopback address. A port that was not declared, and any
// port of a session without a network, is exposed_port_unavailable, whose reason
// ("not_declared", "network_none") says which.
func (s *Session) ExposedPort(ctx context.Context, port int) (Endpoint, error) {
	var end Endpoint
	err := s.observeResult(ctx, event.OpResolveExposedPort, []event.Field{event.Int("port", int64(port))},
		func(context.Context) (event.Result, error) {
			var err error
			end, err = s.exposedPort(port)
			// The names of OpenTelemetry's conventions; they stand in place of the start's.
			return event.Result{Replace: true, Data: []event.Field{
				event.String("server.address", end.Host), event.Int("server.port", int64(end.Port)),
			}}, err
		})
	return end, err
}

func (s *Session) exposedPort(port int) (Endpoint, error) {
	s.mu.Lock()
	declared, network := slices.Clone(s.rec.ExposedPorts), s.plan.policy.Network.OrDefault()
	s.mu.Unlock()
	unavailable := func(reason, message string) error {
		return &fault.Error{Code: fault.ExposedPortUnavailable, Op: "resolve_exposed_port", Reason: reason, Retry: fault.RetryNo,
			Message: message, Details: map[string]any{"port": port, "exposed_ports": declared}}
	}
	switch {
	case !slices.Contains(declared, port):
		return Endpoint{}, unavailable("not_declared", fmt.Sprintf("port %d was not declared; name it when the session is created", port))
	case network == policy.NetworkNone:
		return Endpoint{}, unavailable("network_none", "the session has no network, so none of its ports can be reached from outside it")
	}
	return Endpoint{Host: "127.0.0.1", Port: port}, nil
}

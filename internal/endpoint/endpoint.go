// Package endpoint names the address at which a port of a session can be reached.
package endpoint

import (
	"net"
	"strconv"
	"strings"

	"github.com/croftdev/croft/internal/fault"
)

// Endpoint is where a port of a session can be reached.
type Endpoint struct {
	// Host is a name or an address; an IPv6 address stands with or without brackets.
	Host string
	// Port is the port there, which need not be the one inside the session.
	Port int
	// TLS says that the port speaks TLS.
	TLS bool
	// Query is sent with each request, such as a token; a leading "?" makes no difference.
	Query string
}

// defaultPorts are the ports that a URL leaves out, by scheme.
var defaultPorts = map[string]int{"http": 80, "ws": 80, "https": 443, "wss": 443}

// URL returns the endpoint as a URL of the scheme "http" or "ws", in any case; with TLS of https or
// wss. The scheme's own port is left out. Another scheme is fault.InvalidArgument.
func (e Endpoint) URL(scheme string) (string, error) {
	scheme = strings.ToLower(scheme)
	if scheme != "http" && scheme != "ws" {
		return "", &fault.Error{
			Code: fault.InvalidArgument, Op: "resolve_exposed_port", Reason: "scheme", Retry: fault.RetryNo,
			Message: "the scheme of an exposed port is http or ws",
		}
	}
	if e.TLS {
		scheme += "s"
	}
	host := strings.TrimSuffix(strings.TrimPrefix(e.Host, "["), "]")
	address := net.JoinHostPort(host, strconv.Itoa(e.Port))
	if e.Port == defaultPorts[scheme] {
		address = strings.TrimSuffix(address, ":"+strconv.Itoa(e.Port))
	}
	url := scheme + "://" + address + "/"
	if query := strings.TrimPrefix(e.Query, "?"); query != "" {
		url += "?" + query
	}
	return url, nil
}

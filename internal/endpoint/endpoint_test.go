package endpoint

import (
	"errors"
	"testing"

	"github.com/croftdev/croft/internal/fault"
)

func TestURL(t *testing.T) {
	for _, tt := range []struct {
		name     string
		endpoint Endpoint
		scheme   string
		want     string
		err      error
	}{
		{name: "own port left out", endpoint: Endpoint{Host: "h", Port: 80}, scheme: "http", want: "http://h/"},
		{name: "other port", endpoint: Endpoint{Host: "h", Port: 8765}, scheme: "http", want: "http://h:8765/"},
		{name: "capitals", endpoint: Endpoint{Host: "h", Port: 80}, scheme: "WS", want: "ws://h/"},
		{name: "TLS", endpoint: Endpoint{Host: "h", Port: 443, TLS: true}, scheme: "http", want: "https://h/"},
		{name: "TLS elsewhere", endpoint: Endpoint{Host: "h", Port: 80, TLS: true}, scheme: "ws", want: "wss://h:80/"},
		{name: "443 without TLS", endpoint: Endpoint{Host: "h", Port: 443}, scheme: "http", want: "http://h:443/"},
		{name: "IPv6", endpoint: Endpoint{Host: "::1", Port: 80}, scheme: "http", want: "http://[::1]/"},
		{name: "IPv6 with a port like its end", endpoint: Endpoint{Host: "::80", Port: 80}, scheme: "http", want: "http://[::80]/"},
		{name: "IPv6 in brackets", endpoint: Endpoint{Host: "[::1]", Port: 81}, scheme: "http", want: "http://[::1]:81/"},
		{name: "query", endpoint: Endpoint{Host: "h", Port: 80, Query: "a=b"}, scheme: "http", want: "http://h/?a=b"},
		{name: "query with its mark", endpoint: Endpoint{Host: "h", Port: 80, Query: "?a=b"}, scheme: "http", want: "http://h/?a=b"},
		{name: "nothing but the mark", endpoint: Endpoint{Host: "h", Port: 80, Query: "?"}, scheme: "http", want: "http://h/"},
		{name: "other scheme", endpoint: Endpoint{Host: "h", Port: 80}, scheme: "https", err: fault.InvalidArgument},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.endpoint.URL(tt.scheme)
			if !errors.Is(err, tt.err) || got != tt.want {
				t.Errorf("URL(%q) = %q, %v; want %q, %v", tt.scheme, got, err, tt.want, tt.err)
			}
		})
	}
}

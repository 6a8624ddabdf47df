package denial

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/croftdev/croft/policy"
)

// unreachable are the messages of resolvers and of connect(2) that a session without a network
// causes, with the host as the one group. A refused connection is not among them: it needs a network.
var unreachable = []*regexp.Regexp{
	regexp.MustCompile(`(?i)could not resolve host(?:name)?:? '?([\w.:-]+)`),                                                                                                          // curl, git
	regexp.MustCompile(`(?i)could not resolve '([\w.:-]+)'`),                                                                                                                          // apt
	regexp.MustCompile(`(?i)unable to resolve host address .([\w.:-]+)`),                                                                                                              // wget
	regexp.MustCompile(`(?i)([\w.:-]+): (?:temporary failure in name resolution|name or service not known)`),                                                                          // ping, ssh
	regexp.MustCompile(`getaddrinfo (?:EAI_AGAIN|ENOTFOUND) ([\w.:-]+)`),                                                                                                              // node
	regexp.MustCompile(`(?:lookup|dial tcp:? lookup) ([\w.-]+)(?: on [^ ]+)?: (?:.*no such host|.*connection refused|.*network is unreachable|server misbehaving|Temporary failure)`), // go
	regexp.MustCompile(`host='([\w.:-]+)', port=\d+\): .*(?:Name or service not known|Temporary failure in name resolution|Network is unreachable)`),                                  // python
	regexp.MustCompile(`(?i)connect(?:ing)? to (?:host )?(?:address )?\[?([\w.:-]+?)\]?(?: port \d+)?(?: failed)?(?: after \d+ ms)?: network is unreachable`),
	regexp.MustCompile(`connect ENETUNREACH \[?([\w.:-]+?)\]?:\d+`),
	regexp.MustCompile(`dial (?:tcp|udp) \[?([\w.:-]+?)\]?:\d+: connect: network is unreachable`),
}

// network explains a line about a host, if commands have no network. Without a host in it the line
// says too little: anything may print that the network is unreachable.
func (e Evidence) network(line string) (Denial, bool) {
	if e.Receipt.Network != policy.NetworkNone {
		return Denial{}, false
	}
	for _, m := range unreachable {
		found := m.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		host := strings.TrimRight(found[1], ".:")
		if host == "" || local(host) {
			return Denial{}, false
		}
		return Denial{Network, host, "network: none", Grant{"network", string(policy.NetworkHost)}, Likely}, true
	}
	return Denial{}, false
}

// local reports whether host is this machine, which a session reaches without a network too.
func local(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback() || addr.IsUnspecified()
	}
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

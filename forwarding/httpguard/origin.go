package httpguard

import (
	"net"
	"net/netip"
	"strings"
)

// IsOriginOf reports whether an origin, as browsers send it, has the host and port of a Host header. The scheme is not compared,
// since a proxy may have removed TLS.
func IsOriginOf(origin, host string) bool {
	_, authority, found := strings.Cut(origin, "://")
	return found && authority != "" && strings.EqualFold(authority, host)
}

// HostName returns the name or address in a Host header, without its port, in lower case.
func HostName(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return strings.TrimSuffix(strings.ToLower(name), ".")
}

// IsFixedHost reports whether the result of [HostName] is an IP address or localhost. The owner of any other name can let a browser
// load a page from it, and then point the name at this machine (DNS rebinding): the page has the origin of this machine then.
func IsFixedHost(name string) bool {
	if name == "localhost" {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

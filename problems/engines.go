package problems

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"colonnade/fleet"
	"colonnade/reasons"
)

// SharedEngines returns the endpoints of one colo whose URLs lead to the engine of another one: the same port and path at an address that the
// hosts have in common. addresses returns those of a host that is a name; nil = only localhost has some. It is a warning, since a proxy may
// tell names apart.
func SharedEngines(endpoints []*fleet.Endpoint, addresses func(host string) []netip.Addr) []Problem {
	l := &List{}
	first := map[string]*fleet.Endpoint{}
	for _, e := range endpoints {
		var other *fleet.Endpoint
		for _, place := range places(e.URL, addresses) {
			if known := first[place]; known == nil {
				first[place] = e
			} else if other == nil && known != e {
				other = known
			}
		}
		if other != nil {
			key := fleet.KindEndpoint.Key(e.Colo, e.ID)
			l.Warnf(reasons.EngineShared, key, "%s: url: %q: leads to the same engine as %s (%s), so its slots count twice",
				key, e.URL, fleet.KindEndpoint.Key(other.Colo, other.ID), other.URL)
		}
	}
	return l.All()
}

// places returns the addresses with port and path to which a URL leads.
func places(engine string, addresses func(host string) []netip.Addr) (all []string) {
	u, err := url.Parse(engine)
	if err != nil {
		return nil
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	for _, address := range addressesOf(u.Hostname(), addresses) {
		all = append(all, net.JoinHostPort(address.Unmap().String(), port)+strings.TrimSuffix(u.Path, "/"))
	}
	return all
}

// addressesOf returns the addresses of a host.
func addressesOf(host string, addresses func(host string) []netip.Addr) []netip.Addr {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}
	}
	if IsLocalhost(host) {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	}
	if addresses == nil {
		return nil
	}
	return addresses(host)
}

// IsLocalhost reports whether a host is the name of the loopback addresses.
func IsLocalhost(host string) bool {
	return strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

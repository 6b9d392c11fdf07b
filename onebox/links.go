package onebox

import (
	"slices"
	"sync"

	"colonnade/forwarding/peer"
	"colonnade/internal/faultproxy"
)

// Proxy returns the proxy that carries the connections from a place, a colo or [EntryPlace], to a colo server elsewhere, by its name. It
// is nil in a fleet without a Latency, and for a server that is not in Colos. A server that starts again has a new proxy, without faults.
func (f *Fleet) Proxy(from, server string) *faultproxy.Proxy {
	n := slices.IndexFunc(f.Colos, func(c ColoNode) bool { return c.Node == server })
	if n < 0 || f.links.config.Latency == nil {
		return nil
	}
	return f.links.proxy(from, f.Colos[n].Colo, f.Colos[n].Address)
}

// links are the proxies between the places of a fleet.
type links struct {
	config *Config
	warn   func(msg string, args ...any)

	mu      sync.Mutex // guards the fields below
	closed  bool
	proxies map[link]*faultproxy.Proxy
}

// link leads from a place to a server, which has another address after each start.
type link struct {
	from    string
	address string
}

// via returns [node.Config.Via] of a node at a place.
func (l *links) via(from string) func(peer.Server) string {
	return func(to peer.Server) string {
		if p := l.proxy(from, to.Colo, to.Address); p != nil {
			return p.Address
		}
		return to.Address
	}
}

// proxy returns the proxy of connections from a place to a server of a colo, or nil if there is none.
func (l *links) proxy(from, colo, address string) *faultproxy.Proxy {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.proxies[link{from, address}]
	if p != nil || from == colo || l.closed {
		return p
	}
	p, err := faultproxy.Listen("127.0.0.1:0", address)
	if err != nil {
		l.warn("connecting without a delay", "from", from, "to", colo, "error", err)
		return nil
	}
	p.Delay(l.config.Latency.Between(from, colo, l.config.Colos) / 2)
	l.proxies[link{from, address}] = p
	return p
}

// close ends all proxies. Nodes that still run then connect directly.
func (l *links) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, p := range l.proxies {
		p.Close()
	}
	return nil
}

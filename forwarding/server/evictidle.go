package server

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// minIdle is how long a connection must have been without a request before it is closed for another one, unless its address has more
	// connections than that of the other one.
	minIdle = time.Second
	// sweepCost is the time between two searches for idle connections, for each connection, so that a flood of new ones costs little.
	sweepCost = time.Microsecond
	// sweepPart is the part of all connections that one search closes.
	sweepPart = 64
)

// closeIdle closes connections without a request, once no further one is allowed: of the address that has most connections, those
// first that never sent anything, and then those that were idle for longest. So clients that open connections without end replace their
// own, as the queue evicts requests of the account that holds most. Clients expect that a server closes idle connections.
func (l *listener) closeIdle(newcomer *net.TCPConn) {
	now := l.nanosNow()
	last := l.swept.Load()
	if last != 0 && now-last < int64(sweepCost)*int64(l.limiter.maxTotal) || !l.swept.CompareAndSwap(last, now) {
		return
	}
	idle := l.idleForSwap(clientPrefix(newcomer.RemoteAddr()), now)
	for _, c := range idle[:min(len(idle), 1+l.limiter.maxTotal/sweepPart)] {
		l.unregister(c)
		_ = c.tcp.Close() // wakes its own goroutine, which reads
	}
}

// idleForSwap returns the connections without a request of the address with most connections that has such, in the order in which to
// close them for one of the newcomer.
func (l *listener) idleForSwap(newcomer netip.Addr, now int64) []*serverConn {
	byAddress := map[netip.Addr][]*serverConn{}
	own := l.limiter.count(newcomer) + 1
	for _, c := range l.conns() {
		quiet, from := c.withoutRequestSince(), clientPrefix(c.tcp.RemoteAddr())
		if quiet != 0 && (quiet <= now-int64(minIdle) || own < l.limiter.count(from)) {
			byAddress[from] = append(byAddress[from], c)
		}
	}
	var idle []*serverConn
	most := 0
	for from, conns := range byAddress {
		if n := l.limiter.count(from); n > most {
			idle, most = conns, n
		}
	}
	slices.SortFunc(idle, func(a, b *serverConn) int {
		if x, y := a.received.Load(), b.received.Load(); x != y {
			if y {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.withoutRequestSince(), b.withoutRequestSince())
	})
	return idle
}

package server

import (
	"cmp"
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
func (l *listener) closeIdle(newcomer netip.Addr) {
	now := l.nanosNow()
	last := l.swept.Load()
	if last != 0 && now-last < int64(sweepCost)*int64(l.limiter.maxTotal) || !l.swept.CompareAndSwap(last, now) {
		return
	}
	idle := l.idleForSwap(newcomer, now)
	l.closeStillIdle(idle[:min(len(idle), 1+l.limiter.maxTotal/sweepPart)])
}

// closeStillIdle closes those of idle connections on which no request has begun since they were found.
func (l *listener) closeStillIdle(idle []idleConn) {
	for _, c := range idle {
		if c.withoutRequestSince() == c.since {
			l.unregister(c.serverConn)
			_ = c.tcp.Close() // wakes its own goroutine, which reads
		}
	}
}

// idleConn is a connection that had no request when it was looked at.
type idleConn struct {
	*serverConn
	since int64 // as withoutRequestSince returned it
	used  bool  // it has sent something
}

// idleForSwap returns the connections without a request of the address with most connections that has such, in the order in which to
// close them for one of the newcomer.
func (l *listener) idleForSwap(newcomer netip.Addr, now int64) []idleConn {
	byAddress := map[netip.Addr][]idleConn{}
	own := l.limiter.count(newcomer) + 1
	for _, c := range l.conns() {
		since, from := c.withoutRequestSince(), clientPrefix(c.tcp.RemoteAddr())
		if since != 0 && (since <= now-int64(minIdle) || own < l.limiter.count(from)) {
			byAddress[from] = append(byAddress[from], idleConn{c, since, c.received.Load()})
		}
	}
	var idle []idleConn
	most := 0
	for from, conns := range byAddress {
		if n := l.limiter.count(from); n > most {
			idle, most = conns, n
		}
	}
	slices.SortFunc(idle, func(a, b idleConn) int {
		switch {
		case a.used == b.used:
			return cmp.Compare(a.since, b.since)
		case a.used:
			return 1
		}
		return -1
	})
	return idle
}

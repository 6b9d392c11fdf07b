package server

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"colonnade/openai"
)

const (
	// maxRejecting bounds the refused connections that get a reason at the same time. It is less where few connections are allowed: one
	// for rejectingPart. Further ones are closed at once: a client that makes so many does not read it.
	maxRejecting  = 128
	rejectingPart = 16
	// rejectTimeout bounds the time in which a refused client must send its request and read the error.
	rejectTimeout = 2 * time.Second
	// rejectReadPause is the time between two reads of a refused client's input, so that a flood costs little.
	rejectReadPause = 5 * time.Millisecond
	// ipv6PrefixBits is the part of an IPv6 address that identifies a client, which has all addresses of its /64 network.
	ipv6PrefixBits = 64
)

// ConnStats are the numbers of connections of a server.
type ConnStats struct {
	Open                        int
	RefusedPerIP, RefusedGlobal uint64 // since the server began
}

// connLimiter bounds the connections of a server, per client address and in all. It counts sockets instead of wrapping them, since
// [clientWatcher] needs the socket. A connection that is not admitted is refused in one of two ways:
//
//	admit ─┬─ within the limits ─────────────────→ counted until remove
//	       └─ else ─┬─ plain, < mayReject ───────→ rejecting: reads the request, writes a 429 or 503, waits for the client's close
//	                └─ TLS, or too many already ─→ closed
//
// The goroutine of a rejecting connection ends within rejectTimeout, or with closeRejecting; listener.count waits for it.
type connLimiter struct {
	maxPerIP  int // 0 = no limit per address
	maxTotal  int
	mayReject int    // places of rejecting connections
	silent    bool   // refused connections are closed without a reason, which TLS would have to carry
	onRefused func() // called for each refused connection; may be nil
	logger    *slog.Logger
	warnings  rate.Sometimes

	mu        sync.Mutex         // guards the fields below
	perIP     map[netip.Addr]int // connections by clientPrefix; none is 0
	total     int                // sum of perIP
	rejecting map[*net.TCPConn]struct{}
	refused   ConnStats // without Open
}

func newConnLimiter(c *Config, withTLS bool) *connLimiter {
	total := cmp.Or(c.MaxConns, MaxConns)
	return &connLimiter{
		maxPerIP: c.MaxPerIP, maxTotal: total, mayReject: min(max(total/rejectingPart, 1), maxRejecting),
		silent: withTLS, onRefused: c.OnRefusedConn, logger: c.Logger,
		warnings: rate.Sometimes{Interval: warnInterval}, perIP: map[netip.Addr]int{}, rejecting: map[*net.TCPConn]struct{}{},
	}
}

// clientPrefix returns the part of an address by which a client's connections are counted.
func clientPrefix(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	if address.Is6() {
		return netip.PrefixFrom(address, ipv6PrefixBits).Masked().Addr()
	}
	return address
}

// admit counts a connection, or refuses it.
func (l *connLimiter) admit(c *net.TCPConn) bool {
	from := clientPrefix(c.RemoteAddr())
	refusal := l.add(from)
	if refusal == nil {
		return true
	}
	if l.onRefused != nil {
		l.onRefused()
	}
	l.warnings.Do(func() {
		stats := l.stats()
		l.logger.Warn("connection refused; the next ones are not logged for a minute", "address", from.String(), "error", refusal.Message,
			"open", stats.Open, "refused_per_ip", stats.RefusedPerIP, "refused_global", stats.RefusedGlobal)
	})
	if l.silent || !l.startReject(c) {
		_ = c.Close()
		return false
	}
	go l.rejectWithReason(c, refusal)
	return false
}

// add counts a connection, or returns why it is refused.
func (l *connLimiter) add(from netip.Addr) *openai.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.total >= l.maxTotal:
		l.refused.RefusedGlobal++
		return openai.TooManyClients()
	case l.ownLimitLocked(from):
		l.refused.RefusedPerIP++
		return openai.TooManyConnections(l.maxPerIP)
	}
	l.perIP[from]++
	l.total++
	return nil
}

// ownLimitLocked reports whether an address has as many connections as it may.
func (l *connLimiter) ownLimitLocked(from netip.Addr) bool {
	return l.maxPerIP > 0 && l.perIP[from] >= l.maxPerIP
}

// lacksRoom reports whether a connection of an address is refused only because there are too many in all.
func (l *connLimiter) lacksRoom(from netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total >= l.maxTotal && !l.ownLimitLocked(from)
}

// count returns the number of connections of an address.
func (l *connLimiter) count(from netip.Addr) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.perIP[from]
}

// remove ends the count of an admitted connection.
func (l *connLimiter) remove(c net.Conn) {
	from := clientPrefix(c.RemoteAddr())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.perIP[from]--; l.perIP[from] == 0 {
		delete(l.perIP, from)
	}
}

// startReject reserves one of the places of rejecting connections.
func (l *connLimiter) startReject(c *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rejecting) >= l.mayReject {
		return false
	}
	l.rejecting[c] = struct{}{}
	return true
}

// rejectWithReason answers a client's first request with an error. It reads the request first, since a client takes a response
// before its request for the end of an idle connection; and it closes after the client has, since a close with unread input is a
// reset, which discards the response.
func (l *connLimiter) rejectWithReason(c *net.TCPConn, e *openai.Error) {
	defer func() {
		_ = c.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.rejecting, c)
	}()
	_ = setRefuseNew(c, false) // inherited from a listener that is closing
	_ = c.SetDeadline(time.Now().Add(rejectTimeout))
	var discarded [4 << 10]byte
	if _, err := c.Read(discarded[:]); err != nil {
		return
	}
	if writeFinalError(c, e) != nil || c.CloseWrite() != nil {
		return
	}
	for {
		if _, err := c.Read(discarded[:]); err != nil {
			return
		}
		time.Sleep(rejectReadPause)
	}
}

// writeFinalError writes an error to a connection that fasthttp does not serve, as its last response.
func writeFinalError(c net.Conn, e *openai.Error) error {
	var response fasthttp.Response
	response.Header.SetNoDefaultContentType(true)
	response.SetConnectionClose()
	renderError(&response, openai.DialectOpenAI, e, "")
	_, err := response.WriteTo(c)
	return err
}

// countRejecting returns the number of refused connections that are not closed yet.
func (l *connLimiter) countRejecting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.rejecting)
}

// closeRejecting closes the refused connections that are not closed yet.
func (l *connLimiter) closeRejecting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.rejecting {
		_ = c.Close()
	}
}

func (l *connLimiter) stats() ConnStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	stats := l.refused
	stats.Open = l.total
	return stats
}

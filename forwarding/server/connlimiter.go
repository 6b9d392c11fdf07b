package server

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/openai"
)

const (
	// maxRejecting bounds the refused connections that are told why at the same time. Further ones are just closed:
	// who makes so many does not read it.
	maxRejecting = 128
	// rejectTimeout is how long each of them has to ask and to read the answer.
	rejectTimeout = 2 * time.Second
	// rejectReadPause is between two reads of what nobody wants, so that a flood is taken slowly.
	rejectReadPause = 5 * time.Millisecond
	// ipv6PrefixBits is how much of an IPv6 address counts as one: whoever has one such network has all of its addresses.
	ipv6PrefixBits = 64
)

// ConnStats are those of a server.
type ConnStats struct {
	Open                        int
	RefusedPerIP, RefusedGlobal uint64 // since the server began
}

// connLimiter bounds the connections of a server, of each address and in all. It counts them without a wrapper around them,
// so that the socket is still there for the [Watcher].
type connLimiter struct {
	maxPerIP  int // 0 = no bound for one address
	maxTotal  int
	silent    bool   // a refused connection is not told why: it would have to be in TLS
	onRefused func() // called for each; may be nil
	logger    *slog.Logger
	warned    time.Time // the last time, by enter

	mu        sync.Mutex                // guards the fields below
	perIP     map[netip.Addr]int        // by who stands behind the address; none is 0
	total     int                       // of open
	rejecting map[*net.TCPConn]struct{} // those that are being told
	refused   ConnStats
}

func newConnLimiter(c *Config, overTLS bool) *connLimiter {
	return &connLimiter{
		maxPerIP: c.MaxPerIP, maxTotal: maxConcurrent, silent: overTLS, onRefused: c.OnRefusedConn, logger: c.Logger,
		perIP: map[netip.Addr]int{}, rejecting: map[*net.TCPConn]struct{}{},
	}
}

// clientPrefix returns who stands behind an address, as far as anybody can tell.
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

// admit counts a connection, or refuses and closes it. Only one may come at a time.
func (w *connLimiter) admit(c *net.TCPConn) bool {
	from := clientPrefix(c.RemoteAddr())
	why := w.add(from)
	if why == nil {
		return true
	}
	if w.onRefused != nil {
		w.onRefused()
	}
	w.warn(why, from)
	if w.silent || !w.startReject(c) {
		_ = c.Close()
		return false
	}
	go w.rejectWithReason(c, why)
	return false
}

// add counts a connection, or says why it may not come in.
func (w *connLimiter) add(from netip.Addr) *openai.Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.total >= w.maxTotal:
		w.refused.RefusedGlobal++
		return openai.TooManyClients()
	case w.maxPerIP > 0 && w.perIP[from] >= w.maxPerIP:
		w.refused.RefusedPerIP++
		return openai.TooManyConnections(w.maxPerIP)
	}
	w.perIP[from]++
	w.total++
	return nil
}

// warn logs a refusal, now and then.
func (w *connLimiter) warn(why *openai.Error, from netip.Addr) {
	if now := time.Now(); w.warned.IsZero() || now.Sub(w.warned) >= warnInterval {
		w.warned = now
		state := w.stats()
		w.logger.Warn("a connection is refused; the next are not told of for a minute",
			"address", from.String(), "reason", why.Message,
			"open", state.Open, "refused_for_their_address", state.RefusedPerIP, "refused_for_all", state.RefusedGlobal)
	}
}

// startReject keeps a refused connection until it has been told why, if there is room.
func (w *connLimiter) startReject(c *net.TCPConn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rejecting) >= maxRejecting {
		return false
	}
	w.rejecting[c] = struct{}{}
	return true
}

// remove takes a connection back that has entered.
func (w *connLimiter) remove(c net.Conn) {
	from := clientPrefix(c.RemoteAddr())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total--
	if w.perIP[from]--; w.perIP[from] == 0 {
		delete(w.perIP, from)
	}
}

// rejectWithReason tells a client that has asked for something why it gets nothing, and waits until it has had time to read
// that: a close with unread bytes would be a reset, and a reset takes the answer with it. An answer before the question
// would be taken for the end of an idle connection.
func (w *connLimiter) rejectWithReason(c *net.TCPConn, why *openai.Error) {
	defer func() {
		_ = c.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.rejecting, c)
	}()
	_ = setRefuseNew(c, false) // of a listener that is about to close, it has that nothing is to come to it
	_ = c.SetDeadline(time.Now().Add(rejectTimeout))
	var unwanted [4 << 10]byte
	if _, err := c.Read(unwanted[:]); err != nil {
		return
	}
	if writeFinalError(c, why) != nil || c.CloseWrite() != nil {
		return
	}
	for {
		if _, err := c.Read(unwanted[:]); err != nil {
			return
		}
		time.Sleep(rejectReadPause)
	}
}

// writeFinalError writes an error to a connection that no server has, and that ends with it.
func writeFinalError(c net.Conn, e *openai.Error) error {
	var answer fasthttp.Response
	answer.Header.SetNoDefaultContentType(true)
	answer.SetConnectionClose()
	renderError(&answer, e, "")
	_, err := answer.WriteTo(c)
	return err
}

// countRejecting says how many refused connections are not closed yet.
func (w *connLimiter) countRejecting() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.rejecting)
}

// closeRejecting closes those.
func (w *connLimiter) closeRejecting() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.rejecting {
		_ = c.Close()
	}
}

func (w *connLimiter) stats() ConnStats {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.refused
	now.Open = w.total
	return now
}

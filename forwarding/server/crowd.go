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
	// mostDismissed bounds the refused connections that are told why at the same time. Further ones are just closed:
	// who makes so many does not read it.
	mostDismissed = 128
	// dismissTime is how long each of them has to ask and to read the answer.
	dismissTime = 2 * time.Second
	// dismissPause is between two reads of what nobody wants, so that a flood is taken slowly.
	dismissPause = 5 * time.Millisecond
	// networkBits is how much of an IPv6 address counts as one: whoever has one such network has all of its addresses.
	networkBits = 64
)

// Connections are those of a server.
type Connections struct {
	Open                         int
	RefusedAddress, RefusedTotal uint64 // since the server began
}

// crowd bounds the connections of a server, of each address and in all. It counts them without a wrapper around them,
// so that the socket is still there for the [Watcher].
type crowd struct {
	perAddress int // 0 = no bound for one address
	total      int
	mute       bool   // a refused connection is not told why: it would have to be in TLS
	refused    func() // called for each; may be nil
	logger     *slog.Logger
	complained time.Time // the last time, by enter

	mu        sync.Mutex                // guards the fields below
	open      map[netip.Addr]int        // by who stands behind the address; none is 0
	sum       int                       // of open
	dismissed map[*net.TCPConn]struct{} // those that are being told
	counts    Connections
}

func newCrowd(c *ServerConfig, overTLS bool) *crowd {
	return &crowd{
		perAddress: c.PerAddress, total: maxConcurrent, mute: overTLS, refused: c.Crowded, logger: c.Logger,
		open: map[netip.Addr]int{}, dismissed: map[*net.TCPConn]struct{}{},
	}
}

// behind returns who stands behind an address, as far as anybody can tell.
func behind(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	address := tcp.AddrPort().Addr().Unmap().WithZone("")
	if address.Is6() {
		return netip.PrefixFrom(address, networkBits).Masked().Addr()
	}
	return address
}

// enter counts a connection, or refuses and closes it. Only one may come at a time.
func (w *crowd) enter(c *net.TCPConn) bool {
	from := behind(c.RemoteAddr())
	why := w.admit(from)
	if why == nil {
		return true
	}
	if w.refused != nil {
		w.refused()
	}
	w.complain(why, from)
	if w.mute || !w.detain(c) {
		_ = c.Close()
		return false
	}
	go w.dismiss(c, why)
	return false
}

// admit counts a connection, or says why it may not come in.
func (w *crowd) admit(from netip.Addr) *openai.Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.sum >= w.total:
		w.counts.RefusedTotal++
		return openai.TooManyClients()
	case w.perAddress > 0 && w.open[from] >= w.perAddress:
		w.counts.RefusedAddress++
		return openai.TooManyConnections(w.perAddress)
	}
	w.open[from]++
	w.sum++
	return nil
}

// complain logs a refusal, now and then.
func (w *crowd) complain(why *openai.Error, from netip.Addr) {
	if now := time.Now(); w.complained.IsZero() || now.Sub(w.complained) >= complainEvery {
		w.complained = now
		state := w.state()
		w.logger.Warn("a connection is refused; the next are not told of for a minute",
			"address", from.String(), "reason", why.Message,
			"open", state.Open, "refused_for_their_address", state.RefusedAddress, "refused_for_all", state.RefusedTotal)
	}
}

// detain keeps a refused connection until it has been told why, if there is room.
func (w *crowd) detain(c *net.TCPConn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.dismissed) >= mostDismissed {
		return false
	}
	w.dismissed[c] = struct{}{}
	return true
}

// leave takes a connection back that has entered.
func (w *crowd) leave(c net.Conn) {
	from := behind(c.RemoteAddr())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum--
	if w.open[from]--; w.open[from] == 0 {
		delete(w.open, from)
	}
}

// dismiss tells a client that has asked for something why it gets nothing, and waits until it has had time to read
// that: a close with unread bytes would be a reset, and a reset takes the answer with it. An answer before the question
// would be taken for the end of an idle connection.
func (w *crowd) dismiss(c *net.TCPConn, why *openai.Error) {
	defer func() {
		_ = c.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.dismissed, c)
	}()
	_ = turnAway(c, false) // of a listener that is about to close, it has that nothing is to come to it
	_ = c.SetDeadline(time.Now().Add(dismissTime))
	var unwanted [4 << 10]byte
	if _, err := c.Read(unwanted[:]); err != nil {
		return
	}
	if lastAnswer(c, why) != nil || c.CloseWrite() != nil {
		return
	}
	for {
		if _, err := c.Read(unwanted[:]); err != nil {
			return
		}
		time.Sleep(dismissPause)
	}
}

// lastAnswer writes an error to a connection that no server has, and that ends with it.
func lastAnswer(c net.Conn, e *openai.Error) error {
	var answer fasthttp.Response
	answer.Header.SetNoDefaultContentType(true)
	answer.SetConnectionClose()
	renderError(&answer, e, "")
	_, err := answer.WriteTo(c)
	return err
}

// telling says how many refused connections are not closed yet.
func (w *crowd) telling() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dismissed)
}

// cut closes those.
func (w *crowd) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.dismissed {
		_ = c.Close()
	}
}

func (w *crowd) state() Connections {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.counts
	now.Open = w.sum
	return now
}

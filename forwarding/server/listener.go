package server

import (
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peertls"

	"github.com/valyala/fasthttp"
)

const (
	// acceptBackoffMin and longestWait are between two tries to let somebody in while something for it is used up. A try costs
	// next to nothing, and who stands in the backlog waits for it.
	acceptBackoffMin = 5 * time.Millisecond
	acceptBackoffMax = 100 * time.Millisecond
	// warnInterval is how often a shortage is told of: it may come and go with every connection that ends.
	warnInterval = time.Minute
	// synRetransmit is after how long a client sends again what was dropped before its connection was accepted: Linux waits
	// for a fifth of a second.
	synRetransmit = 300 * time.Millisecond
)

// listener is a listener, and the connections that came in by it and are not closed.
type listener struct {
	*net.TCPListener
	tls       *tls.Config         // nil = without
	peers     *peertls.TrustStore // who is let in, at a listener for nodes; nil = anybody
	limiter   *connLimiter
	logger    *slog.Logger
	warned    time.Time    // the last time, by Accept
	began     time.Time    // what moments are counted from: a step of the clock does not move them
	idleLimit atomic.Int64 // silence, in nanoseconds, after which a connection between two requests ends; 0 = it does not

	served chan struct{} // closed once nobody accepts connections any more

	mu       sync.Mutex // guards the fields below
	open     map[*serverConn]struct{}
	accepted time.Time // the last of them
}

func newListener(ln *net.TCPListener, s *Server) *listener {
	return &listener{
		TCPListener: ln, tls: s.tls, peers: s.peers, limiter: s.limiter, logger: s.logger, began: time.Now(),
		served: make(chan struct{}), open: map[*serverConn]struct{}{},
	}
}

// Accept lets the next client in who is not one too many.
func (d *listener) Accept() (net.Conn, error) {
	for {
		tcp, err := d.acceptTCP()
		if err != nil {
			return nil, err
		}
		if d.limiter.admit(tcp) {
			return d.register(tcp), nil
		}
	}
}

// acceptTCP returns the next connection. A shortage of what that takes passes, and must not end the server, as fasthttp
// would have it.
func (d *listener) acceptTCP() (*net.TCPConn, error) {
	tcp, err := d.AcceptTCP()
	for wait := acceptBackoffMin; netconn.IsShortage(err); wait = min(2*wait, acceptBackoffMax) {
		d.warn(err)
		time.Sleep(wait)
		tcp, err = d.AcceptTCP()
	}
	return tcp, err
}

func (d *listener) warn(err error) {
	if now := time.Now(); d.warned.IsZero() || now.Sub(d.warned) >= warnInterval {
		d.warned = now
		d.logger.Error("clients must wait to be let in; if files are short, raise the limit (ulimit -n, LimitNOFILE)",
			"error", err)
	}
}

// register bounds what the kernel stores for a client that stops reading, and takes note of it.
func (d *listener) register(tcp *net.TCPConn) *serverConn {
	_ = tcp.SetWriteBuffer(netconn.SocketBuffer)
	client := d.newConn(tcp)
	onConnState(client, fasthttp.StateIdle)
	if quiet := d.idleLimit.Load(); quiet > 0 {
		_ = setRefuseNew(tcp, false) // it has it from the listener, and what has come until now may have been dropped
		client.idleSince.Add(max(0, int64(synRetransmit)-quiet))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[client] = struct{}{}
	d.accepted = time.Now()
	return client
}

// nanosNow is the present moment in nanoseconds since the door's beginning, and never 0.
func (d *listener) nanosNow() int64 { return d.nanosOf(time.Now()) }

func (d *listener) nanosOf(t time.Time) int64 {
	if n := int64(t.Sub(d.began)); n != 0 {
		return n
	}
	return 1
}

// timeOf is the moment that [door.since] has made n of.
func (d *listener) timeOf(n int64) time.Time { return d.began.Add(time.Duration(n)) }

// closeGracefully closes the listener. A close alone would reset who stands in its backlog, or has half of a handshake behind it;
// so the kernel first turns newcomers away, and those who are on their way are still let in, for as long as one follows
// another within quiet.
func (d *listener) closeGracefully(quiet time.Duration) {
	if !d.idleLimit.CompareAndSwap(0, int64(max(quiet, 1))) {
		return
	}
	_ = setRefuseNew(d.TCPListener, true) // where that is not to be had, it is a matter of luck
	d.resetAccepted()
	for _, c := range d.conns() {
		c.wake()
	}
	for until := time.Now().Add(2 * quiet); time.Now().Before(until); {
		left := quiet - d.sinceAccept()
		if left <= 0 {
			break
		}
		time.Sleep(min(left, time.Until(until)))
	}
	_ = d.Close()
}

// resetAccepted waits for those who are on their way as if somebody had come just now: one may have begun just now.
func (d *listener) resetAccepted() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.accepted = time.Now()
}

func (d *listener) sinceAccept() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.accepted)
}

func (d *listener) conns() []*serverConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*serverConn, 0, len(d.open))
	for c := range d.open {
		all = append(all, c)
	}
	return all
}

func (d *listener) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open) + d.limiter.countRejecting()
}

// closeAll closes whatever is open, whoever uses it.
func (d *listener) closeAll() {
	for _, c := range d.conns() {
		_ = c.tcp.Close()
	}
	d.limiter.closeRejecting()
}

func (d *listener) unregister(c *serverConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, in := d.open[c]; in {
		delete(d.open, c)
		d.limiter.remove(c.tcp)
	}
}

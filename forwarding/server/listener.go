package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/time/rate"

	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peertls"
)

const (
	// acceptBackoffMin and acceptBackoffMax bound the time between two attempts to accept a connection while resources are short.
	// An attempt costs little, and connections in the backlog wait for it.
	acceptBackoffMin = 5 * time.Millisecond
	acceptBackoffMax = 100 * time.Millisecond
	// warnInterval is the shortest time between two log lines about a shortage or a limit, which may come and go with each connection.
	warnInterval = time.Minute
	// synRetransmit is how long a client waits before it sends again what was dropped before its connection was accepted: 200 ms on
	// Linux, with some reserve.
	synRetransmit = 300 * time.Millisecond
)

// Listen returns a listener on address for [Server.Serve].
func Listen(address string) (net.Listener, error) {
	config := net.ListenConfig{}
	config.SetMultipathTCP(false) // setRefuseNew has no effect with it, and the connections would fall back to TCP
	return config.Listen(context.Background(), "tcp", address)
}

// listener accepts connections, and knows all that are open.
//
// Its end has three phases, since closing a listening socket resets the connections in its backlog and those in the middle of a
// TCP handshake:
//
//	accepting  idleLimit is 0, and every connection within the limits is accepted
//	closing    idleLimit is set: the kernel drops the first packets of new connections, connections that began before are
//	           accepted for as long as they follow each other within quiet, and idle ones close (keepAlive)
//	closed     the socket is closed; connections with a request remain open until its response has been written
type listener struct {
	*net.TCPListener
	tls      *tls.Config         // nil = without TLS
	peers    *peertls.TrustStore // of a listener for nodes; else nil
	limiter  *connLimiter
	watcher  *clientWatcher
	logger   *slog.Logger
	warnings rate.Sometimes
	began    time.Time // times are stored as nanoseconds after it, so that a step of the wall clock does not change them

	swept     atomic.Int64  // when closeIdle searched last
	idleLimit atomic.Int64  // nanoseconds of silence after which a connection without a request closes; 0 = it does not
	served    chan struct{} // closed when no goroutine accepts connections any more

	mu       sync.Mutex // guards the fields below
	open     map[*serverConn]struct{}
	accepted time.Time // when the last one was
}

func newListener(ln *net.TCPListener, s *Server) *listener {
	return &listener{
		TCPListener: ln, tls: s.tls, peers: s.peers, limiter: s.limiter, watcher: s.inflight.watcher, logger: s.logger, warnings: rate.Sometimes{Interval: warnInterval},
		began: time.Now(), served: make(chan struct{}), open: map[*serverConn]struct{}{},
	}
}

// Accept returns the next connection within the limits.
func (l *listener) Accept() (net.Conn, error) {
	for {
		tcp, err := l.acceptTCP()
		if err != nil {
			return nil, err
		}
		if from := clientPrefix(tcp.RemoteAddr()); l.limiter.lacksRoom(from) {
			l.closeIdle(from)
		}
		if l.limiter.admit(tcp) {
			return l.register(tcp), nil
		}
	}
}

// acceptTCP returns the next connection. While resources are short it tries again, since fasthttp would end the server after an error.
func (l *listener) acceptTCP() (*net.TCPConn, error) {
	tcp, err := l.AcceptTCP()
	for backoff := acceptBackoffMin; netconn.IsShortage(err); backoff = min(2*backoff, acceptBackoffMax) {
		l.warnings.Do(func() {
			l.logger.Error("cannot accept connections; if file descriptors are exhausted, raise their limit (ulimit -n, LimitNOFILE)",
				"error", err)
		})
		time.Sleep(backoff)
		tcp, err = l.AcceptTCP()
	}
	return tcp, err
}

// register returns the connection over an accepted socket. The socket's write buffer is bounded, for clients that stop reading.
func (l *listener) register(tcp *net.TCPConn) *serverConn {
	_ = tcp.SetWriteBuffer(netconn.SocketBuffer)
	client := l.newConn(tcp)
	onConnState(client, fasthttp.StateIdle)
	if quiet := l.idleLimit.Load(); quiet > 0 {
		_ = setRefuseNew(tcp, false) // inherited from the listener; what has arrived until now may have been dropped
		client.idleSince.Add(max(0, int64(synRetransmit)-quiet))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[client] = struct{}{}
	l.accepted = time.Now()
	return client
}

func (l *listener) newConn(tcp *net.TCPConn) *serverConn {
	c := &serverConn{tcp: netconn.NewSocket(tcp), keepAlive: keepAlive{listener: l}}
	c.lower = c.tcp
	if l.tls != nil {
		c.tlsConn = netconn.NewTLS(c.tcp, func(raw net.Conn) *tls.Conn { return tls.Server(raw, l.tls) }, c.noteBytes)
	}
	c.watched.socket = socket{watcher: l.watcher, tcp: tcp, tls: c.tlsConn}
	return c
}

// unregister removes a connection that is closing. It may be called several times.
func (l *listener) unregister(c *serverConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.open[c]; ok {
		delete(l.open, c)
		l.limiter.remove(c.tcp.TCP())
	}
}

// nanosNow returns the time in nanoseconds after l.began. It is never 0. Unlike [time.Now], it does not read the wall clock.
func (l *listener) nanosNow() int64 { return max(int64(time.Since(l.began)), 1) }

// nanosOf is nanosNow for another time, which may be before l.began.
func (l *listener) nanosOf(t time.Time) int64 {
	if n := int64(t.Sub(l.began)); n != 0 {
		return n
	}
	return 1
}

// timeOf is the inverse of nanosOf.
func (l *listener) timeOf(n int64) time.Time { return l.began.Add(time.Duration(n)) }

// closeGracefully closes the listener as described at its type. Only the first call has an effect.
func (l *listener) closeGracefully(quiet time.Duration) {
	if !l.idleLimit.CompareAndSwap(0, int64(max(quiet, 1))) {
		return
	}
	_ = setRefuseNew(l.TCPListener, true) // where it has no effect, a connection may be reset
	l.restartQuiet()
	for _, c := range l.conns() {
		c.wake()
	}
	for until := time.Now().Add(2 * quiet); time.Now().Before(until); {
		left := quiet - l.sinceAccept()
		if left <= 0 {
			break
		}
		time.Sleep(min(left, time.Until(until)))
	}
	_ = l.Close()
}

// restartQuiet counts as an accepted connection: a TCP handshake may have begun just now.
func (l *listener) restartQuiet() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted = time.Now()
}

func (l *listener) sinceAccept() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.accepted)
}

func (l *listener) conns() []*serverConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*serverConn, 0, len(l.open))
	for c := range l.open {
		all = append(all, c)
	}
	return all
}

// count returns the number of open connections, with the refused ones that get a reason.
func (l *listener) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open) + l.limiter.countRejecting()
}

// closeAll closes all connections, in use or not.
func (l *listener) closeAll() {
	for _, c := range l.conns() {
		_ = c.tcp.Close()
	}
	l.limiter.closeRejecting()
}

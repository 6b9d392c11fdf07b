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
	// firstWait and longestWait are between two tries to let somebody in while something for it is used up. A try costs
	// next to nothing, and who stands in the backlog waits for it.
	firstWait   = 5 * time.Millisecond
	longestWait = 100 * time.Millisecond
	// complainEvery is how often a shortage is told of: it may come and go with every connection that ends.
	complainEvery = time.Minute
	// secondTry is after how long a client sends again what was dropped before its connection was accepted: Linux waits
	// for a fifth of a second.
	secondTry = 300 * time.Millisecond
)

// door is a listener, and the connections that came in by it and are not closed.
type door struct {
	*net.TCPListener
	tls        *tls.Config         // nil = without
	peers      *peertls.TrustStore // who is let in, at a listener for nodes; nil = anybody
	crowd      *crowd
	logger     *slog.Logger
	complained time.Time    // the last time, by Accept
	began      time.Time    // what moments are counted from: a step of the clock does not move them
	leave      atomic.Int64 // silence, in nanoseconds, after which a connection between two requests ends; 0 = it does not

	unattended chan struct{} // closed once nobody accepts connections any more

	mu       sync.Mutex // guards the fields below
	open     map[*clientConn]struct{}
	accepted time.Time // the last of them
}

func newDoor(ln *net.TCPListener, s *Server) *door {
	return &door{
		TCPListener: ln, tls: s.tls, peers: s.peers, crowd: s.crowd, logger: s.logger, began: time.Now(),
		unattended: make(chan struct{}), open: map[*clientConn]struct{}{},
	}
}

// Accept lets the next client in who is not one too many.
func (d *door) Accept() (net.Conn, error) {
	for {
		tcp, err := d.await()
		if err != nil {
			return nil, err
		}
		if d.crowd.enter(tcp) {
			return d.letIn(tcp), nil
		}
	}
}

// await returns the next connection. A shortage of what that takes passes, and must not end the server, as fasthttp
// would have it.
func (d *door) await() (*net.TCPConn, error) {
	tcp, err := d.AcceptTCP()
	for wait := firstWait; netconn.IsShortage(err); wait = min(2*wait, longestWait) {
		d.complain(err)
		time.Sleep(wait)
		tcp, err = d.AcceptTCP()
	}
	return tcp, err
}

func (d *door) complain(err error) {
	if now := time.Now(); d.complained.IsZero() || now.Sub(d.complained) >= complainEvery {
		d.complained = now
		d.logger.Error("clients must wait to be let in; if files are short, raise the limit (ulimit -n, LimitNOFILE)",
			"error", err)
	}
}

// letIn bounds what the kernel stores for a client that stops reading, and takes note of it.
func (d *door) letIn(tcp *net.TCPConn) *clientConn {
	_ = tcp.SetWriteBuffer(netconn.SocketBuffer)
	client := d.newClient(tcp)
	turn(client, fasthttp.StateIdle)
	if quiet := d.leave.Load(); quiet > 0 {
		_ = turnAway(tcp, false) // it has it from the listener, and what has come until now may have been dropped
		client.waits.Add(max(0, int64(secondTry)-quiet))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[client] = struct{}{}
	d.accepted = time.Now()
	return client
}

// now is the present moment in nanoseconds since the door's beginning, and never 0.
func (d *door) now() int64 { return d.since(time.Now()) }

func (d *door) since(t time.Time) int64 {
	if n := int64(t.Sub(d.began)); n != 0 {
		return n
	}
	return 1
}

// at is the moment that [door.since] has made n of.
func (d *door) at(n int64) time.Time { return d.began.Add(time.Duration(n)) }

// shut closes the listener. A close alone would reset who stands in its backlog, or has half of a handshake behind it;
// so the kernel first turns newcomers away, and those who are on their way are still let in, for as long as one follows
// another within quiet.
func (d *door) shut(quiet time.Duration) {
	if !d.leave.CompareAndSwap(0, int64(max(quiet, 1))) {
		return
	}
	_ = turnAway(d.TCPListener, true) // where that is not to be had, it is a matter of luck
	d.expect()
	for _, c := range d.clients() {
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

// expect waits for those who are on their way as if somebody had come just now: one may have begun just now.
func (d *door) expect() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.accepted = time.Now()
}

func (d *door) sinceAccept() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.accepted)
}

func (d *door) clients() []*clientConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*clientConn, 0, len(d.open))
	for c := range d.open {
		all = append(all, c)
	}
	return all
}

func (d *door) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open) + d.crowd.telling()
}

// cut closes whatever is open, whoever uses it.
func (d *door) cut() {
	for _, c := range d.clients() {
		_ = c.tcp.Close()
	}
	d.crowd.cut()
}

func (d *door) closed(c *clientConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, in := d.open[c]; in {
		delete(d.open, c)
		d.crowd.leave(c.tcp)
	}
}

package forwarding

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// door is a listener, and the connections that came in by it and are not closed.
type door struct {
	net.Listener
	leave atomic.Int64 // silence, in nanoseconds, after which a connection between two requests ends; 0 = it does not

	unattended chan struct{} // closed once nobody accepts connections any more

	mu       sync.Mutex // guards the fields below
	open     map[*clientConn]struct{}
	accepted time.Time // the last of them
}

func newDoor(ln net.Listener) *door {
	return &door{Listener: ln, unattended: make(chan struct{}), open: map[*clientConn]struct{}{}}
}

// Accept lets the next client in.
func (d *door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	client, ok := c.(*clientConn)
	if !ok {
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			return c, nil
		}
		client = &clientConn{TCPConn: tcp}
	}
	if d.leave.Load() > 0 {
		_ = turnAway(client.TCPConn, false) // it has it from the listener
	}
	client.door = d
	turn(client, fasthttp.StateIdle)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[client] = struct{}{}
	d.accepted = time.Now()
	return client, nil
}

// shut closes the listener. A close alone would reset who stands in its backlog, or has half of a handshake behind it; so
// the kernel first turns newcomers away, and those who are on their way are still let in.
func (d *door) shut(quiet time.Duration) {
	if !d.leave.CompareAndSwap(0, int64(max(quiet, 1))) {
		return
	}
	if tcp, ok := d.Listener.(interface{ socket() *net.TCPListener }); ok {
		_ = turnAway(tcp.socket(), true) // where that is not to be had, it is a matter of luck
	}
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
	_ = d.Listener.Close()
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
	return len(d.open)
}

// cut closes whatever is open, whoever uses it.
func (d *door) cut() {
	for _, c := range d.clients() {
		_ = c.TCPConn.Close()
	}
}

func (d *door) closed(c *clientConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, c)
}

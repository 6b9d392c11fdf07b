package etcdtest

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy passes connections on to a server. It can swallow what they send, delay it, and cut them.
type Proxy struct {
	Address string // host:port where clients connect

	listener net.Listener
	target   string
	wait     sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	swallowing bool
	delay      time.Duration
	closed     bool
	conns      map[net.Conn]bool
}

// NewProxy starts a proxy on loopback that ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	return NewProxyAt(t, "127.0.0.1:0", target)
}

// NewProxyAt starts a proxy on an address of this machine that ends with the test.
func NewProxyAt(t testing.TB, address, target string) *Proxy {
	t.Helper()
	p, err := listenProxy(address, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func listenProxy(address, target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{Address: listener.Addr().String(), listener: listener, target: target, conns: map[net.Conn]bool{}}
	p.wait.Go(p.accept)
	return p, nil
}

// Swallow loses all bytes in both directions from now on. No connection ends, and new ones are accepted.
func (p *Proxy) Swallow() { p.setSwallowing(true) }

// Heal lets new connections pass again, and ends the others.
func (p *Proxy) Heal() {
	p.HealQuietly()
	p.cut()
}

// HealQuietly lets new connections pass again. Those that lost bytes do not end: clients must notice that they are dead.
func (p *Proxy) HealQuietly() { p.setSwallowing(false) }

// Delay has all bytes of connections from now on arrive later, in both directions. It does not limit how many are on their way.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.add(client, server) {
			_, _ = client.Close(), server.Close()
			return
		}
		lost := new(atomic.Bool)
		p.wait.Go(func() { p.pass(client, p.delayed(server), lost) })
		p.wait.Go(func() { p.pass(server, p.delayed(client), lost) })
	}
}

// add reports false if the proxy was closed meanwhile.
func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		p.conns[c] = true
	}
	return !p.closed
}

// pass copies until either end closes. A connection that has lost bytes passes none any more.
func (p *Proxy) pass(from net.Conn, to io.WriteCloser, lost *atomic.Bool) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.remove(from)
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if p.swallows() {
			lost.Store(true)
		}
		if n > 0 && !lost.Load() {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *Proxy) swallows() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.swallowing
}

func (p *Proxy) setSwallowing(swallowing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallowing = swallowing
}

func (p *Proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// close ends the proxy and all connections.
func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cut()
	p.wait.Wait()
}

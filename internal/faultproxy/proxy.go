package faultproxy

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"colonnade/internal/ctxtime"
)

// again is how long the proxy waits after an accept or a listen that failed.
const again = 10 * time.Millisecond

// Proxy carries connections to a server. Its methods may be called by several goroutines at once, also after Close.
type Proxy struct {
	Address string // host:port where clients connect

	target string
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu       sync.Mutex   // guards the fields below; taken before the mutex of a connection
	listener net.Listener // nil while connections are refused
	closed   bool
	delay    time.Duration
	faults   []Fault   // of every connection
	next     [][]Fault // of the next connections
	conns    map[*conn]bool
}

// Listen starts a proxy that listens at address and connects to target; both are host:port. The caller must call Close.
func Listen(address, target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{Address: listener.Addr().String(), target: target, listener: listener, conns: map[*conn]bool{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wait.Go(func() { p.accept(listener) })
	return p, nil
}

// Close ends the proxy and its connections. It returns once all goroutines have ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.closeListenerLocked()
	for c := range p.conns {
		c.end(false)
	}
	p.mu.Unlock()
	p.cancel()
	p.wait.Wait()
}

// Delay has all bytes arrive so much later, in both directions, from now on: those that are on their way, too. [Proxy.Heal] leaves it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
	for c := range p.conns {
		c.inject(Fault{Kind: Slow, Delay: d})
	}
}

// Inject has a fault on every connection, those that are open and those that will be, until Heal.
func (p *Proxy) Inject(f Fault) {
	f.check()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	for c := range p.conns {
		c.inject(f)
	}
}

// InjectNext has faults on the next connection only. After a second call, the connection after that one has those of the second call.
func (p *Proxy) InjectNext(faults ...Fault) {
	for _, f := range faults {
		f.check()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = append(p.next, faults)
}

// InjectOpen has a fault on the connections that are open now.
func (p *Proxy) InjectOpen(f Fault) {
	f.check()
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.inject(f)
	}
}

// Swallow loses all bytes in both directions from now on. No connection ends, and new ones are accepted.
func (p *Proxy) Swallow() { p.Inject(Fault{Kind: Swallow}) }

// Refuse has new connections refused until Heal, as by a host without a server.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeListenerLocked()
}

// Heal ends all faults but the delay, and closes the connections that have lost bytes.
func (p *Proxy) Heal() { p.heal(false) }

// HealQuietly is Heal, but connections that have lost bytes stay open and mute: their ends must notice by themselves that they are dead.
func (p *Proxy) HealQuietly() { p.heal(true) }

func (p *Proxy) heal(quietly bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults, p.next = nil, nil
	for c := range p.conns {
		c.heal(p.delay, quietly)
	}
	if p.listener == nil && !p.listenLocked() {
		p.wait.Go(p.listenAgain)
	}
}

// listenLocked listens at the address again. It reports false if another program has taken the port.
func (p *Proxy) listenLocked() bool {
	if p.closed || p.listener != nil {
		return true
	}
	listener, err := net.Listen("tcp", p.Address)
	if err != nil {
		return false
	}
	p.listener = listener
	p.wait.Go(func() { p.accept(listener) })
	return true
}

func (p *Proxy) listenAgain() {
	for {
		ctxtime.Sleep(p.ctx, again)
		p.mu.Lock()
		done := p.listenLocked()
		p.mu.Unlock()
		if done {
			return
		}
	}
}

func (p *Proxy) closeListenerLocked() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		switch {
		case err == nil:
			p.add(client.(*net.TCPConn))
		case errors.Is(err, net.ErrClosed):
			return
		default: // no file descriptors are left
			ctxtime.Sleep(p.ctx, again)
		}
	}
}

// add begins to serve a connection with the faults that it has.
func (p *Proxy) add(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = client.Close()
		return
	}
	faults := slices.Clone(p.faults)
	if len(p.next) > 0 {
		faults = append(faults, p.next[0]...)
		p.next = p.next[1:]
	}
	c := newConn(client, p.delay, faults)
	p.conns[c] = true
	p.wait.Go(func() {
		c.serve(p.ctx, p.target)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	})
}

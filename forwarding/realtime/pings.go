package realtime

import (
	"sync"
	"time"

	"colonnade/forwarding/server"

	"github.com/gorilla/websocket"
)

// pings ask a peer again and again whether it is there. That nothing comes back shows where it is read. Between two of
// them there is a timer, and no goroutine.
type pings struct {
	peer  *peer
	every time.Duration
	armed sync.WaitGroup // until the last one has been sent

	mu       sync.Mutex // guards the fields below
	timer    *time.Timer
	over     bool
	panicked any // what the last one panicked with
}

// startPings pings until end is called.
func startPings(to *peer, every time.Duration) *pings {
	p := &pings{peer: to, every: every}
	p.armed.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(every, p.send)
	return p
}

func (p *pings) send() {
	p.peer.wire.overhead.Store(0)
	panicked := p.ping()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.panicked = panicked; p.over || panicked != nil {
		p.over = true
		p.armed.Done()
		return
	}
	p.timer.Reset(p.every)
}

// ping sends one. Nobody else would catch a panic, and the process would end.
func (p *pings) ping() (panicked any) {
	defer func() {
		if with := recover(); with != nil {
			panicked = server.NewPanicError(with)
		}
	}()
	_ = p.peer.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(p.peer.wire.stall))
	return nil
}

// end returns when nothing more is sent; panicked stands then. The peer must be one that takes what is under way, or is
// cancelled.
func (p *pings) end() {
	p.mu.Lock()
	if p.over = true; p.timer.Stop() {
		p.armed.Done()
	}
	p.mu.Unlock()
	p.armed.Wait()
}

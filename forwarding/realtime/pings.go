package realtime

import (
	"sync"
	"time"

	"colonnade/forwarding/server"

	"github.com/gorilla/websocket"
)

// pinger ask a peer again and again whether it is there. That nothing comes back shows where it is read. Between two of
// them there is a timer, and no goroutine.
type pinger struct {
	peer     *wsEnd
	interval time.Duration
	armed    sync.WaitGroup // until the last one has been sent

	mu       sync.Mutex // guards the fields below
	timer    *time.Timer
	stopped  bool
	panicked any // what the last one panicked with
}

// startPinger pings until end is called.
func startPinger(to *wsEnd, every time.Duration) *pinger {
	p := &pinger{peer: to, interval: every}
	p.armed.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(every, p.send)
	return p
}

func (p *pinger) send() {
	p.peer.conn.overhead.Store(0)
	panicked := p.ping()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.panicked = panicked; p.stopped || panicked != nil {
		p.stopped = true
		p.armed.Done()
		return
	}
	p.timer.Reset(p.interval)
}

// ping sends one. Nobody else would catch a panic, and the process would end.
func (p *pinger) ping() (panicked any) {
	defer func() {
		if with := recover(); with != nil {
			panicked = server.NewPanicError(with)
		}
	}()
	_ = p.peer.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(p.peer.conn.stall))
	return nil
}

// stop returns when nothing more is sent; panicked stands then. The peer must be one that takes what is under way, or is
// cancelled.
func (p *pinger) stop() {
	p.mu.Lock()
	if p.stopped = true; p.timer.Stop() {
		p.armed.Done()
	}
	p.mu.Unlock()
	p.armed.Wait()
}

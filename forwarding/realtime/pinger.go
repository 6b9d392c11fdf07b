package realtime

import (
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"colonnade/forwarding/server"
)

// pinger sends pings to one end of a session. The reads of that end find out that pongs are missing. Between two pings there is a timer
// and no goroutine.
type pinger struct {
	end      *wsEnd
	interval time.Duration
	armed    sync.WaitGroup // counts 1 until the last ping has been sent

	mu       sync.Mutex // guards the fields below
	timer    *time.Timer
	stopped  bool
	panicked any // a panic of the last ping
}

// startPinger sends pings until stop is called.
func startPinger(to *wsEnd, every time.Duration) *pinger {
	p := &pinger{end: to, interval: every}
	p.armed.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(every, p.send)
	return p
}

func (p *pinger) send() {
	p.end.conn.overhead.Store(0)
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

// ping sends a ping. The timer's goroutine would not recover from a panic, and the process would end.
func (p *pinger) ping() (panicked any) {
	defer func() {
		if recovered := recover(); recovered != nil {
			panicked = server.NewPanicError(recovered)
		}
	}()
	_ = p.end.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(p.end.conn.stall))
	return nil
}

// stop returns when no ping will be sent any more; panicked is final then. A write in progress must be able to end: the connection is
// read by its other side, or cancelled.
func (p *pinger) stop() {
	p.mu.Lock()
	if p.stopped = true; p.timer.Stop() {
		p.armed.Done()
	}
	p.mu.Unlock()
	p.armed.Wait()
}

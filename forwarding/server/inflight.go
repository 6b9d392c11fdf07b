package server

import (
	"context"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Inflight is the requests that a server has in hand: from the handler's start to the answer's end, which for a stream
// comes after the handler has returned.
type Inflight struct {
	watcher   *Watcher
	logger    *slog.Logger
	lifetime  context.Context
	cancel    context.CancelCauseFunc
	open      sync.WaitGroup
	count     atomic.Int64
	began     time.Time
	lastBegin atomic.Int64 // when the last was taken, in nanoseconds after began: a step of the clock does not move it
	hijacks   hijacks
	bodies    bodyMemory
}

// NewInflight returns a set without requests. It is to be closed.
func NewInflight(logger *slog.Logger) (*Inflight, error) {
	w, err := NewWatcher()
	if err != nil {
		return nil, err
	}
	h := &Inflight{watcher: w, logger: logger, began: time.Now()}
	h.lifetime, h.cancel = context.WithCancelCause(context.Background())
	return h, nil
}

// Begin takes a request in hand. Its context ends with EndAll, or when its client has gone once that is watched.
func (h *Inflight) Begin() *Request {
	c := &Request{inflight: h}
	c.Context, c.Cancel = context.WithCancelCause(context.Background())
	c.unbind = context.AfterFunc(h.lifetime, func() { c.Cancel(context.Cause(h.lifetime)) })
	h.count.Add(1)
	h.open.Add(1)
	h.lastBegin.Store(max(1, int64(time.Since(h.began))))
	return c
}

// idleFor says for how long no request has come. It has no end where none ever has.
func (h *Inflight) idleFor() time.Duration {
	taken := h.lastBegin.Load()
	if taken == 0 {
		return math.MaxInt64
	}
	return time.Since(h.began) - time.Duration(taken)
}

// Count says how many there are.
func (h *Inflight) Count() int { return int(h.count.Load()) }

// CancelAll ends the context of every request, for cause.
func (h *Inflight) CancelAll(cause error) { h.cancel(cause) }

// Close waits until no request is in hand, and lets go of everything. No other may be taken any more.
func (h *Inflight) Close() error {
	h.open.Wait()
	h.cancel(nil)
	return h.watcher.Close()
}

// Request is one request in hand.
type Request struct {
	Context context.Context
	Cancel  context.CancelCauseFunc

	inflight *Inflight
	unbind   func() bool
	watch    Watch
	body     []byte // to be put back
	closed   bool
}

// WatchClient ends the context with [ErrClientGone] once the client behind conn has gone.
func (c *Request) WatchClient(conn net.Conn) error {
	var err error
	c.watch, err = c.inflight.watcher.Watch(conn, c.Cancel)
	return err
}

// Close ends the custody; further calls do nothing. It reports whether this was the first.
func (c *Request) Close() bool {
	if c.closed {
		return false
	}
	c.closed = true
	c.inflight.bodies.put(c.body)
	c.body = nil
	c.watch.Stop()
	c.unbind()
	c.Cancel(nil)
	c.inflight.count.Add(-1)
	c.inflight.open.Done()
	return true
}

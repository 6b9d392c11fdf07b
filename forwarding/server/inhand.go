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

// InHand is the requests that a server has in hand: from the handler's start to the answer's end, which for a stream
// comes after the handler has returned.
type InHand struct {
	watcher *Watcher
	logger  *slog.Logger
	life    context.Context
	end     context.CancelCauseFunc
	all     sync.WaitGroup
	count   atomic.Int64
	began   time.Time
	taken   atomic.Int64 // when the last was taken, in nanoseconds after began: a step of the clock does not move it
	hijacks hijacks
	bodies  bodies
}

// NewInHand returns a set without requests. It is to be closed.
func NewInHand(logger *slog.Logger) (*InHand, error) {
	w, err := NewWatcher()
	if err != nil {
		return nil, err
	}
	h := &InHand{watcher: w, logger: logger, began: time.Now()}
	h.life, h.end = context.WithCancelCause(context.Background())
	return h, nil
}

// Take takes a request in hand. Its context ends with EndAll, or when its client has gone once that is watched.
func (h *InHand) Take() *Custody {
	c := &Custody{inHand: h}
	c.Context, c.Cancel = context.WithCancelCause(context.Background())
	c.unbind = context.AfterFunc(h.life, func() { c.Cancel(context.Cause(h.life)) })
	h.count.Add(1)
	h.all.Add(1)
	h.taken.Store(max(1, int64(time.Since(h.began))))
	return c
}

// silence says for how long no request has come. It has no end where none ever has.
func (h *InHand) silence() time.Duration {
	taken := h.taken.Load()
	if taken == 0 {
		return math.MaxInt64
	}
	return time.Since(h.began) - time.Duration(taken)
}

// Count says how many there are.
func (h *InHand) Count() int { return int(h.count.Load()) }

// EndAll ends the context of every request, for cause.
func (h *InHand) EndAll(cause error) { h.end(cause) }

// Close waits until no request is in hand, and lets go of everything. No other may be taken any more.
func (h *InHand) Close() error {
	h.all.Wait()
	h.end(nil)
	return h.watcher.Close()
}

// Custody is one request in hand.
type Custody struct {
	Context context.Context
	Cancel  context.CancelCauseFunc

	inHand *InHand
	unbind func() bool
	watch  Watch
	body   []byte // to be put back
	over   bool
}

// WatchClient ends the context with [ErrClientGone] once the client behind conn has gone.
func (c *Custody) WatchClient(conn net.Conn) error {
	var err error
	c.watch, err = c.inHand.watcher.Watch(conn, c.Cancel)
	return err
}

// LetGo ends the custody; further calls do nothing. It reports whether this was the first.
func (c *Custody) LetGo() bool {
	if c.over {
		return false
	}
	c.over = true
	c.inHand.bodies.put(c.body)
	c.body = nil
	c.watch.Stop()
	c.unbind()
	c.Cancel(nil)
	c.inHand.count.Add(-1)
	c.inHand.all.Done()
	return true
}

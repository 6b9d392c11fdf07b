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

// Inflight is the set of requests in flight: from the begin of a handler to the end of the response, which for a stream comes after
// the handler has returned. Its methods may be called by several goroutines at once.
type Inflight struct {
	watcher    *clientWatcher
	logger     *slog.Logger
	lifetime   context.Context // ends with CancelAll
	cancel     context.CancelCauseFunc
	open       sync.WaitGroup
	count      atomic.Int64
	began      time.Time
	lastBegin  atomic.Int64 // nanoseconds after began, so that a step of the wall clock does not change it; 0 = never
	hijacks    hijacks
	bodyMemory bodyMemory
}

// NewInflight returns an empty set, which the caller must close. All unfinished bodies together have bodyMemory bytes, or four times the
// limit of one if that is more.
func NewInflight(logger *slog.Logger, bodyMemory int64) (*Inflight, error) {
	w, err := newClientWatcher()
	if err != nil {
		return nil, err
	}
	f := &Inflight{watcher: w, logger: logger, began: time.Now()}
	f.bodyMemory.size = bodyMemory
	f.lifetime, f.cancel = context.WithCancelCause(context.Background())
	return f, nil
}

// Begin adds a request, which the caller must close. The request's context ends with CancelAll, and if WatchClient was called, when
// the client leaves.
func (f *Inflight) Begin() *Request {
	r := &Request{inflight: f}
	r.Context, r.Cancel = context.WithCancelCause(context.Background())
	r.unbind = context.AfterFunc(f.lifetime, func() { r.Cancel(context.Cause(f.lifetime)) })
	f.count.Add(1)
	f.open.Add(1)
	f.lastBegin.Store(max(1, int64(time.Since(f.began))))
	return r
}

// idleFor returns the time since the last Begin.
func (f *Inflight) idleFor() time.Duration {
	last := f.lastBegin.Load()
	if last == 0 {
		return math.MaxInt64
	}
	return time.Since(f.began) - time.Duration(last)
}

// Count returns the number of requests in flight.
func (f *Inflight) Count() int { return int(f.count.Load()) }

// CancelAll ends the context of every request with cause.
func (f *Inflight) CancelAll(cause error) { f.cancel(cause) }

// Close waits until no request is in flight. Begin must not be called any more.
func (f *Inflight) Close() error {
	f.open.Wait()
	f.cancel(nil)
	return f.watcher.close()
}

// Request is a request in flight. It is for one goroutine at a time, except for Context and Cancel.
type Request struct {
	Context context.Context
	Cancel  context.CancelCauseFunc

	inflight *Inflight
	unbind   func() bool // from Inflight.lifetime
	watch    clientWatch
	body     []byte // of bodyMemory
	closed   bool
}

// WatchClient ends the context with [ErrClientGone] when the client of conn leaves. A client that sends more than 64 KiB before Close
// has left, too; see Hijack for sessions, whose input is read.
func (r *Request) WatchClient(conn net.Conn) error {
	var err error
	r.watch, err = r.inflight.watcher.watch(conn, r.Cancel)
	return err
}

// Close removes the request from the set, and ends its context. It reports whether this was the first call; others do nothing.
func (r *Request) Close() bool {
	if r.closed {
		return false
	}
	r.closed = true
	r.inflight.bodyMemory.put(r.body)
	r.body = nil
	r.watch.stop()
	r.unbind()
	r.Cancel(nil)
	r.inflight.count.Add(-1)
	r.inflight.open.Done()
	return true
}

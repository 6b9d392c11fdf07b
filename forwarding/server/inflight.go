package server

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/internal/lazyctx"
)

// Inflight is the set of requests in flight: from the begin of a handler to the end of the response, which for a stream comes after
// the handler has returned. Its methods may be called by several goroutines at once.
type Inflight struct {
	watcher    *clientWatcher
	logger     *slog.Logger
	open       sync.WaitGroup
	count      atomic.Int64
	began      time.Time
	lastBegin  atomic.Int64 // nanoseconds after began, so that a step of the wall clock does not change it; 0 = never
	hijacks    hijacks
	bodyMemory bodyMemory

	mu        sync.Mutex // guards the fields below, and the places of requests in the list
	newest    *Request   // first of the list of all requests
	cancelled bool       // CancelAll was called
	cause     error      // with which it was
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
	return f, nil
}

// Begin adds a request, which the caller must close. The request's context ends with CancelAll, and if WatchClient was called, when
// the client leaves.
func (f *Inflight) Begin() *Request {
	r := &Request{inflight: f}
	r.Context = &r.own
	f.count.Add(1)
	f.open.Add(1)
	f.lastBegin.Store(max(1, int64(time.Since(f.began))))
	if f.add(r) {
		r.Cancel(f.cause)
	}
	return r
}

// add adds a request to the list, and reports whether all are cancelled.
func (f *Inflight) add(r *Request) (cancelled bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.older = f.newest; r.older != nil {
		r.older.newer = r
	}
	f.newest = r
	return f.cancelled
}

func (f *Inflight) remove(r *Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.older != nil {
		r.older.newer = r.newer
	}
	if r.newer != nil {
		r.newer.older = r.older
	} else {
		f.newest = r.older
	}
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

// CancelAll ends the context of every request with cause, also of those that begin later. Further calls do nothing.
func (f *Inflight) CancelAll(cause error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancelled {
		return
	}
	f.cancelled, f.cause = true, cause
	for r := f.newest; r != nil; r = r.older {
		r.Cancel(cause) // which waits for nothing
	}
}

// Close waits until no request is in flight. Begin must not be called any more.
func (f *Inflight) Close() error {
	f.open.Wait()
	return f.watcher.close()
}

// Request is a request in flight. It is for one goroutine at a time, except for Context and Cancel.
type Request struct {
	Context context.Context // a [lazyctx.Context]

	own      lazyctx.Context
	inflight *Inflight
	client   *watchedConn // nil = not watched, or by its link
	body     []byte       // of bodyMemory
	closed   bool

	newer, older *Request // in the list of inflight
}

// Cancel ends the context with a cause, unless it has ended.
func (r *Request) Cancel(cause error) { r.own.Cancel(cause) }

// WatchClient ends the context with [ErrClientGone] when the client of conn leaves. A client that sends more than 64 KiB before Close
// has left, too; see Hijack for sessions, whose input is read.
func (r *Request) WatchClient(conn net.Conn) error {
	client, ok := conn.(*serverConn)
	if !ok {
		return fmt.Errorf("cannot watch client: a %T is no connection of a server", conn)
	}
	if client.linked != nil {
		client.linked.OnReset(func(error) { r.Cancel(ErrClientGone) })
		return nil
	}
	watched := &client.watched
	if err := watched.watcher.watch(watched, &r.own); err != nil {
		return err
	}
	r.client = watched
	return nil
}

// stopWatch ends the effect of WatchClient.
func (r *Request) stopWatch() {
	if r.client != nil {
		r.client.watcher.stop(r.client)
		r.client = nil
	}
}

// Close removes the request from the set, and ends its context. It reports whether this was the first call; others do nothing.
func (r *Request) Close() bool {
	if r.closed {
		return false
	}
	r.closed = true
	if r.body != nil {
		r.inflight.bodyMemory.put(r.body)
		r.body = nil
	}
	r.stopWatch()
	r.inflight.remove(r)
	r.Cancel(nil)
	r.inflight.count.Add(-1)
	r.inflight.open.Done()
	return true
}

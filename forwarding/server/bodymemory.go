package server

import (
	"container/heap"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/forwarding/netconn"
)

// DefaultBodyMemory is the memory of all unfinished bodies of a node, in bytes.
const DefaultBodyMemory = 512 << 20

// bodyMemory counts the memory of unfinished bodies, by the client that holds it. Complete bodies do not count, since the requests in
// flight bound their number. Its methods may be called by several goroutines at once.
//
// A holder is a client with unfinished bodies: an account, or the network of a client without a key. A holder may have half of the memory,
// so one holder alone cannot exhaust it. When several holders exhaust it, bodies of the holder with the most are evicted for a holder with
// less, as a full queue evicts requests. So a holder always gets its fair share: the memory divided by the number of holders.
//
// The memory of an evicted body counts as free at once. It is really free a moment later, when the goroutine of the body has noticed the
// eviction: a deadline in the past wakes it.
type bodyMemory struct {
	bodyBuffers
	size int64 // DefaultBodyMemory, but for tests

	mu      sync.Mutex // guards the fields below, and the holders
	total   int64      // bytes
	holders map[holderKey]*bodyHolder
	largest holderHeap // of holders
	freed   freedRate
}

// holderKey identifies the client to which a body's memory is counted: its account, or without one its network. An account is never
// counted by its addresses too, since load balancers hide those.
type holderKey struct {
	account string
	network netip.Addr
}

func (k holderKey) refusal(cause bodyRefusal, retryAfter time.Duration) *bodyMemoryError {
	holder := "account"
	if k.account == "" {
		holder = "address"
	}
	return &bodyMemoryError{message: fmt.Sprintf(string(cause), holder), retryAfter: retryAfter}
}

// bodyHolder is a client with unfinished bodies.
type bodyHolder struct {
	key    holderKey
	bytes  int64 // sum of bodies
	bodies []*unfinishedBody
	index  int // in bodyMemory.largest
	freed  freedRate
}

// unfinishedBody counts the memory of one body that is arriving.
type unfinishedBody struct {
	key     holderKey
	conn    net.Conn
	evicted atomic.Bool // the memory is counted no more, and a read of conn fails

	// Guarded by bodyMemory.mu.
	holder *bodyHolder // nil before the first bytes, and after the end
	index  int         // in holder.bodies
	bytes  int64
	grown  time.Time // when bytes increased last
}

// whole returns the limit of all unfinished bodies together, in bytes, where a body has at most limit bytes. A holder always has room
// for one, also while it grows.
func (m *bodyMemory) whole(limit int) int64 { return max(m.size, 4*int64(limit)) }

// perHolder returns the limit of one holder, in bytes.
func (m *bodyMemory) perHolder(limit int) int64 { return m.whole(limit) / 2 }

// reserve counts n more bytes for a body of at most limit bytes. It returns a [bodyMemoryError] if there is no room for them, or if the
// body was evicted.
func (m *bodyMemory) reserve(b *unfinishedBody, n, limit int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now() // under the lock, so that it is not before any time that is stored
	if b.evicted.Load() {
		return m.evictedErrorLocked(b, now)
	}
	h := m.holderLocked(b.key)
	defer m.forgetIfEmptyLocked(h)
	switch {
	case h.bytes+int64(n) > m.perHolder(limit):
		return b.key.refusal(holderFull, h.freed.timeFor(n, now))
	case !m.makeRoomLocked(h, int64(n), limit, now):
		return b.key.refusal(memoryFull, m.freed.timeFor(n, now))
	}
	if b.holder == nil {
		b.holder, b.index = h, len(h.bodies)
		h.bodies = append(h.bodies, b)
	}
	b.grown = now
	m.addLocked(b, int64(n))
	return nil
}

// release ends the count of n bytes of a body that has more.
func (m *bodyMemory) release(b *unfinishedBody, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b.holder != nil {
		m.addLocked(b, -int64(n))
	}
}

// end ends the count of a body. It returns a [bodyMemoryError] if the body was evicted before; it is not evicted from now on.
func (m *bodyMemory) end(b *unfinishedBody) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if b.evicted.Load() {
		return m.evictedErrorLocked(b, now)
	}
	m.removeLocked(b, now)
	return nil
}

// holds returns the memory of a body and that of its holder, in bytes.
func (m *bodyMemory) holds(b *unfinishedBody) (own, holder int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.holders[b.key]; h != nil {
		holder = h.bytes
	}
	return b.bytes, holder
}

// makeRoomLocked evicts bodies until n bytes are free for h. It reports whether they are: holders that would have less than h are spared.
func (m *bodyMemory) makeRoomLocked(h *bodyHolder, n int64, limit int, now time.Time) bool {
	for m.total+n > m.whole(limit) {
		victim := m.largest[0]
		if victim.bytes <= h.bytes+n {
			return false
		}
		m.evictLocked(victim.worst(now), now)
	}
	return true
}

// worst returns the body with the most byte-seconds since it last grew: it holds much, and makes little progress.
func (h *bodyHolder) worst(now time.Time) (worst *unfinishedBody) {
	most := -1.0
	for _, b := range h.bodies {
		if cost := float64(b.bytes) * now.Sub(b.grown).Seconds(); cost > most {
			worst, most = b, cost
		}
	}
	return worst
}

// evictLocked takes the memory of a body, and wakes its goroutine.
func (m *bodyMemory) evictLocked(b *unfinishedBody, now time.Time) {
	m.removeLocked(b, now)
	b.evicted.Store(true)                              // before the deadline: see bodyReader.readAll
	_ = b.conn.SetReadDeadline(netconn.PastDeadline()) // not later, when the connection may be reading its next request
}

func (m *bodyMemory) evictedErrorLocked(b *unfinishedBody, now time.Time) error {
	return b.key.refusal(bodyEvicted, m.freed.timeFor(minBuffer, now))
}

// holderLocked returns the holder of a key, which may be new and hold nothing.
func (m *bodyMemory) holderLocked(key holderKey) *bodyHolder {
	h := m.holders[key]
	if h == nil {
		h = &bodyHolder{key: key}
		if m.holders == nil {
			m.holders = map[holderKey]*bodyHolder{}
		}
		m.holders[key] = h
		heap.Push(&m.largest, h)
	}
	return h
}

// addLocked counts n more bytes for a body; n may be negative.
func (m *bodyMemory) addLocked(b *unfinishedBody, n int64) {
	b.bytes += n
	b.holder.bytes += n
	m.total += n
	heap.Fix(&m.largest, b.holder.index)
}

// removeLocked removes a body, if it has a holder, from it.
func (m *bodyMemory) removeLocked(b *unfinishedBody, now time.Time) {
	h := b.holder
	if h == nil {
		return
	}
	m.freed.add(b.bytes, now)
	h.freed.add(b.bytes, now)
	m.addLocked(b, -b.bytes)
	last := h.bodies[len(h.bodies)-1]
	h.bodies[b.index], last.index = last, b.index
	h.bodies[len(h.bodies)-1] = nil
	h.bodies = h.bodies[:len(h.bodies)-1]
	b.holder = nil
	m.forgetIfEmptyLocked(h)
}

func (m *bodyMemory) forgetIfEmptyLocked(h *bodyHolder) {
	if len(h.bodies) == 0 {
		heap.Remove(&m.largest, h.index)
		delete(m.holders, h.key)
	}
}

// holderHeap has the holder with the most bytes first.
type holderHeap []*bodyHolder

func (p holderHeap) Len() int           { return len(p) }
func (p holderHeap) Less(i, j int) bool { return p[i].bytes > p[j].bytes }
func (p holderHeap) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	p[i].index, p[j].index = i, j
}

// Push is part of heap.Interface.
func (p *holderHeap) Push(x any) {
	h := x.(*bodyHolder)
	h.index = len(*p)
	*p = append(*p, h)
}

// Pop is part of heap.Interface.
func (p *holderHeap) Pop() any {
	last := (*p)[len(*p)-1]
	(*p)[len(*p)-1] = nil
	*p = (*p)[:len(*p)-1]
	return last
}

package simengine

import (
	"container/list"
	"context"
	"sync"
)

// outcome is how a request left the batch.
type outcome uint8

const (
	outcomeServed  outcome = iota // answered as its client could expect
	outcomeAborted                // its client left, or the engine was closed
	outcomeFaulted                // answered as a fault demanded
)

// batch is the engine's slots and the queue behind them, first come first
// served.
type batch struct {
	slots int

	mu      sync.Mutex // guards the fields below
	running int
	waiting list.List // of *seat, in order of arrival
	peak    int
	left    [3]uint64 // by outcome
}

// seat is one request's place in the batch, from its arrival to its end.
type seat struct {
	batch *batch
	turn  chan struct{} // closed when it has a slot

	// Guarded by batch.mu.
	place *list.Element // while it waits
	gone  bool
}

// arrive takes a slot if one is free, or a place in the queue. The caller must
// leave the seat.
func (b *batch) arrive() *seat {
	s := &seat{batch: b, turn: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.place = b.waiting.PushBack(s)
	b.admitLocked()
	b.peak = max(b.peak, b.running+b.waiting.Len())
	return s
}

// admitLocked gives free slots to the first waiters.
func (b *batch) admitLocked() {
	for b.running < b.slots && b.waiting.Len() > 0 {
		s := b.waiting.Remove(b.waiting.Front()).(*seat)
		s.place = nil
		b.running++
		close(s.turn)
	}
}

// wait returns when the seat has a slot, or with the cause of ctx's end.
func (s *seat) wait(ctx context.Context) error {
	select {
	case <-s.turn:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives the slot or the place in the queue back and counts the outcome.
// Only the first call has an effect, so that a handler may leave early, before
// its last bytes reach a client that takes them as leave to send the next
// request, and still defer a leave for every other way out.
func (s *seat) leave(o outcome) {
	b := s.batch
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.gone {
		return
	}
	s.gone = true
	b.left[o]++
	if s.place != nil {
		b.waiting.Remove(s.place)
		return
	}
	b.running--
	b.admitLocked()
}

func (b *batch) resetPeak() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peak = b.running + b.waiting.Len()
}

// fill copies what the batch knows into st.
func (b *batch) fill(st *Stats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st.Running, st.Waiting, st.Peak = b.running, b.waiting.Len(), b.peak
	st.Served, st.Aborted, st.Faulted = b.left[outcomeServed], b.left[outcomeAborted], b.left[outcomeFaulted]
}

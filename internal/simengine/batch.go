package simengine

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"
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
	watch func(Job) // nil: nobody

	mu      sync.Mutex // guards the fields below
	running int
	waiting list.List // of *seat, in order of arrival
	peak    int
	left    [3]uint64 // by outcome
}

// seat is one request's place in the batch, from its arrival to its end.
type seat struct {
	batch  *batch
	asks   *prompt       // nil: not known
	turn   chan struct{} // closed when it has a slot
	tokens atomic.Int64  // made so far

	// Guarded by batch.mu.
	place *list.Element // while it waits
	gone  bool
	times Job // Arrived, Began and Ended of it
}

// Job is what became of one inference request, as Config.Watch is told. Its prompt tells whose it is, for that is what
// every gateway passes on as it was.
type Job struct {
	Prompt string // its last string; empty for a realtime session
	Input  int    // tokens of the whole prompt
	Tokens int    // made for it
	Served bool   // answered as its client could expect

	Arrived, Began, Ended time.Time // Began is zero if it never had a slot
}

// arrive takes a slot if one is free, or a place in the queue. The caller must
// leave the seat.
func (b *batch) arrive(asks *prompt) *seat {
	s := &seat{batch: b, asks: asks, turn: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	s.times.Arrived = time.Now()
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
		s.times.Began = time.Now()
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
	if job, first := s.vacate(o); first && s.batch.watch != nil {
		s.batch.watch(job)
	}
}

// vacate gives back what the seat holds, and reports what became of it and whether it held anything yet.
func (s *seat) vacate(o outcome) (Job, bool) {
	b := s.batch
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.gone {
		return Job{}, false
	}
	s.gone = true
	b.left[o]++
	s.times.Ended = time.Now()
	if s.place != nil {
		b.waiting.Remove(s.place)
	} else {
		b.running--
		b.admitLocked()
	}
	job := s.times
	job.Tokens, job.Served = int(s.tokens.Load()), o == outcomeServed
	if s.asks != nil {
		job.Prompt, job.Input = s.asks.last, s.asks.tokens
	}
	return job, true
}

// crowd is how many times longer than alone everything takes, when the batch
// works for so many requests at full speed and the others have to share that.
func (b *batch) crowd(knee int) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(1, float64(b.running)/float64(knee))
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

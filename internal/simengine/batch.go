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
	outcomeServed  outcome = iota // answered as its client expects
	outcomeAborted                // its client left, or the engine was closed
	outcomeFaulted                // answered according to a fault
)

// batch has the engine's slots and the queue behind them, first come first served.
type batch struct {
	slots int
	watch func(Job) // nil: none

	mu      sync.Mutex // guards the fields below
	running int
	waiting list.List // of *ticket, in order of arrival
	peak    int
	left    [3]uint64 // by outcome
}

// ticket is one request's place in the batch, from its arrival to its end.
type ticket struct {
	batch   *batch
	prompt  *prompt       // nil: unknown
	granted chan struct{} // closed when it has a slot
	tokens  atomic.Int64  // generated so far

	// Of the caller of leave, from when it has a slot.
	said []string // the tokens of the answer
	use  *use     // of the prefix cache; nil: none

	// Guarded by batch.mu.
	place    *list.Element // while it waits
	released bool
	record   Job // without its prompt and tokens
}

// Job is the record of one inference request for Config.Watch. Its prompt identifies it, since every gateway passes the
// prompt on unchanged.
type Job struct {
	Prompt string // the last string of its prompt; empty for a realtime session
	Input  int    // tokens of the whole prompt
	Tokens int    // generated for it
	Served bool   // answered as its client expects

	Arrived, Began, Ended time.Time // Began is zero if it never had a slot
}

// arrive takes a slot if one is free, and otherwise a place in the queue. The caller must call leave.
func (b *batch) arrive(p *prompt) *ticket {
	t := &ticket{batch: b, prompt: p, granted: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	t.record.Arrived = time.Now()
	t.place = b.waiting.PushBack(t)
	b.admitLocked()
	b.peak = max(b.peak, b.running+b.waiting.Len())
	return t
}

// admitLocked gives free slots to the first waiters.
func (b *batch) admitLocked() {
	for b.running < b.slots && b.waiting.Len() > 0 {
		t := b.waiting.Remove(b.waiting.Front()).(*ticket)
		t.place = nil
		t.record.Began = time.Now()
		b.running++
		close(t.granted)
	}
}

// wait returns nil when the ticket has a slot, or the cause of ctx's end.
func (t *ticket) wait(ctx context.Context) error {
	select {
	case <-t.granted:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave releases the slot or the place in the queue and counts the outcome. Only the first call has an effect. So a
// handler may leave before its last bytes are written, after which the client may send its next request, and still
// defer a leave for every other way out.
func (t *ticket) leave(o outcome) {
	if job, first := t.release(o); first && t.batch.watch != nil {
		t.batch.watch(job)
	}
}

// release gives up what the ticket holds. It returns the record of the request, and whether the ticket held anything until
// now.
func (t *ticket) release(o outcome) (Job, bool) {
	b := t.batch
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.released {
		return Job{}, false
	}
	t.released = true
	b.left[o]++
	t.record.Ended = time.Now()
	if t.place != nil {
		b.waiting.Remove(t.place)
	} else {
		t.use.end(t.said[:min(int(t.tokens.Load()), len(t.said))]) // before the next request looks for its prefix
		b.running--
		b.admitLocked()
	}
	job := t.record
	job.Tokens, job.Served = int(t.tokens.Load()), o == outcomeServed
	if t.prompt != nil {
		job.Prompt, job.Input = t.prompt.last, t.prompt.tokens
	}
	return job, true
}

// slowdown returns how many times longer than alone everything takes, if the batch runs knee requests at full speed and
// further ones share that throughput.
func (b *batch) slowdown(knee int) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(1, float64(b.running)/float64(knee))
}

func (b *batch) resetPeak() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peak = b.running + b.waiting.Len()
}

// fill sets the batch's counts in st.
func (b *batch) fill(st *Stats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st.Running, st.Waiting, st.Peak = b.running, b.waiting.Len(), b.peak
	st.Served, st.Aborted, st.Faulted = b.left[outcomeServed], b.left[outcomeAborted], b.left[outcomeFaulted]
}

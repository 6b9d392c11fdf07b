package entry

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/forwarding/peer"
	"colonnade/openai"
	"colonnade/reasons"
)

const (
	floodRefusals  = 10 // more refusals within floodWindow are a flood
	floodWindow    = time.Second
	passEvery      = 8                // one request in so many goes to the colos during a flood
	maxFloodStates = 10_000           // that are remembered
	minRetryAfter  = time.Second      // the least that a colo sets
	maxRetryAfter  = 32 * time.Second // the most that a colo sets
	retryJitter    = 0.25             // the most by which Retry-After is longer than computed, as a share of it; that of package permits
	forgetAfter    = 2 * floodWindow
)

// floodGuard refuses requests that colos would refuse: those of an account that floods a model while all colos are full. It is safe for
// concurrent use and knows no clock.
//
// A flood begins when colos have refused more than ten requests of one [floodKey] within a second. The entry then refuses the next requests
// itself, with the last refusal of the colos. One request in eight goes to the colos, and so does the first one after the least time that is left
// of all times to come back that the colos have set. The flood ends when a request was admitted or has waited in a queue, or when ten requests or
// fewer were refused within a second.
//
// Each refusal has its own place in a line, as in a pool of a colo: the first is due at that least time, and each further one by as much later as the
// colos need to serve one more (their retry intervals). So clients that obey come back as fast as they can be served. Places that were given stay taken
// when the flood ends.
type floodGuard struct {
	known atomic.Int64 // number of states; spares requests the mutex while there is none

	mu     sync.Mutex                 // guards the fields below
	states map[floodKey]*list.Element // of *floodState
	byAge  *list.List                 // the one whose latest refusal is the oldest comes first
}

// floodKey names requests of which one is refused when another is: the colos decide by the account and its priority, and a request that
// must not wait is refused although a queue has room. Requests that take no slot have places of their own.
type floodKey struct {
	account, model, priority string
	never                    bool // the request must not wait
	free                     bool // it takes no slot
}

// floodState is what is known about the refusals of one floodKey.
type floodState struct {
	key    floodKey
	recent [floodRefusals + 1]time.Time // when requests were refused, by colos or by this entry: a ring
	oldest int                          // index in recent
	passed int                          // requests of the flood, modulo passEvery

	refusal  *openai.Error // the latest of the colos
	due      time.Time     // the earliest moment at which a refused client is to come back
	asking   bool          // due has passed and is replaced by the next refusal of the colos
	interval time.Duration // between two places in the line; 0 = not known
	line     time.Time     // when the client with the last place in the line comes back
}

func newFloodGuard() *floodGuard {
	return &floodGuard{states: map[floodKey]*list.Element{}, byAge: list.New()}
}

// isEmpty reports whether no refusal is remembered.
func (g *floodGuard) isEmpty() bool { return g.known.Load() == 0 }

// refusal returns the refusal of a request that would be refused by the colos, or nil if the request goes to them. jitter is from 0 to 1.
func (g *floodGuard) refusal(key floodKey, now time.Time, jitter float64) *openai.Error {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.states[key]
	if !ok {
		return nil
	}
	f := at.Value.(*floodState)
	if !f.isFlood(now) {
		return nil
	}
	if f.passed = (f.passed + 1) % passEvery; f.passed == 0 {
		return nil
	}
	if !now.Before(f.due) {
		f.due, f.asking = now.Add(minRetryAfter), true // until the colos have answered the request that passes now
		return nil
	}
	f.noteRefusal(now)
	g.byAge.MoveToBack(at)
	e := *f.refusal
	// Times of colos are spread already. The least of many is not, and all clients would come back at the same moment.
	after := min(max(f.takePlace(now).Sub(now), minRetryAfter), maxRetryAfter)
	e.RetryAfter = after + time.Duration(jitter*min(retryJitter*float64(after), float64(maxRetryAfter-after)))
	return &e
}

// takePlace returns when one more client is to come back. The bound leaves room for the jitter, as that of pools does.
func (f *floodState) takePlace(now time.Time) time.Time {
	last := now.Add(time.Duration(float64(maxRetryAfter) / (1 + retryJitter)))
	if f.line = f.line.Add(f.interval); f.line.Before(f.due) {
		f.line = f.due
	}
	if f.line.After(last) && last.After(f.due) {
		f.line = last
	}
	return f.line
}

// refused notes a request that all colos have refused. interval is the time in which they serve one more that comes back; 0 = not known.
func (g *floodGuard) refused(key floodKey, e *openai.Error, interval time.Duration, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.states[key]
	if !ok {
		g.forgetLocked(now)
		at = g.byAge.PushBack(&floodState{key: key})
		g.states[key] = at
		g.known.Add(1)
	}
	g.byAge.MoveToBack(at)
	f := at.Value.(*floodState)
	if due := now.Add(max(e.RetryAfter, minRetryAfter)); f.asking || !now.Before(f.due) || due.Before(f.due) {
		f.due, f.asking = due, false
	}
	f.refusal, f.interval = e, interval
	f.noteRefusal(now)
}

// admitted notes that a request was admitted, or has waited in a queue.
func (g *floodGuard) admitted(key floodKey, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.states[key]
	if !ok {
		return
	}
	if f := at.Value.(*floodState); f.line.After(now) {
		*f = floodState{key: key, line: f.line} // clients have places in it
		return
	}
	g.removeLocked(at)
}

// forgetLocked makes room for one more state. It removes those that have ended, a few at a time, and the oldest if there are too many.
func (g *floodGuard) forgetLocked(now time.Time) {
	for range 2 {
		at := g.byAge.Front()
		if at == nil || len(g.states) < maxFloodStates && !at.Value.(*floodState).hasEnded(now) {
			return
		}
		g.removeLocked(at)
	}
}

func (g *floodGuard) removeLocked(at *list.Element) {
	g.known.Add(-1)
	g.byAge.Remove(at)
	delete(g.states, at.Value.(*floodState).key)
}

// isFlood reports whether more than floodRefusals requests were refused within the last floodWindow.
func (f *floodState) isFlood(now time.Time) bool {
	oldest := f.recent[f.oldest]
	return !oldest.IsZero() && now.Sub(oldest) < floodWindow
}

// hasEnded reports whether the state says nothing about requests from now on.
func (f *floodState) hasEnded(now time.Time) bool {
	return now.Sub(f.latest()) >= forgetAfter && !f.line.After(now)
}

func (f *floodState) noteRefusal(now time.Time) {
	f.recent[f.oldest] = now
	f.oldest = (f.oldest + 1) % len(f.recent)
}

// latest returns when a request was refused last.
func (f *floodState) latest() time.Time {
	return f.recent[(f.oldest+floodRefusals)%len(f.recent)]
}

// refuseFlood returns the attempts of a request that the colos would refuse, which ask none, or nil. Requests of operators for one colo are left out: they
// ask about that colo, and what it answers says nothing about the others.
func (c *call) refuseFlood(forced string, mode queueMode, jitter float64) *attempts {
	if c.forced = forced != ""; c.forced || c.entry.floods.isEmpty() {
		return nil
	}
	e := c.entry.floods.refusal(c.floodKey(mode), c.arrived, jitter)
	if e == nil {
		return nil
	}
	c.entry.metrics.RefusedByEntry(c.model.Name)
	return &attempts{refusal: e, queueMode: mode, ofEntry: true, errorsLeft: c.model.Retry.Errors}
}

func (c *call) floodKey(mode queueMode) floodKey {
	return floodKey{account: c.caller.Account.Name, model: c.model.Name, priority: c.priority, never: mode == queueNever, free: c.route.Free()}
}

// noteFlood notes how the colos have answered a request. A request whose client has gone says nothing.
func (c *call) noteFlood(answer *peer.Answer) {
	switch {
	case c.forced, c.attempts.ofEntry, c.attempts.noLongWait && len(c.attempts.waitingRooms) > 0 && answer == nil: // it may come back, and wait
	case answer != nil && c.entry.floods.isEmpty(): // there is no flood that it could end
	case answer != nil, c.hadPlace, c.attempts.reachedEngine():
		c.entry.floods.admitted(c.floodKey(c.attempts.queueMode), c.firstByte)
	case c.Context.Err() == nil && c.attempts.allFull():
		c.entry.floods.refused(c.floodKey(c.attempts.queueMode), c.attempts.clientError(), c.attempts.retryInterval(), time.Now())
	}
}

// allFull reports whether the colos that were asked are full. A colo that is not reached has no capacity either; else the loss of a colo would
// lead each request of a flood to all others. A request that had no time left is refused for its own deadline, which says nothing about others.
func (t *attempts) allFull() bool {
	e := t.clientError()
	return e.Number == openai.NumberOutOfCapacity && e.Reason != reasons.Deadline
}

// reachedEngine reports whether an engine has failed with the request, which had a permit then.
func (t *attempts) reachedEngine() bool { return t.endpointsFailed > t.failedBefore }

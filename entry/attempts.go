package entry

import (
	"slices"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
	"colonnade/reasons"
)

// queueMode is the value of the header x-colonnade-queue.
type queueMode string

const (
	queueDefault queueMode = ""
	queueNever   queueMode = "never" // refuse rather than queue
	queueWait    queueMode = "wait"  // queue in the first colo of the plan rather than go on to the next
)

// attempts walks a plan; it knows neither clock nor network.
//
// While colos remain, a request waits in one only if the expected wait is short. If all colos are full, it waits at the one with the
// shortest expected wait; if that queue has filled up meanwhile, at the next shortest. After the wait budget is spent, it asks the
// remaining colos once without waiting: one may have a free slot, and each records the client as a pending retry.
//
// A colo is one candidate, however many servers it has. The request asks the home; if another server is the home by now, that one; and if a
// server does not answer, the next in line, which knows whether the request may wait there.
type attempts struct {
	rank       func(colo string) []*fleet.Server // see [rankServers]
	candidates []candidate
	inColo     *attempt // at another server of the colo that was asked last; nil = the request goes on to the next colo
	queueMode  queueMode
	onwardRule onwardRule
	errorsLeft int  // attempts left after errors
	fullLeft   int  // colos left after one that was full
	mayGoOn    bool // another model may follow: see [fallbacks]
	noLongWait bool // the request waits nowhere for long, since it may do so for another model
	ofEntry    bool // no colo is asked, since the request is part of a flood

	waitingRooms    []waitingRoom // colos whose queue has room, by expected wait
	lostServerOnce  bool          // a connection was lost without a verdict
	endpointsFailed int           // after this request was sent to them
	failedBefore    int           // of them, with another model

	refusal      *openai.Error // of a colo, with the least status; of several, the last in which the request waited, else the first
	lastRefusals []lastRefusal // one for each colo
	failure      *openai.Error // the last error
	movedAway    *openai.Error // of a server that has named another one
	notFound     *openai.Error // of a colo without the model
	over         bool
}

// lastRefusal is the latest refusal of a colo. Earlier ones of the same colo do not count: their Retry-After was for a shorter wait, or
// has been given to another client since.
type lastRefusal struct {
	colo *fleet.Colo
	*openai.Error
	interval time.Duration // see [hop.Verdict]; 0 = not known
}

// waitingRoom is a colo whose slots are taken and whose queue has room.
type waitingRoom struct {
	candidate
	line     line
	expected time.Duration // expected wait; 0 = not known
}

// candidate is one colo of a plan. Plans may have hundreds.
type candidate struct {
	Colo              *fleet.Colo
	slots             int     // of the pool there, as last reported; 0 = never reported, negative = none
	returnProbability float64 // see [hop.Token]
}

// attempt is one attempt at one server of a colo.
type attempt struct {
	candidate
	line   line
	wait   hop.Wait
	below  time.Duration // see [hop.Token]
	rejoin bool          // see [hop.Token]
	onward []hop.Stop    // see [hop.Token]
}

// server returns the server that is asked.
func (a *attempt) server() *fleet.Server { return a.line.servers[0] }

func newAttempts(plan []candidate, rank func(colo string) []*fleet.Server, q queueMode, r fleet.Retry) *attempts {
	assignReturnShares(plan[:min(len(plan), r.OutOfCapacity+1)])
	return &attempts{rank: rank, candidates: plan, queueMode: q, errorsLeft: r.Errors, fullLeft: r.OutOfCapacity}
}

// assignReturnShares sets the probability that a client which is refused by all of these colos returns to each. It returns once, and is
// served by the first colo with room, so it is one pending retry for all of them together. With shares in proportion to slots, all
// colos arrive at the same Retry-After, however unequal they are, as long as their slots serve equally fast.
func assignReturnShares(candidates []candidate) {
	reported, slots := 0, 0
	for _, s := range candidates {
		if s.slots > 0 {
			reported, slots = reported+1, slots+s.slots
		}
	}
	mean := 1.0
	if reported > 0 {
		mean = float64(slots) / float64(reported)
	}
	sum := 0.0
	for i := range candidates {
		s := &candidates[i]
		switch {
		case s.slots > 0:
			s.returnProbability = float64(s.slots)
		case s.slots == 0:
			s.returnProbability = mean
		}
		sum += s.returnProbability
	}
	for i := range candidates {
		candidates[i].returnProbability /= max(sum, 1)
	}
}

// next returns the next attempt, or false if there is none.
func (t *attempts) next() (attempt, bool) {
	if t.over {
		return attempt{}, false
	}
	if t.inColo != nil {
		at := *t.inColo
		t.inColo = nil
		return at, true
	}
	for len(t.candidates) > 0 {
		s := t.candidates[0]
		t.candidates = t.candidates[1:]
		if servers := t.rank(s.Colo.Name); len(servers) > 0 {
			at := t.at(s)
			at.line.servers = servers
			return at, true
		}
	}
	if len(t.waitingRooms) > 0 && !t.noLongWait {
		room := t.waitingRooms[0]
		t.waitingRooms = t.waitingRooms[1:]
		return attempt{candidate: room.candidate, line: room.line, wait: hop.WaitFull}, true
	}
	return attempt{}, false
}

// at returns the attempt at s, but for its servers: how long the request may wait there.
func (t *attempts) at(s candidate) attempt {
	last := len(t.candidates) == 0 && !t.noLongWait
	switch {
	case t.queueMode == queueNever:
		return attempt{candidate: s, wait: hop.WaitNever}
	case t.queueMode == queueWait, last && len(t.waitingRooms) == 0:
		// No other colo would let it wait, so there is nothing to compare with.
		return attempt{candidate: s, wait: hop.WaitFull}
	case last:
		return attempt{candidate: s, wait: hop.WaitSpill, below: t.waitingRooms[0].expected}
	}
	return attempt{candidate: s, wait: hop.WaitSpill}
}

// refused notes the visit of a colo that was out of capacity.
func (t *attempts) refused(at attempt, visit *hop.Visit, e *openai.Error) {
	v := &visit.Verdict
	if t.fullLeft--; t.fullLeft < 0 {
		t.candidates = nil
	}
	t.noteRefusal(at.Colo, e, at.wait == hop.WaitFull || visit.Queued > 0)
	t.lastRefusals[len(t.lastRefusals)-1].interval = v.RetryInterval
	if at.wait == hop.WaitSpill && v.MayWait {
		i, _ := slices.BinarySearchFunc(t.waitingRooms, v.Expected, func(w waitingRoom, expected time.Duration) int {
			if shorter(expected, w.expected) {
				return 1
			}
			return -1
		})
		t.waitingRooms = slices.Insert(t.waitingRooms, i, waitingRoom{at.candidate, at.line, v.Expected})
	}
}

// noteRefusal keeps the refusal that says most to the client: "no room" says more than "no endpoint", and the reason why a wait failed
// more than that there was no free slot.
func (t *attempts) noteRefusal(colo *fleet.Colo, e *openai.Error, waited bool) {
	if t.refusal == nil || e.Status < t.refusal.Status || e.Status == t.refusal.Status && waited {
		t.refusal = e
	}
	t.lastRefusals = append(slices.DeleteFunc(t.lastRefusals, func(s lastRefusal) bool { return s.colo == colo }), lastRefusal{colo, e, 0})
}

// retryAfter returns the smallest Retry-After among the latest refusals with the refusal's status.
func (t *attempts) retryAfter() time.Duration {
	if t.refusal == nil {
		return 0
	}
	least := time.Duration(-1)
	for _, s := range t.lastRefusals {
		if s.Status == t.refusal.Status && (least < 0 || s.RetryAfter < least) {
			least = s.RetryAfter
		}
	}
	if least < 0 {
		return t.refusal.RetryAfter
	}
	return least
}

// retryInterval returns the time in which all colos that have refused the request serve one more of its account that comes back; 0 = not known.
func (t *attempts) retryInterval() time.Duration {
	rate := 0.0
	for _, s := range t.lastRefusals {
		if s.interval > 0 {
			rate += 1 / s.interval.Seconds()
		}
	}
	if rate == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / rate)
}

// shorter reports whether wait a is shorter than b; 0 means not known.
func shorter(a, b time.Duration) bool { return a > 0 && (b == 0 || a < b) }

// failed notes the verdict of a colo in which the request failed.
func (t *attempts) failed(e *openai.Error, v hop.Verdict, budget func() bool) {
	if v.Unsent && !v.Final {
		t.notSent(e)
		return
	}
	t.failure = e
	t.charge(v, budget)
}

// charge counts attempts that were sent to an engine. A further attempt takes from the retry budget, which is asked only if nothing else
// forbids the attempt.
func (t *attempts) charge(v hop.Verdict, budget func() bool) {
	if v.Unsent && !v.Final {
		return
	}
	t.errorsLeft -= v.RetriesMade
	t.endpointsFailed = max(t.endpointsFailed, v.EndpointsFailed)
	if v.Final || t.endpointsFailed >= hop.MaxEndpointsFailed || t.errorsLeft < 1 || (t.more() || t.mayGoOn) && !budget() {
		t.over = true
		return
	}
	t.errorsLeft--
}

// more reports whether there is another server or colo to try.
func (t *attempts) more() bool {
	return t.inColo != nil || len(t.candidates) > 0 || len(t.waitingRooms) > 0
}

// notSent notes that nothing was sent to an engine of a colo. So going on is free of charge; the plan bounds it.
func (t *attempts) notSent(e *openai.Error) {
	if t.failure == nil || !t.failure.NoRetry { // else an engine may have generated an answer before
		t.failure = e
	}
}

// modelUnknown notes that a colo does not have the model, which was put or deleted a moment ago. No engine was tried, so nothing is
// charged, and any other colo's error says more.
func (t *attempts) modelUnknown(e *openai.Error) { t.notFound = e }

// deadlineNear notes that the client's deadline is too near for another attempt. Unless an attempt failed, the request ends as out of
// capacity.
func (t *attempts) deadlineNear() {
	if t.failure == nil {
		t.refusal = openai.OutOfCapacity(reasons.Deadline, max(t.retryAfter(), time.Second))
	}
}

// fail ends the request with e.
func (t *attempts) fail(e *openai.Error) { t.failure, t.over = e, true }

// clientError returns the error for the client when no colo has served the request.
func (t *attempts) clientError() *openai.Error {
	switch {
	case t.failure != nil && (t.over || t.refusal == nil || t.refusal.Status != 429):
		return t.failure // an engine that failed says more than a colo without any
	case t.refusal != nil:
		e := *t.refusal
		e.RetryAfter = t.retryAfter()
		return &e
	case t.movedAway != nil:
		return t.movedAway
	case t.notFound != nil:
		return t.notFound
	}
	return openai.Unavailable(reasons.NoEndpoint, time.Second)
}

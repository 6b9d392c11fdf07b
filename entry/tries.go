package entry

import (
	"slices"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/hop"
	"colonnade/openai"
	"colonnade/reasons"
)

// queueing is what the client asked for in x-colonnade-queue.
type queueing string

const (
	queueAsNeeded queueing = ""
	queueNever    queueing = "never" // refuse rather than queue
	queueWait     queueing = "wait"  // queue in the first colo of the plan rather than go on to the next
)

// tries walks a plan. While colos remain, a request waits in one only if that will be short. When every colo was full,
// it waits where the expected wait is least, or if there is no room left meanwhile, where it is next to least. One that
// has waited in vain for as long as it may asks the others as well: it waits for none, but may find a slot free, and
// all know then that its client will come back. It knows neither clock nor network.
type tries struct {
	stops    []stop
	queueing queueing
	errors   int // further attempts left after errors
	full     int // further colos left after one that was full

	waitable []waitable // colos that would let it wait, the least expected wait first
	lost     bool       // a server was lost without a verdict
	broken   int        // endpoints that the request has broken

	refusal  *openai.Error // of a full colo: the last that let it wait, else the first
	said     []said        // by those that were full
	failure  *openai.Error // the last error
	notFound *openai.Error // of a colo that does not know the model
	over     bool
}

// said is what a colo has said last. What it had said before was for a shorter wait, or another is told by now to come
// back then.
type said struct {
	colo *fleet.Colo
	*openai.Error
}

// waitable is a colo whose slots are taken, but that has room for whoever waits.
type waitable struct {
	stop
	expected time.Duration // 0 = not known
}

// stop is one colo of a plan, and the server there that grants the model's permits.
type stop struct {
	Colo   *fleet.Colo
	Home   *fleet.Server
	slots  int     // of the pool there, as was heard last; 0: nothing was, negative: none
	chance float64 // see [hop.Token]
}

// try is one attempt at one colo.
type try struct {
	stop
	wait  hop.Wait
	below time.Duration // see [hop.Token]
}

func newTries(plan []stop, q queueing, r fleet.Retry) *tries {
	deal(plan[:min(len(plan), r.OutOfCapacity+1)])
	return &tries{stops: plan, queueing: q, errors: r.Errors, full: r.OutOfCapacity}
}

// deal sets the chances that a client who is refused by all of these colos comes back to each. It comes back once, and
// is served where there is room first: it is one more for all of them together. If each reckons with a part of it by
// slots, all come to the time that all of them need, however unequal they are, as long as a slot is worth as much in
// one as in another.
func deal(stops []stop) {
	heard, slots := 0, 0
	for _, s := range stops {
		if s.slots > 0 {
			heard, slots = heard+1, slots+s.slots
		}
	}
	usual := 1.0
	if heard > 0 {
		usual = float64(slots) / float64(heard)
	}
	all := 0.0
	for i := range stops {
		s := &stops[i]
		switch {
		case s.slots > 0:
			s.chance = float64(s.slots)
		case s.slots == 0:
			s.chance = usual
		}
		all += s.chance
	}
	for i := range stops {
		stops[i].chance /= max(all, 1)
	}
}

// next returns the next attempt, or false if there is none.
func (t *tries) next() (try, bool) {
	switch {
	case t.over:
		return try{}, false
	case len(t.stops) > 0:
		s := t.stops[0]
		t.stops = t.stops[1:]
		return t.at(s), true
	case len(t.waitable) > 0:
		s := t.waitable[0].stop
		t.waitable = t.waitable[1:]
		return try{stop: s, wait: hop.WaitFull}, true
	}
	return try{}, false
}

// at says how long to wait at s.
func (t *tries) at(s stop) try {
	last := len(t.stops) == 0
	switch {
	case t.queueing == queueNever:
		return try{stop: s, wait: hop.WaitNever}
	case t.queueing == queueWait, last && len(t.waitable) == 0:
		// Nobody else is left who would let it wait, so there is nothing to compare with.
		return try{stop: s, wait: hop.WaitFull}
	case last:
		return try{stop: s, wait: hop.WaitSpill, below: t.waitable[0].expected}
	}
	return try{stop: s, wait: hop.WaitSpill}
}

// refused takes the verdict of a colo that was out of capacity.
func (t *tries) refused(at try, v hop.Verdict, e *openai.Error) {
	if t.full--; t.full < 0 {
		t.stops = nil
	}
	t.remember(at.Colo, e, at.wait == hop.WaitFull)
	if at.wait == hop.WaitSpill && v.MayWait {
		i, _ := slices.BinarySearchFunc(t.waitable, v.Expected, func(w waitable, expected time.Duration) int {
			if shorter(expected, w.expected) {
				return 1
			}
			return -1
		})
		t.waitable = slices.Insert(t.waitable, i, waitable{at.stop, v.Expected})
	}
}

// moved takes the word of a colo that drains; nil: of all of them. Nothing is charged for it: with another one left,
// nobody notices.
func (t *tries) moved(colo *fleet.Colo, e *openai.Error) { t.remember(colo, e, false) }

// remember keeps what the client is to be told. That somewhere was nobody at all is worth less than that somewhere was
// no room; and that a colo had no slot less than why it could not be waited for there.
func (t *tries) remember(colo *fleet.Colo, e *openai.Error, waited bool) {
	if t.refusal == nil || e.Status < t.refusal.Status || e.Status == t.refusal.Status && waited {
		t.refusal = e
	}
	t.said = append(slices.DeleteFunc(t.said, func(s said) bool { return s.colo == colo }), said{colo, e})
}

// retryAfter is the smallest that a colo has said last with the refusal's status.
func (t *tries) retryAfter() time.Duration {
	if t.refusal == nil {
		return 0
	}
	least := time.Duration(-1)
	for _, s := range t.said {
		if s.Status == t.refusal.Status && (least < 0 || s.RetryAfter < least) {
			least = s.RetryAfter
		}
	}
	if least < 0 {
		return t.refusal.RetryAfter
	}
	return least
}

// shorter compares two expected waits, of which 0 is not known.
func shorter(a, b time.Duration) bool { return a > 0 && (b == 0 || a < b) }

// failed takes the verdict of a colo where the request failed.
func (t *tries) failed(e *openai.Error, v hop.Verdict, budget func() bool) {
	t.failure = e
	t.charge(v, budget)
}

// charge counts attempts that have reached an engine: another one needs the budget's leave, which is asked only if
// nothing else forbids it.
func (t *tries) charge(v hop.Verdict, budget func() bool) {
	t.errors -= v.Retries
	t.broken = max(t.broken, v.EndpointsFailed)
	if v.Final || t.broken >= hop.MaxEndpointsFailed || t.errors < 1 || t.more() && !budget() {
		t.over = true
		return
	}
	t.errors--
}

// more says whether the plan has another try.
func (t *tries) more() bool { return len(t.stops) > 0 || len(t.waitable) > 0 }

// lostServer takes the loss of a server that has said nothing. That is forgiven once; then it is an error like others.
func (t *tries) lostServer(e *openai.Error, budget func() bool) {
	if t.lost {
		t.failed(e, hop.Verdict{}, budget)
		return
	}
	t.lost, t.failure = true, e
}

// unknown takes the word of a colo that does not know the model, which was put or deleted a moment ago. Nothing was tried
// there, so nothing is charged; and whoever knows the model has more to say.
func (t *tries) unknown(e *openai.Error) { t.notFound = e }

// late ends the walk of a request whose deadline is too near for another try. Unless something failed, it was out of
// capacity.
func (t *tries) late() {
	if t.failure == nil {
		t.refusal = openai.OutOfCapacity(reasons.Deadline, max(t.retryAfter(), time.Second))
	}
}

// give ends the walk with e.
func (t *tries) give(e *openai.Error) { t.failure, t.over = e, true }

// outcome is what the client is told when no colo has served the request.
func (t *tries) outcome() *openai.Error {
	switch {
	case t.failure != nil && (t.over || t.refusal == nil || t.refusal.Status != 429):
		return t.failure // an engine was there: that it failed says more than that elsewhere there was none
	case t.refusal != nil:
		e := *t.refusal
		e.RetryAfter = t.retryAfter()
		return &e
	case t.notFound != nil:
		return t.notFound
	}
	return openai.Unavailable(reasons.NoEndpoint, time.Second)
}

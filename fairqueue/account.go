package fairqueue

import "time"

// account is what the queue knows of one account: what it may have, what it holds, and its flow in each band.
type account struct {
	name       string
	weight     float64
	concurrent int // its own cap; 0: none
	held       [boundCount]int64
	hold       mean // how long its requests hold a slot, relative to all requests; only while its cap is below Slots
	learned    learned
	flows      [bandCount]flow

	idle           bool     // it stands among the idlers
	earlier, later *account // its neighbours there
}

// account returns the record of c's account, made if need be and brought up to date with the claim.
func (q *Queue) account(c *Claim) *account {
	if a := q.lookup(c); a != nil {
		return a
	}
	return q.newAccount(c)
}

// lookup is account without making one: nil if there is no record.
func (q *Queue) lookup(c *Claim) *account {
	a := q.accounts[c.Account]
	if a != nil && (a.weight != c.Weight || a.concurrent != c.Concurrent) {
		q.update(a, c)
	}
	return a
}

func (q *Queue) newAccount(c *Claim) *account {
	a := &account{name: c.Account, weight: c.Weight, concurrent: c.Concurrent}
	for i := range a.flows {
		a.flows[i] = flow{account: a, band: &q.bands[i]}
	}
	q.accounts[c.Account] = a
	q.mapPeak = max(q.mapPeak, len(q.accounts))
	return a
}

// update gives a the weight and the cap of its newest claim.
func (q *Queue) update(a *account, c *Claim) {
	for i := range a.flows {
		if a.flows[i].waiting > 0 {
			q.bands[i].weight += c.Weight - a.weight
		}
	}
	a.weight, a.concurrent = c.Weight, c.Concurrent
	q.reindex(a)
}

func (a *account) running() int {
	n := 0
	for i := range a.flows {
		n += a.flows[i].running
	}
	return n
}

// heldPerWeight says how much of a bound a holds for its weight.
func (a *account) heldPerWeight(b bound) float64 { return float64(a.held[b]) / a.weight }

// effectiveCap is how many an account with this cap of its own may run at once; 0: no cap.
func (q *Queue) effectiveCap(own int) int {
	if own > 0 && q.share > 0 {
		return min(own, q.share)
	}
	return max(own, q.share)
}

// bindingCap is runs where that is below Slots, so that the cap and not the number of slots is what holds an account back;
// else 0.
func (q *Queue) bindingCap(own int) int {
	if n := q.effectiveCap(own); n < q.config.Slots {
		return n
	}
	return 0
}

// AtLimit reports whether c's account runs as many requests as its cap lets it, with a cap below Slots: a slot that
// another account frees is not for it.
func (q *Queue) AtLimit(c Claim) bool {
	a := q.accounts[c.Account]
	return a != nil && q.atLimit(a, c.Concurrent)
}

func (q *Queue) atLimit(a *account, concurrent int) bool {
	n := q.bindingCap(concurrent)
	return n > 0 && a.running() >= n
}

// ObserveHold records for how long a request that ends has held its slot, where all requests hold one for mean. It is
// called before [Queue.Finish]. Accounts differ: what frees one at its cap is the end of a request of its own.
func (q *Queue) ObserveHold(r Running, held, mean time.Duration) {
	if a := r.flow.account; mean > 0 && q.bindingCap(a.concurrent) > 0 {
		a.hold.add(float64(held) / float64(mean))
	}
}

// stretch is how many requests of average length the pool serves while one of an account with this cap ends: 1 for an
// account without a cap below Slots. a may be nil.
func (q *Queue) stretch(a *account, concurrent int) float64 {
	limit := q.bindingCap(concurrent)
	if limit == 0 {
		return 1
	}
	n := float64(q.config.Slots) / float64(limit)
	if a != nil && a.hold.n >= meanWindow/4 {
		n *= a.hold.value
	}
	return n
}

func (q *Queue) atCap(a *account) bool {
	n := q.effectiveCap(a.concurrent)
	return n > 0 && a.running() >= n
}

// reindex puts the flows of a where they belong, after anything about a changed.
func (q *Queue) reindex(a *account) {
	capped := q.atCap(a)
	for i := range a.flows {
		if f := &a.flows[i]; f.head != nil || f.at != [placeCount]int32{} {
			q.reindexFlow(f, capped)
		}
	}
}

func (q *Queue) reindexFlow(f *flow, capped bool) {
	turns := f.head != nil && !capped
	if turns && !f.band.order.has(f) {
		q.activate(f)
	}
	put(&f.band.order, f, turns)
	put(&f.band.ages, f, turns)
	for i := range f.band.held {
		put(&f.band.held[i], f, f.newest != nil)
	}
}

// put has f stand in h where it belongs, or not at all.
func put(h *heap, f *flow, in bool) {
	switch {
	case !in:
		h.remove(f)
	case h.has(f):
		h.fix(f)
	default:
		h.add(f)
	}
}

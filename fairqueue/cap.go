package fairqueue

import "time"

// effectiveCap is how many requests an account with this cap of its own may run at once; 0: no cap.
func (q *Queue) effectiveCap(own int) int {
	if own > 0 && q.share > 0 {
		return min(own, q.share)
	}
	return max(own, q.share)
}

// bindingCap is effectiveCap where that is below Slots, so that the cap holds the account back and not the number of
// slots; else 0.
func (q *Queue) bindingCap(own int) int {
	if n := q.effectiveCap(own); n < q.config.Slots {
		return n
	}
	return 0
}

// AtLimit reports whether c's account runs as many requests as its cap lets it, with a cap below Slots: none of its
// requests can get a slot that another account frees.
func (q *Queue) AtLimit(c Claim) bool {
	if q.bindingCap(c.Concurrent) == 0 {
		return false // as a rule: spare the lookup
	}
	a := q.accounts[c.Account]
	return a != nil && q.atLimit(a, c.Concurrent)
}

func (q *Queue) atLimit(a *account, ownCap int) bool {
	n := q.bindingCap(ownCap)
	return n > 0 && a.running >= n
}

// ObserveHold records how long a request that ends has held its slot, while the mean of all requests is mean. It is
// called before [Queue.Finish]. Only the end of a request of its own lets an account at its cap go on, and one account's
// requests may hold their slots far longer than another's.
func (q *Queue) ObserveHold(r *Running, held, mean time.Duration) {
	if a := r.flow.account; q.bindingCap(a.ownCap) > 0 && mean > 0 {
		a.hold.add(float64(held) / float64(mean))
	}
}

// Stretch is how many requests of mean length end while one of c's account ends that is at its cap, when all slots are
// taken: 1 for an account without a cap below Slots.
func (q *Queue) Stretch(c Claim) float64 {
	if q.bindingCap(c.Concurrent) == 0 {
		return 1
	}
	return q.stretch(q.accounts[c.Account], c.Concurrent)
}

// stretch is how many requests of mean length end while one ends of an account with this cap, when all slots are taken:
// 1 for an account without a cap below Slots. a may be nil.
func (q *Queue) stretch(a *account, ownCap int) float64 {
	limit := q.bindingCap(ownCap)
	if limit == 0 {
		return 1
	}
	n := float64(q.config.Slots) / float64(limit)
	if a != nil && a.hold.n >= meanWindow/4 {
		n *= a.hold.value
	}
	return n
}

// atCap reports whether a runs as many requests as it may.
func (q *Queue) atCap(a *account) bool {
	n := q.effectiveCap(a.ownCap)
	return n > 0 && a.running >= n
}

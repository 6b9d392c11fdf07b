package fairqueue

import "math"

// Estimate is what a request is expected to cost.
type Estimate struct {
	Input  float64
	Output float64
}

func (e Estimate) sum() float64 { return min(max(e.Input+e.Output, minCost), maxCost) }

// learned is what the requests of one account, or of all, have taught about the next.
type learned struct {
	output        mean // what their outputs cost
	input, claims mean // what their inputs cost, and what they were claimed to
	charged       mean // what they were charged in the end
}

// meanWindow is how many requests a mean looks back on, roughly: few enough to follow an account that turns to something
// else, enough for lengths that vary as much as answers do.
const meanWindow = 32

// mean is exponentially weighted, but that of all while there are few.
type mean struct {
	n     int
	value float64
}

func (m *mean) add(x float64) {
	m.n = min(m.n+1, meanWindow)
	m.value += (x - m.value) / float64(m.n)
}

func (l *learned) learn(claimed float64, used Estimate) {
	if used.Input >= 0 { // not NaN, which is one that nobody told
		l.input.add(min(used.Input, maxCost))
		l.claims.add(claimed)
	}
	if used.Output >= 0 {
		l.output.add(min(used.Output, maxCost))
	}
}

// maxUpfront is how many times what an account's requests have been charged, on the mean, one is charged before it has
// cost anything. What is not true of a claim moves V no further than this, and what is true is charged as it comes.
const maxUpfront = 8

// estimate says what a request with this claim will cost: what its account's last requests have cost, or those of all
// accounts where it has had none. Before the first has ended, what is not claimed counts as nothing.
func (q *Queue) estimate(c *Claim, a *account) Estimate {
	if !q.config.Learn {
		return Estimate{Input: c.Cost}
	}
	own := &q.learned
	if a != nil && a.learned.output.n+a.learned.input.n > 0 {
		own = &a.learned
	}
	e := Estimate{Input: c.Cost, Output: own.output.value}
	if own.claims.value > 0 {
		e.Input *= own.input.value / own.claims.value
	}
	if c.Output > 0 {
		e.Output = min(e.Output, c.Output)
	}
	if own.charged.n < meanWindow/4 {
		own = &q.learned
	}
	if own.charged.n >= meanWindow/4 {
		most := maxUpfront * own.charged.value
		e.Input = min(e.Input, most)
		e.Output = min(e.Output, most-e.Input)
	}
	return e
}

// recordCharge takes note of what a request was charged.
func (q *Queue) recordCharge(a *account, used float64) {
	if q.config.Learn && used > 0 {
		q.learned.charged.add(used)
		a.learned.charged.add(used)
	}
}

// setEstimate estimates what it will be charged when it is served.
func (q *Queue) setEstimate(it *Item, a *account) {
	it.estimate = q.estimate(&it.Claim, a)
	it.cost = it.estimate.sum()
}

// Learn takes note of what a request has really cost, for the estimates of what follows; NaN is what nobody told. It is
// called before [Queue.Finish], and only for requests that had the chance to be what they were going to be.
func (q *Queue) Learn(r Running, used Estimate) {
	if !q.config.Learn {
		return
	}
	q.learned.learn(r.claimed, used)
	r.flow.account.learned.learn(r.claimed, used)
}

// Charge makes what a running request is charged at least used, while it runs: one that has used more than was
// estimated does not wait for its end until that counts. It is O(log n) in the accounts waiting.
func (q *Queue) Charge(r *Running, used float64) {
	if !(used > r.charged) {
		return
	}
	used = math.Min(used, maxCost)
	f := r.flow
	f.s += (used - r.charged) / r.weight
	f.fresh = f.fresh && f.s <= f.band.v
	f.band.maxS = max(f.band.maxS, f.s)
	r.charged = used
	q.fixOrder(f, false)
}

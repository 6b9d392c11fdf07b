package fairqueue

import "math"

// Estimate is what a request is expected to cost.
type Estimate struct {
	Input  float64
	Output float64
}

func (e Estimate) sum() float64 { return min(max(e.Input+e.Output, minCost), maxCost) }

// learned has what ended requests, of one account or of all, say about the next.
type learned struct {
	output        mean // cost of each of their outputs
	input, claims mean // cost of their inputs, and what they were claimed to cost
	charged       mean // total charge at their end
}

// meanWindow is over how many requests a mean is taken, roughly: few enough to follow an account whose requests change,
// enough for lengths that vary as much as those of answers.
const meanWindow = 32

// mean is exponentially weighted from meanWindow values on, and before that the mean of all.
type mean struct {
	n     int
	value float64
}

func (m *mean) add(x float64) {
	m.n = min(m.n+1, meanWindow)
	m.value += (x - m.value) / float64(m.n)
}

func (l *learned) learn(r *Running, used Estimate) {
	if used.Input >= 0 { // not NaN, which is not known
		l.input.add(min(used.Input, maxCost))
		l.claims.add(r.claimed)
	}
	if used.Output >= 0 {
		l.output.add(min(used.Output, maxCost) / r.outputs)
	}
}

// maxUpfront bounds what a request is charged in advance, in multiples of the mean charge of its account. A false claim
// moves V no further than this, and a true one is charged as the cost arises.
const maxUpfront = 8

// estimate returns what a request with this claim is expected to cost, from the last requests of its account, or of all
// accounts if that has no history. Before the first request has ended, the estimate is the claim's input.
func (q *Queue) estimate(c *Claim, a *account) Estimate {
	if !q.config.Learn {
		return Estimate{Input: c.Cost}
	}
	own := &q.learned
	if a != nil && a.learned.output.n+a.learned.input.n > 0 {
		own = &a.learned
	}
	e := Estimate{Input: c.Cost, Output: own.output.value * c.Outputs}
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

// recordCharge records the total charge of a request that has ended.
func (q *Queue) recordCharge(a *account, used float64) {
	if q.config.Learn && used > 0 {
		q.learned.charged.add(used)
		a.learned.charged.add(used)
	}
}

// setEstimate estimates the item's cost.
func (q *Queue) setEstimate(it *Item, a *account) {
	it.estimate = q.estimate(&it.Claim, a)
	it.cost = it.estimate.sum()
}

// Learn records what a request has cost, for later estimates; NaN is what is not known. It is called before
// [Queue.Finish], and only for requests that were not cut short.
func (q *Queue) Learn(r *Running, used Estimate) {
	if !q.config.Learn {
		return
	}
	q.learned.learn(r, used)
	r.flow.account.learned.learn(r, used)
}

// Charge raises what a running request is charged to used, so that use beyond the estimate counts before the request
// ends. It is O(log n) in the accounts waiting.
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

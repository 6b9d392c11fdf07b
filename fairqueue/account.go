package fairqueue

import "strings"

// account is the state of one account: its share and cap, what it holds, and its flow in each band.
type account struct {
	name    string
	weight  float64
	ownCap  int // its own cap; 0: none
	held    [boundCount]int64
	running int // requests, of all flows
	learned learned
	flows   [bandCount]flow

	idle               bool     // it is in the idle list
	idlePrev, idleNext *account // its neighbours in that list

	hold mean // how long its requests hold a slot, relative to all requests; measured only while its cap is below Slots
}

// account returns the state of c's account with the weight and the cap of the claim. It creates the account if need be.
func (q *Queue) account(c *Claim) *account {
	if a := q.lookup(c); a != nil {
		return a
	}
	return q.newAccount(c)
}

// lookup is account without creating one: it returns nil for an account that is not known.
func (q *Queue) lookup(c *Claim) *account {
	a := q.latest
	if a == nil || a.name != c.Account {
		a = q.accounts[c.Account]
		q.latest = a
	}
	if a != nil && (a.weight != c.Weight || a.ownCap != c.Concurrent) {
		q.update(a, c)
	}
	return a
}

func (q *Queue) newAccount(c *Claim) *account {
	// The name is cloned since it may be a part of a longer text, such as that of a token.
	a := &account{name: strings.Clone(c.Account), weight: c.Weight, ownCap: c.Concurrent}
	for i := range a.flows {
		a.flows[i] = flow{account: a, band: &q.bands[i]}
	}
	q.accounts[a.name] = a
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
	a.weight, a.ownCap = c.Weight, c.Concurrent
	q.reindex(a)
}

// heldPerWeight is how much of a bound a holds for its weight.
func (a *account) heldPerWeight(b bound) float64 { return float64(a.held[b]) / a.weight }

// reindex brings all heaps in line after anything about a changed. A flow that becomes backlogged by it is activated.
func (q *Queue) reindex(a *account) {
	capped := q.atCap(a)
	for i := range a.flows {
		if f := &a.flows[i]; f.head != nil || f.at != [placeCount]int32{} {
			q.reindexFlow(f, capped)
		}
	}
}

func (q *Queue) reindexFlow(f *flow, capped bool) {
	backlogged := f.head != nil && !capped
	if backlogged && !f.band.order.has(f) {
		q.activate(f)
	}
	put(&f.band.order, f, backlogged)
	put(&f.band.ages, f, backlogged)
	for i := range f.band.held {
		put(&f.band.held[i], f, f.newest != nil)
	}
}

// put adds f to h, moves it to where it belongs, or removes it.
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

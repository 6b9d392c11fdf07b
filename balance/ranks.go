package balance

import (
	"math"
	"slices"
)

// ranks is what choices compare of the endpoints: only that, side by side, so that many are compared fast.
type ranks struct {
	shares []float64 // of an endpoint with a free slot: of its slots, by weight, what is taken with one more request; never: it has none
	least  []float64 // of a group: at most the least of its shares
	low    float64   // at most the least of all shares
	rooms  []float64 // the part of the slots that is free with one more request, without weights; nil: Score is not the policy
	open   bitset    // endpoints with a free slot
	up     bitset    // endpoints that are up; nil: the policy does not go by a ring
	loads  []float64 // likewise, as is the next
	sizes  []float64

	// changed counts, of a group, what may have made an endpoint of it a better choice, for bounds that hold only until then.
	changed []uint64 // from 1 on
	faster  []uint64 // the same, but for loads
}

// never is greater than any share.
var never = math.Inf(1)

func newRanks(endpoints int) ranks {
	r := ranks{
		shares:  make([]float64, endpoints),
		least:   make([]float64, groupsOf(endpoints)),
		low:     never,
		open:    newBitset(endpoints),
		changed: slices.Repeat([]uint64{1}, groupsOf(endpoints)),
		faster:  slices.Repeat([]uint64{1}, groupsOf(endpoints)),
	}
	for i := range r.shares {
		r.shares[i] = never
	}
	for i := range r.least {
		r.least[i] = never
	}
	return r
}

// rank notes how busy an endpoint is after a change of it.
func (b *Balancer) rank(at int) {
	e, share := &b.endpoints[at], never
	if e.Free > 0 {
		// Quotients that differ do so by more than a float loses, as long as a load times the size of another endpoint is below 2^52.
		share = float64(e.Load+1) / float64(e.size())
	}
	if b.ranks.rooms != nil {
		b.ranks.rooms[at] = max(0, 1-float64(e.Load+1)/float64(e.Slots+1))
	}
	if b.ranks.up != nil {
		b.ranks.up.set(at, e.Up)
		b.ranks.loads[at], b.ranks.sizes[at] = float64(e.Load), float64(e.size())
	}
	was := b.ranks.shares[at]
	if share == was {
		return
	}
	b.ranks.shares[at] = share
	if share == never || was == never {
		b.ranks.open.set(at, share != never)
		b.openWeighted(at, share != never)
	}
	if share < was {
		g := at / groupSize
		if share < b.ranks.least[g] {
			b.ranks.least[g] = share
		}
		if share < b.ranks.low {
			b.ranks.low = share
		}
		b.ranks.changed[g]++
		if was == never {
			b.ranks.faster[g]++
		}
		b.adapters.lessShare(at, share)
	}
}

// fit prepares what the policy compares of the endpoints, and ranks them.
func (b *Balancer) fit() {
	n := len(b.endpoints)
	b.ranks = newRanks(n)
	b.settleWeighted()
	b.fitWeighted()
	b.fitAdapters()
	b.costs, b.lowest, b.scores, b.marks = [latencyClasses][]latencyBound{}, [latencyClasses][]latencyBound{}, [latencyClasses][]scoreBound{}, nil
	b.fastest = [latencyClasses]int{}
	switch b.config.Policy {
	case LeastLatency:
		for class := range b.costs {
			b.costs[class] = make([]latencyBound, groupsOf(n))
		}
	case Score:
		b.ranks.rooms, b.marks, b.most = make([]float64, n), make([]uint64, n), make([]float64, groupsOf(n))
		for class := range b.scores {
			b.lowest[class], b.scores[class] = make([]latencyBound, groupsOf(n)), make([]scoreBound, groupsOf(n))
		}
	}
	if b.config.UsesRing() {
		b.ranks.up, b.ranks.loads, b.ranks.sizes = newBitset(n), make([]float64, n), make([]float64, n)
	}
	for at := range b.endpoints {
		b.rank(at)
	}
}

package balance

import (
	"math"
	"slices"
)

// maxLooked is how many endpoints that only name an adapter are compared.
const maxLooked = 32

// chooseAdapter returns an endpoint that has the adapter and room for it, the one with the most requests for it pending: so it stays where
// it is. If there is none, it returns the endpoint with the fewest adapters.
func (b *Balancer) chooseAdapter(r *Request, barred []bool) Choice {
	if r == nil || r.Adapter == "" {
		return b.chooseLeastLoaded(barred)
	}
	var best, busy *place
	if a := b.adapters.byName[r.Adapter]; a != nil {
		b.adapters.refresh(a)
		if b.totals.open > 0 {
			best = b.bestLoaded(a, true, barred)
		}
		if best == nil {
			best, busy = b.bestListed(a.places[a.loaded:], b.bestLoaded(a, false, barred), barred)
		}
	}
	c := Choice{Prefers: None, Why: Adapter}
	if best == nil {
		if c.At = b.fewestAdapters(barred); c.At != None && b.endpoints[c.At].adapters.places[r.Adapter] == nil {
			c.Why = AdapterNew
		}
	} else {
		c.At = best.of.at
	}
	if busy != nil && (best == nil || busy.loaded && !best.loaded) {
		c.Prefers = busy.of.at
	}
	return c
}

// bestLoaded returns the best place that has the adapter in memory and room for a further request: of those with a free slot, or of those
// without.
func (b *Balancer) bestLoaded(a *adapter, open bool, barred []bool) *place {
	best, most, full := None, uint64(0), uint64(max(b.config.AdapterPending, 1))<<usedBits
	ranks := a.ranks[:a.loaded]
	for n := range len(ranks) + 1 {
		i := n - 1
		if n == 0 { // most likely the best again, and then all others are passed over fast
			i = min(a.latest, len(ranks)-1)
		}
		if i < 0 || ranks[i].rank < most || ranks[i].rank >= full {
			continue
		}
		at := int(ranks[i].at)
		if at == None || b.ranks.open.has(at) != open || barred != nil && barred[at] || !open && !b.endpoints[at].Up {
			continue
		}
		if best == None || ranks[i].rank > most || b.fewerAdapters(at, int(ranks[best].at)) {
			best, most = i, ranks[i].rank
		}
	}
	if best == None {
		return nil
	}
	a.latest = best
	return a.places[best]
}

// bestListed returns the best place that only names the adapter: of those with a free slot, and of those without one, of which busy is the best so far. They may be all
// endpoints for each of many adapters, so it looks at a few of them, beginning elsewhere each time, and at further ones only while it has
// found none.
func (b *Balancer) bestListed(places []*place, busy *place, barred []bool) (best, busiest *place) {
	if len(places) <= maxLooked {
		return b.bestPlace(places, busy, barred)
	}
	start := int(b.adapters.grants % uint64(len(places)))
	for _, part := range [...][]*place{places[start:], places[:start]} {
		for len(part) > 0 && best == nil {
			n := min(len(part), maxLooked)
			best, busy = b.bestPlace(part[:n], busy, barred)
			part = part[n:]
		}
	}
	return best, busy
}

// bestPlace is bestListed for a few places.
func (b *Balancer) bestPlace(places []*place, busy *place, barred []bool) (best, busiest *place) {
	for _, p := range places {
		at := p.of.at
		switch {
		case at == None:
		case b.open(at, barred):
			if best == nil || b.fewerAdapters(at, best.of.at) {
				best = p
			}
		case b.endpoints[at].Up && (barred == nil || !barred[at]):
			if busy == nil || !busy.loaded && b.fewerAdapters(at, busy.of.at) {
				busy = p
			}
		}
	}
	return best, busy
}

// adapterBound is a lower bound of the open endpoints in a group: the fewest adapters in memory, and of those with as few, the least share as in ranks.
type adapterBound struct {
	loaded int32
	share  float64
}

func (a adapterBound) less(other adapterBound) bool {
	return a.loaded < other.loaded || a.loaded == other.loaded && a.share < other.share
}

// noAdapterBound is that of a group without an open endpoint.
var noAdapterBound = adapterBound{math.MaxInt32, never}

func (b *Balancer) fitAdapters() {
	b.adapters.bounds = nil
	if b.config.Policy == AdapterAffinity {
		b.adapters.bounds = slices.Repeat([]adapterBound{noAdapterBound}, groupsOf(len(b.endpoints)))
	}
}

// lessShare notes that an endpoint has a smaller share than before.
func (a *adapters) lessShare(at int, share float64) {
	if a.bounds == nil {
		return
	}
	if bound := &a.bounds[at/groupSize]; (adapterBound{a.loaded[at], share}).less(*bound) {
		*bound = adapterBound{a.loaded[at], share}
	}
}

// fewestAdapters returns the open endpoint with the fewest adapters in memory, the least loaded of several.
func (b *Balancer) fewestAdapters(barred []bool) int {
	best, fewest, bounds, t := None, noAdapterBound, b.adapters.bounds, b.turn()
	for k := 0; k <= t.groups; k++ {
		g := t.group(k)
		if t.whole(k) && !bounds[g].less(fewest) {
			continue
		}
		from, to := t.span(k, g)
		low := noAdapterBound
		for at := from; at < to; at++ {
			has := adapterBound{b.adapters.loaded[at], b.ranks.shares[at]}
			if has.share == never {
				continue
			}
			if has.less(low) {
				low = has
			}
			if has.less(fewest) && (barred == nil || !barred[at]) {
				best, fewest = at, has
			}
		}
		if t.whole(k) {
			bounds[g] = low
		}
	}
	return best
}

func (b *Balancer) fewerAdapters(at, other int) bool {
	if n, of := b.adapters.loaded[at], b.adapters.loaded[other]; n != of {
		return n < of
	}
	return b.endpoints[at].lessLoaded(&b.endpoints[other])
}

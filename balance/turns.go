package balance

import "math/bits"

// chooseTurn returns the next endpoint that is open.
func (b *Balancer) chooseTurn(barred []bool) Choice {
	t := b.turn()
	at := b.ranks.open.next(t.next, t.n, barred)
	if at == None {
		at = b.ranks.open.next(0, t.next, barred)
	}
	if at == None {
		return Choice{At: None, Prefers: None}
	}
	return Choice{At: at, Prefers: None, Why: Turn}
}

// next returns the first endpoint of the set from one up to another that is not barred.
func (s bitset) next(from, to int, barred []bool) int {
	for from < to {
		word := s[from>>6] >> (from & 63)
		if word == 0 {
			from = (from | 63) + 1
			continue
		}
		if from += bits.TrailingZeros64(word); from < to && (barred == nil || !barred[from]) {
			return from
		}
		from++
	}
	return None
}

// chooseLeastLoaded returns the endpoint that is open and would be least loaded with one more request.
func (b *Balancer) chooseLeastLoaded(barred []bool) Choice {
	best, least, r, t := None, never, &b.ranks, b.turn()
	if b.totals.open > 0 && r.shares[t.next] <= r.low && (barred == nil || !barred[t.next]) {
		return Choice{At: t.next, Prefers: None, Why: Load} // as a rule while few slots are taken: none has a lesser share
	}
	for k := 0; k <= t.groups; k++ {
		g := t.group(k)
		if t.whole(k) && r.least[g] >= least {
			continue
		}
		from, to := t.span(k, g)
		low := never
		for i, share := range r.shares[from:to] {
			if share < low {
				low = share
			}
			if share < least && (barred == nil || !barred[from+i]) {
				best, least = from+i, share
			}
		}
		if t.whole(k) {
			r.least[g] = low
		}
	}
	if barred == nil {
		r.low = least
	}
	return Choice{At: best, Prefers: None, Why: Load}
}

// from returns the index of the endpoint that comes i after the one that is next.
func (b *Balancer) from(i int) int {
	at := b.next + i
	if n := len(b.endpoints); at >= n {
		at -= n
	}
	return at
}

// lessLoaded reports whether one more request would load e less than it would load other.
func (e *endpoint) lessLoaded(other *endpoint) bool {
	return (e.Load+1)*other.Slots*other.Weight < (other.Load+1)*e.Slots*e.Weight
}

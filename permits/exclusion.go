package permits

import (
	"slices"
	"time"
)

// Exclusion is a set of endpoints that certain requests must not get, such as those without a model. It is made once, for many requests. It
// is immutable; nil excludes nothing.
type Exclusion struct {
	ids map[string]struct{}
	key uint64 // equal sets have equal keys
}

// NewExclusion returns the set of the endpoints with these IDs; nil if there are none.
func NewExclusion(ids []string) *Exclusion {
	if len(ids) == 0 {
		return nil
	}
	x := &Exclusion{ids: make(map[string]struct{}, len(ids))}
	for _, id := range ids {
		if _, twice := x.ids[id]; !twice {
			x.ids[id] = struct{}{}
			x.key += hashOf(id)
		}
	}
	return x
}

// Has reports whether the endpoint with this ID is excluded.
func (x *Exclusion) Has(id string) bool {
	if x == nil {
		return false
	}
	_, has := x.ids[id]
	return has
}

// IDs returns the IDs, sorted.
func (x *Exclusion) IDs() []string {
	if x == nil {
		return nil
	}
	ids := make([]string, 0, len(x.ids))
	for id := range x.ids {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// hashOf is FNV-1a (G. Fowler, L. C. Noll, P. Vo) and the finalizer of SplitMix64 (G. Steele, D. Lea, C. Flood). Sums over two sets differ unless
// the sets are the same, but for accidents; without the finalizer, those of {e0, e3} and {e1, e2} are the same.
func hashOf(id string) uint64 {
	hash := uint64(14695981039346656037)
	for i := range len(id) {
		hash = (hash ^ uint64(id[i])) * 1099511628211
	}
	hash = (hash ^ hash>>30) * 0xbf58476d1ce4e5b9
	hash = (hash ^ hash>>27) * 0x94d049bb133111eb
	return hash ^ hash>>31
}

// Exclusions are the sets of endpoints that a request must not get: that of its model, that of its path, that of engines which never have
// the path, and that of endpoints outside of the fleet. The zero value excludes nothing.
type Exclusions [4]*Exclusion

// Has reports whether the endpoint with this ID is in one of the sets.
func (x *Exclusions) Has(id string) bool {
	return x[0].Has(id) || x[1].Has(id) || x[2].Has(id) || x[3].Has(id)
}

// none compares one by one, since a comparison of arrays is a call.
func (x *Exclusions) none() bool { return x[0] == nil && x[1] == nil && x[2] == nil && x[3] == nil }

func (x *Exclusions) key() (key uint64) {
	for _, set := range x {
		if set != nil {
			key = key*31 + set.key
		}
	}
	return key
}

// restricted is what waits, and what is expected to come back, of requests that the same endpoints may serve.
type restricted struct {
	waiting int
	retries pendingRetries
}

// restrictedLocked returns what is known of the requests with the same exclusions; nil if that is nothing.
func (p *Pool) restrictedLocked(x *Exclusions) *restricted {
	if x.none() {
		return nil
	}
	return p.restricted[x.key()]
}

// restrictLocked is restrictedLocked, and makes what is missing; nil only for a request that every endpoint may serve.
func (p *Pool) restrictLocked(now time.Duration, x *Exclusions) *restricted {
	if x.none() {
		return nil
	}
	if known := p.restrictedLocked(x); known != nil {
		return known
	}
	for key, r := range p.restricted {
		if r.waiting == 0 && r.retries.due(now) == 0 {
			delete(p.restricted, key)
		}
	}
	if p.restricted == nil {
		p.restricted = map[uint64]*restricted{}
	}
	made := &restricted{}
	p.restricted[x.key()] = made
	return made
}

// waitingAlikeLocked returns how many requests wait that the same endpoints may serve.
func (p *Pool) waitingAlikeLocked(x *Exclusions) int {
	if r := p.restrictedLocked(x); r != nil {
		return r.waiting
	}
	return 0
}

// waitsLocked counts a request that begins or ends to wait.
func (p *Pool) waitsLocked(w *waiter, by int) {
	if r := p.restrictLocked(w.at, &w.excluded); r != nil {
		r.waiting += by
	}
}

// drainSlotsForLocked is drainSlotsLocked of the endpoints that may serve a request.
func (p *Pool) drainSlotsForLocked(x *Exclusions) int {
	limit, responsive, excluded := 0, 0, p.excludedLocked(x)
	for i, e := range p.order {
		if excluded[i] {
			continue
		}
		limit += e.limit()
		if !e.doubtful {
			responsive += e.limit()
		}
	}
	if responsive > 0 {
		return responsive
	}
	return limit
}

// untilServedLocked returns how long it takes until one more request is served, with so many ahead of it, and whether that is known. Of a
// request that only some endpoints may serve, what is ahead drains through all slots, but the alike of it, which only the same endpoints may
// serve, drain through theirs, and so does the request itself. Whichever takes longer counts.
func (p *Pool) untilServedLocked(now time.Duration, x *Exclusions, ahead float64, alike int) (time.Duration, bool) {
	rate := p.rateLocked(now)
	if rate == 0 {
		return 0, false
	}
	if x.none() {
		return seconds((ahead + 1) / rate), true
	}
	own := p.holds.rate(now, p.fullSince, p.drainSlotsForLocked(x))
	if own == 0 {
		return 0, false
	}
	return seconds(max(ahead/rate, min(ahead, float64(alike))/own) + 1/own), true
}

// untilRetryLocked returns how long it takes to serve what is ahead of one more request, requests waiting and pending retries, and whether
// there are slots at all.
func (p *Pool) untilRetryLocked(now time.Duration, a *arrival) (time.Duration, bool) {
	rate := p.estimatedRateLocked(now, p.drainSlotsLocked())
	if rate == 0 {
		return 0, false
	}
	ahead := p.queue.Ahead(a.claim)
	after := (ahead + p.retriesAheadLocked(now, a.claim)) / rate
	if r := p.restrictedLocked(&a.excluded); r != nil {
		if own := p.estimatedRateLocked(now, p.drainSlotsForLocked(&a.excluded)); own > 0 {
			after = max(after, (min(ahead, float64(r.waiting))+r.retries.due(now).clients())/own)
		}
	}
	return seconds(after), true
}

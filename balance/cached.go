package balance

// chooseCached returns the endpoint within its load bound that has most of the prompt, by Config.Cached; of equals, the least loaded.
func (b *Balancer) chooseCached(r *Request, barred []bool) Choice {
	best, prefers, bestCached, mostCached := None, None, -1, 0
	limit := b.bound()
	for i := range b.endpoints {
		at := b.from(i)
		e := &b.endpoints[at]
		if !e.Up || barred != nil && barred[at] || !e.within(limit, 0) {
			continue
		}
		cached := b.config.Cached(e.ID, r)
		if e.Free <= 0 {
			if cached > mostCached {
				prefers, mostCached = at, cached
			}
			continue
		}
		if cached > bestCached || cached == bestCached && e.lessLoaded(&b.endpoints[best]) {
			best, bestCached = at, cached
		}
	}
	switch {
	case best == None:
		return b.chooseLeastLoaded(barred)
	case mostCached <= bestCached:
		prefers = None
	}
	return Choice{At: best, Prefers: prefers, Why: Load}
}

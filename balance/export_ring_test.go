package balance

// WalkRing is the choice of an endpoint for a key by a walk that meets each point of the ring until one of them is chosen.
func (b *Balancer) WalkRing(key uint64, barred []bool) Choice {
	r, limit := &b.ring, b.bound()
	home, fallback, prefers := None, None, None
	start := 0
	if len(r.points) > 0 {
		start = r.find(mix(key))
	}
	for i := range r.points {
		at := int(r.points[(start+i)%len(r.points)].at)
		e := &b.endpoints[at]
		if !e.Up || barred != nil && barred[at] {
			continue
		}
		if home == None {
			home = at
		}
		switch {
		case e.Free > 0 && e.within(limit, 0):
			if at == home {
				return Choice{At: at, Prefers: prefers, Why: Ring}
			}
			return Choice{At: at, Prefers: prefers, Why: RingNext}
		case e.Free > 0 && fallback == None:
			fallback = at
		case e.Free <= 0 && prefers == None && e.within(limit, 1):
			prefers = at
		}
	}
	if fallback == None {
		return Choice{At: None, Prefers: None}
	}
	return Choice{At: fallback, Prefers: prefers, Why: RingFull}
}

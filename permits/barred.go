package permits

// barred has the endpoints that requests must not get, by their indexes, as lists that are made once for many requests.
type barred struct {
	excluded map[Exclusions][]bool
	now      []bool // of a request that also avoids some; until the next
}

// maxBarred is how many lists are kept: models without certain endpoints are few.
const maxBarred = 64

// barredLocked returns the endpoints that a request must not get; nil: it may get all. The list is valid until the next choice for
// another request that avoids some.
func (p *Pool) barredLocked(avoid []string, excluded *Exclusions) []bool {
	var list []bool
	if !excluded.none() {
		list = p.excludedLocked(excluded)
	}
	if len(avoid) == 0 {
		return list
	}
	b := &p.barred
	if len(b.now) != len(p.order) {
		b.now = make([]bool, len(p.order))
	}
	if clear(b.now); list != nil {
		copy(b.now, list)
	}
	for _, id := range avoid {
		if e := p.endpoints[id]; e != nil && e.index != noIndex {
			b.now[e.index] = true
		}
	}
	return b.now
}

func (p *Pool) excludedLocked(excluded *Exclusions) []bool {
	b := &p.barred
	if list, known := b.excluded[*excluded]; known {
		return list
	}
	list := make([]bool, len(p.order))
	for i, e := range p.order {
		list[i] = excluded.Has(e.ID)
	}
	if b.excluded == nil || len(b.excluded) >= maxBarred {
		b.excluded = map[Exclusions][]bool{}
	}
	b.excluded[*excluded] = list
	return list
}

package permits

// barred has the endpoints that requests must not get, by their indexes, as lists that are made once for many requests.
type barred struct {
	excluded map[uint64][]bool // by the key of the exclusions, since sets of models are often made anew
	now      []bool            // of a request that also avoids some; until the next
}

// Lists are kept up to a mebibyte in all: each has a byte for each endpoint, and about listOverhead around it. So 900 adapters,
// each at other endpoints, have their lists at once in a pool of 1000 endpoints, and 7000 in one of 20.
const (
	maxBarredBytes = 1 << 20
	listOverhead   = 128
)

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
	b, key := &p.barred, excluded.key()
	if list, known := b.excluded[key]; known {
		return list
	}
	list := make([]bool, len(p.order))
	for i, e := range p.order {
		list[i] = excluded.Has(e.ID)
	}
	if b.excluded == nil || len(b.excluded) >= maxBarredBytes/(listOverhead+len(list)) {
		b.excluded = map[uint64][]bool{}
	}
	b.excluded[key] = list
	return list
}

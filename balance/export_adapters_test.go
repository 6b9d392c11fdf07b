package balance

import "fmt"

// CheckAdapters compares the pending requests with those that pending returns, and checks the bounds and the order of the places.
func (b *Balancer) CheckAdapters(pending func(id, adapter string) int) error {
	for i := range b.endpoints {
		l, loaded, busy := b.endpoints[i].learned, 0, 0
		for name, p := range l.adapters.places {
			if want := pending(l.id, name); p.pending != want {
				return fmt.Errorf("%d requests for %s pending at %s, counted %d", want, name, l.id, p.pending)
			}
			if a := b.adapters.byName[name]; a != p.adapter || a.places[p.index] != p || p.loaded != (p.index < a.loaded) || !p.loaded && !p.listed {
				return fmt.Errorf("%s at %s is in the wrong place: %+v", name, l.id, p)
			}
			if r := p.adapter.ranks[p.index]; r.rank>>usedBits != uint64(p.pending) || r.rank<<pendingBits>>pendingBits != p.used {
				return fmt.Errorf("%s at %s has the rank %x: %+v", name, l.id, r.rank, p)
			}
			if p.loaded {
				loaded++
			}
			if p.pending > 0 {
				busy++
			}
		}
		if loaded != l.adapters.loaded || loaded != int(b.adapters.loaded[i]) || loaded > max(maxLoaded, busy) {
			return fmt.Errorf("%s has %d adapters loaded, counted %d", l.id, loaded, l.adapters.loaded)
		}
	}
	return nil
}

// GoneWithAdapters returns how many endpoints that are gone are remembered.
func (b *Balancer) GoneWithAdapters() int { return len(b.adapters.gone) }

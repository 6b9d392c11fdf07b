package admission

import (
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/permits"
)

// settleEvery is how often slots that another pool still holds are looked at.
const settleEvery = 50 * time.Millisecond

// resettle hands on slots that another pool has let go.
func (d *Desk) resettle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.settling {
		d.settleLocked()
	}
}

// settleLocked gives every pool its endpoints, each with the slots that no other pool still holds on it.
//
// What a pool holds on an endpoint can grow until the endpoint is taken from it. So that comes first, for all pools, and
// whoever gets an endpoint gets it with no slot free; only then is it counted what is held.
func (d *Desk) settleLocked() {
	placed := d.placedLocked()
	for _, p := range d.pools {
		endpoints := placed[p]
		p.endpoints.Store(&endpoints)
		taken := map[string]int{}
		for _, e := range p.permits.Snapshot().Endpoints {
			if !e.Removed {
				taken[e.ID] = e.Taken
			}
		}
		p.setEndpoints(endpoints, func(url string) int {
			if n, ok := taken[url]; ok {
				return n
			}
			return endpoints[url].Concurrency
		})
		for url := range endpoints {
			p.permits.SetUsable(url, d.engines[url].health.usable())
		}
	}
	held := d.heldLocked()
	d.settling = false
	for _, p := range d.pools {
		p.setEndpoints(placed[p], func(url string) int {
			others := 0
			for holder, n := range held[url] {
				if holder != p {
					others += n
				}
			}
			d.settling = d.settling || others > 0
			return others
		})
	}
}

// placedLocked returns the endpoints of every pool, by URL.
func (d *Desk) placedLocked() map[*Pool]map[string]*fleet.Endpoint {
	placed := map[*Pool]map[string]*fleet.Endpoint{}
	for url, e := range d.engines {
		if e.pool == nil {
			continue
		}
		if placed[e.pool] == nil {
			placed[e.pool] = map[string]*fleet.Endpoint{}
		}
		placed[e.pool][url] = e.endpoint
	}
	return placed
}

// heldLocked returns how many permits each pool holds on each URL.
func (d *Desk) heldLocked() map[string]map[*Pool]int {
	held := map[string]map[*Pool]int{}
	for _, p := range d.pools {
		for _, e := range p.permits.Snapshot().Endpoints {
			if e.Held == 0 {
				continue
			}
			if held[e.ID] == nil {
				held[e.ID] = map[*Pool]int{}
			}
			held[e.ID][p] = e.Held
		}
	}
	return held
}

// setEndpoints tells the permits about the pool's endpoints, and how many slots of each others have taken.
func (p *Pool) setEndpoints(endpoints map[string]*fleet.Endpoint, taken func(url string) int) {
	list := make([]permits.Endpoint, 0, len(endpoints))
	for url, e := range endpoints {
		list = append(list, permits.Endpoint{ID: url, Concurrency: e.Concurrency, Taken: taken(url), Weight: e.Weight})
	}
	slices.SortFunc(list, func(a, b permits.Endpoint) int { return strings.Compare(a.ID, b.ID) })
	p.permits.SetEndpoints(list)
}

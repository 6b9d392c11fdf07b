package fleet

import (
	"cmp"
	"maps"
	"slices"
)

// EndpointIndex has the endpoints of each colo. It is immutable; build one with [EndpointIndexBuilder].
type EndpointIndex struct {
	colos map[string]coloEndpoints
}

// coloEndpoints are the endpoints of a colo. Tables share those of a colo in which nothing has changed.
type coloEndpoints struct {
	all       []*Endpoint            // sorted by ID
	byPool    map[string][]*Endpoint // each sorted by ID
	conflicts []Conflict

	claiming []*Endpoint // as they were given, in the order in which they claim their URLs
	places   []int       // of claiming in all; -1 = another one has the URL
}

// NewEndpointIndex returns an index of these endpoints. Of several in a colo with one URL, the first has it.
func NewEndpointIndex(endpoints []*Endpoint) EndpointIndex {
	byColo := map[string][]*Endpoint{}
	for _, e := range endpoints {
		byColo[e.Colo] = append(byColo[e.Colo], e)
	}
	var b EndpointIndexBuilder
	for colo, endpoints := range byColo {
		b.Replace(colo, endpoints)
	}
	return b.Index()
}

// EndpointIndexBuilder builds one [EndpointIndex] after another. They share the colos that do not change between them. The zero value is an
// empty index. It is not safe for concurrent use.
type EndpointIndexBuilder struct {
	colos  map[string]coloEndpoints
	shared bool // an earlier index has the map, too; it is copied before it is changed
}

// Clone returns a builder of the same endpoints. The two share them until one is changed.
func (b *EndpointIndexBuilder) Clone() EndpointIndexBuilder {
	b.shared = true
	return *b
}

// Replace replaces the endpoints of a colo. Of several with one URL, the first has it, and the others are left out: the slots would be granted twice.
func (b *EndpointIndexBuilder) Replace(colo string, endpoints []*Endpoint) {
	if b.shared || b.colos == nil {
		b.colos = maps.Clone(b.colos)
		b.shared = false
	}
	if len(endpoints) == 0 {
		delete(b.colos, colo)
		return
	}
	if b.colos == nil {
		b.colos = map[string]coloEndpoints{}
	}
	last := b.colos[colo]
	b.colos[colo] = last.with(endpoints)
}

// Index returns the index as it is now.
func (b *EndpointIndexBuilder) Index() EndpointIndex {
	b.shared = true
	return EndpointIndex{b.colos}
}

// with returns the endpoints of a colo after a change. Endpoints with the same IDs and URLs as before keep their places.
func (c *coloEndpoints) with(endpoints []*Endpoint) coloEndpoints {
	if !slices.EqualFunc(c.claiming, endpoints, func(a, b *Endpoint) bool { return a == b || a.ID == b.ID && a.URL == b.URL }) {
		return newColoEndpoints(endpoints)
	}
	next := coloEndpoints{all: make([]*Endpoint, len(c.all)), conflicts: c.conflicts, claiming: endpoints, places: c.places}
	for i, e := range endpoints {
		if place := c.places[i]; place >= 0 {
			next.all[place] = e
		}
	}
	next.fillPools(len(c.byPool))
	return next
}

func newColoEndpoints(endpoints []*Endpoint) coloEndpoints {
	c := coloEndpoints{all: make([]*Endpoint, 0, len(endpoints)), claiming: endpoints, places: make([]int, len(endpoints))}
	byURL := make(map[string]*Endpoint, len(endpoints))
	for i, e := range endpoints {
		if first, taken := byURL[e.URL]; taken {
			c.conflicts = append(c.conflicts, Conflict{
				What: ConflictURL, Value: e.URL, Winner: KindEndpoint.Key(e.Colo, first.ID), Loser: KindEndpoint.Key(e.Colo, e.ID),
			})
			c.places[i] = -1
			continue
		}
		byURL[e.URL] = e
		c.all = append(c.all, e)
	}
	slices.SortFunc(c.all, func(a, b *Endpoint) int { return cmp.Compare(a.ID, b.ID) })
	places := make(map[*Endpoint]int, len(c.all))
	for place, e := range c.all {
		places[e] = place
	}
	for i, e := range endpoints {
		if c.places[i] == 0 {
			c.places[i] = places[e]
		}
	}
	c.fillPools(0)
	return c
}

// fillPools sets byPool, of about so many pools. Its lists are parts of one.
func (c *coloEndpoints) fillPools(pools int) {
	c.byPool = make(map[string][]*Endpoint, pools)
	sizes := make(map[string]int, pools)
	for _, e := range c.all {
		sizes[e.Pool]++
	}
	rest := make([]*Endpoint, len(c.all))
	for _, e := range c.all {
		list, there := c.byPool[e.Pool]
		if !there {
			size := sizes[e.Pool]
			list, rest = rest[:0:size], rest[size:]
		}
		c.byPool[e.Pool] = append(list, e)
	}
}

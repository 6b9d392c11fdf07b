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
	b.colos[colo] = newColoEndpoints(endpoints)
}

// Index returns the index as it is now.
func (b *EndpointIndexBuilder) Index() EndpointIndex {
	b.shared = true
	return EndpointIndex{b.colos}
}

func newColoEndpoints(endpoints []*Endpoint) coloEndpoints {
	c := coloEndpoints{all: make([]*Endpoint, 0, len(endpoints)), byPool: map[string][]*Endpoint{}}
	byURL := make(map[string]*Endpoint, len(endpoints))
	for _, e := range endpoints {
		if first, taken := byURL[e.URL]; taken {
			c.conflicts = append(c.conflicts, Conflict{
				What: ConflictURL, Value: e.URL, Winner: KindEndpoint.Key(e.Colo, first.ID), Loser: KindEndpoint.Key(e.Colo, e.ID),
			})
			continue
		}
		byURL[e.URL] = e
		c.all = append(c.all, e)
	}
	slices.SortFunc(c.all, func(a, b *Endpoint) int { return cmp.Compare(a.ID, b.ID) })
	for _, e := range c.all {
		c.byPool[e.Pool] = append(c.byPool[e.Pool], e)
	}
	return c
}

package colo

import (
	"maps"
	"testing"

	"colonnade/permits"
)

// A server that is a home before the engines are its own does not register that the pool has no slots: entries would refuse its requests, and
// status would say that its engines are down.
func TestSlotsAreNotKnownWhileEnginesAreWithheld(t *testing.T) {
	t.Parallel()
	withheld, own := permits.EndpointStats{Withheld: true}, permits.EndpointStats{}
	pool := func(name string, limit int, endpoints ...permits.EndpointStats) permits.Stats {
		return permits.Stats{Pool: name, Limit: limit, Endpoints: endpoints}
	}
	for _, c := range []struct {
		name  string
		pools []permits.Stats
		want  map[string]int // nil = not known
	}{
		{"engines of its own", []permits.Stats{pool("a", 4, own)}, map[string]int{"a": 4}},
		{"engines that are down", []permits.Stats{pool("a", 0, own)}, map[string]int{"a": 0}},
		{"withheld", []permits.Stats{pool("a", 0, withheld, own)}, nil},
		{"withheld beside another pool", []permits.Stats{pool("a", 4, own), pool("b", 0, withheld)}, nil},
		{"withheld in part", []permits.Stats{pool("a", 4, own, withheld)}, map[string]int{"a": 4}},
		{"withheld by the home of the pool", []permits.Stats{pool("a", 4, own), pool("elsewhere", 0, withheld)}, map[string]int{"a": 4}},
	} {
		slots, known := slotsOf(c.pools, func(pool string) bool { return pool != "elsewhere" })
		if known != (c.want != nil) || !maps.Equal(slots, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, slots, known, c.want)
		}
	}
}

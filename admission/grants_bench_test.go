package admission_test

import (
	"fmt"
	"maps"
	"testing"

	"colonnade/homes"
)

// newShares returns the shares of a thousand engines in a hundred pools, and the documents.
func newShares() (engines map[string]homes.Share, yaml string) {
	engines = map[string]homes.Share{}
	for i := range 1000 {
		id := fmt.Sprint("e", i)
		engines["http://"+id+":8000"] = homes.Share{}
		yaml += "---\n" + endpoints(fmt.Sprint("p", i%100), 8, id)
	}
	return engines, yaml[len("---\n"):]
}

// BenchmarkSetGrants changes what other servers hold on one of a thousand engines.
func BenchmarkSetGrants(b *testing.B) {
	engines, yaml := newShares()
	s := newScenario(b)
	s.put(yaml)
	var all [2]*homes.Grants
	for i := range all {
		engines["http://e7:8000"] = homes.Share{Taken: i}
		all[i] = &homes.Grants{Engines: maps.Clone(engines)}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.SetGrants(all[i%2])
	}
}

// BenchmarkSetAllGrants ends all grants on a thousand engines, and begins them again.
func BenchmarkSetAllGrants(b *testing.B) {
	engines, yaml := newShares()
	s := newScenario(b)
	s.put(yaml)
	all := [2]*homes.Grants{{}, {Engines: engines}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.SetGrants(all[i%2])
	}
}

// Package homes says which colo server is the home of a pool: the one that alone grants its permits.
//
// Every node computes it from its own table by rendezvous hashing (Thaler and Ravishankar 1998), so entries and servers
// agree without asking, and a server that joins or leaves moves only the pools that are its own.
//
// For now one server is the home of every pool of its colo, since a colo has one server.
package homes

import (
	"cmp"
	"hash/fnv"
	"slices"

	"colonnade/fleet"
)

// Home returns the server that grants pool's permits, among the live servers of one colo; or false if none is active.
func Home(pool string, servers []*fleet.Server) (*fleet.Server, bool) {
	ranked := Rank(pool, servers)
	if len(ranked) == 0 {
		return nil, false
	}
	return ranked[0], true
}

// Rank returns the active servers in pool's rendezvous order: the home, and then who would follow it.
func Rank(pool string, servers []*fleet.Server) []*fleet.Server {
	ranked := make([]*fleet.Server, 0, len(servers))
	for _, s := range servers {
		if s.State == fleet.StateActive {
			ranked = append(ranked, s)
		}
	}
	if len(ranked) < 2 {
		return ranked
	}
	slices.SortFunc(ranked, func(a, b *fleet.Server) int {
		if c := cmp.Compare(score(pool, b.Node), score(pool, a.Node)); c != 0 {
			return c
		}
		return cmp.Compare(a.Node, b.Node)
	})
	return ranked
}

// score is the weight of node for pool.
func score(pool, node string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(pool))
	h.Write([]byte{0})
	h.Write([]byte(node))
	// FNV leaves the high bits of short, similar names alike; this finalizer (of MurmurHash3) spreads them.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}

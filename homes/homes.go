// Package homes computes which colo server is the home of a pool: the only server that grants the pool's permits.
//
// Each node computes homes from its own table by rendezvous hashing (Thaler and Ravishankar 1998). So entries and servers
// agree without communication, and a server that joins or leaves a colo moves no pools but its own.
//
// In this version a colo has one server, which is the home of all pools there.
package homes

import (
	"cmp"
	"hash/fnv"
	"slices"

	"colonnade/fleet"
)

// Home returns the server that grants the permits of pool, of the live servers of one colo; false if none is active.
func Home(pool string, servers []*fleet.Server) (*fleet.Server, bool) {
	ranked := Rank(pool, servers)
	if len(ranked) == 0 {
		return nil, false
	}
	return ranked[0], true
}

// Rank returns the active servers in the rendezvous order of pool: the home first, then its successors.
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

// score returns the weight of node for pool.
func score(pool, node string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(pool))
	h.Write([]byte{0})
	h.Write([]byte(node))
	// FNV leaves the high bits of short, similar names equal; this finalizer, of MurmurHash3, spreads them.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}

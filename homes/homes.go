package homes

import (
	"hash/fnv"
	"slices"

	"colonnade/fleet"
)

// Home returns the server that grants the permits of pool, of the registered servers of one colo; false if none is active.
func Home(pool string, servers []*fleet.Server) (*fleet.Server, bool) {
	var home *fleet.Server
	for _, s := range servers {
		if s.State == fleet.StateActive && (home == nil || before(pool, s, home)) {
			home = s
		}
	}
	return home, home != nil
}

// Owner returns the server that owns the engines of pool, of the registered servers of one colo: its home, or the first of the servers if
// all drain. It returns nil if there are no servers.
func Owner(pool string, servers []*fleet.Server) *fleet.Server {
	owner, _ := Home(pool, servers)
	if owner != nil {
		return owner
	}
	for _, s := range servers {
		if owner == nil || before(pool, s, owner) {
			owner = s
		}
	}
	return owner
}

// Rank returns the active servers in the rendezvous order of pool: the home first, then those that would take over, in turn.
func Rank(pool string, servers []*fleet.Server) []*fleet.Server {
	ranked := make([]*fleet.Server, 0, len(servers))
	for _, s := range servers {
		if s.State == fleet.StateActive {
			ranked = append(ranked, s)
		}
	}
	slices.SortFunc(ranked, func(a, b *fleet.Server) int {
		switch {
		case a == b:
			return 0
		case before(pool, a, b):
			return -1
		}
		return 1
	})
	return ranked
}

// before reports whether a comes before b in the order of pool. A server of an older version knows no homes and grants on every engine, so
// it comes first.
func before(pool string, a, b *fleet.Server) bool {
	if aOld, bOld := isOld(a), isOld(b); aOld != bOld {
		return aOld
	}
	if x, y := score(pool, a.Node), score(pool, b.Node); x != y {
		return x > y
	}
	return a.Node < b.Node
}

// isOld reports whether a server has a version that cannot share its colo with other servers.
func isOld(s *fleet.Server) bool { return s.Protocol.Max < SharingProtocol }

// SharingProtocol is the first protocol between nodes in which servers share a colo.
const SharingProtocol = 3

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

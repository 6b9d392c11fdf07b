package balance

import (
	"hash/fnv"
	"math/bits"
	"slices"
)

const (
	ringPoints    = 100     // of an endpoint, times its weight
	maxRingPoints = 1 << 17 // of all; beyond it, each endpoint has half as many, until they are fewer
)

// ring is a ring of consistent hashing: each endpoint has several points on it, and a key belongs to the first point at or after the key's
// hash. Where the points of an endpoint are depends only on its ID, so those of others stay where they are when it comes or goes.
type ring struct {
	points []point
	starts []uint32 // for each value of the leading bits of a hash: index of the first point at or after it
	shift  int      // of a hash, which leaves those bits
	seen   []uint64 // by endpoint: the walk that has met it last
	walks  uint64
	of     []Endpoint
}

// BuiltRing is a ring that was built ahead; see [Balancer.OfferRing].
type BuiltRing struct{ ring ring }

// NewRing builds the ring of endpoints. Of many it takes milliseconds: a pool has it built before it takes its mutex.
func NewRing(list []Endpoint) *BuiltRing { return &BuiltRing{newRing(list)} }

// OfferRing gives a ring for the endpoints that SetEndpoints sets next, or a policy that Configure sets next. If it is of others, it is not
// used.
func (b *Balancer) OfferRing(r *BuiltRing) { b.offered = r }

// LacksRing reports whether a ring of these endpoints would have to be built for them.
func (b *Balancer) LacksRing(c *Config, list []Endpoint) bool {
	return c.UsesRing() && !b.ring.isOf(list)
}

// isOf reports whether a ring is that of these endpoints.
func (r *ring) isOf(list []Endpoint) bool {
	return r.points != nil && slices.EqualFunc(r.of, list, func(e, other Endpoint) bool { return e.ID == other.ID && e.Weight == other.Weight })
}

type point struct {
	hash uint64
	at   int32 // index of the endpoint
}

// UsesRing reports whether the policy goes by the ring.
func (c *Config) UsesRing() bool {
	return c.Policy == ConsistentHash || c.Policy == PrefixAffinity && c.ByRing
}

// fitRing makes the ring that of the endpoints if the policy needs one, and drops what it does not need.
func (b *Balancer) fitRing() {
	offered := b.offered
	b.offered = nil
	if !b.config.UsesRing() {
		b.ring = ring{}
		return
	}
	list := make([]Endpoint, len(b.endpoints))
	for i := range b.endpoints {
		list[i] = b.endpoints[i].Endpoint
	}
	switch {
	case b.ring.isOf(list):
	case offered != nil && offered.ring.isOf(list):
		b.ring = offered.ring
	default:
		b.ring = newRing(list)
	}
}

// newRing returns the ring of the endpoints. It sorts by buckets, since hashes are spread evenly: a tenth of the time of a sort by comparisons.
func newRing(endpoints []Endpoint) ring {
	if len(endpoints) == 0 {
		return ring{}
	}
	halvings, total := 0, totalPoints(endpoints, 0)
	for ; total > maxRingPoints && total > len(endpoints); total = totalPoints(endpoints, halvings) {
		halvings++
	}
	width := bits.Len(uint(total)) // of the bits that choose the bucket: at most one point in each, on average
	r := ring{points: make([]point, total), starts: make([]uint32, 1<<width+1), shift: 64 - width, seen: make([]uint64, len(endpoints)), of: endpoints}
	unsorted := r.scatter(endpoints, halvings)
	for i := 1; i < len(r.starts); i++ {
		r.starts[i] += r.starts[i-1]
	}
	for _, p := range unsorted { // the end of each bucket moves to its beginning, while it fills up
		end := &r.starts[p.hash>>r.shift]
		*end--
		r.points[*end] = p
	}
	r.sortBuckets(endpoints)
	return r
}

// scatter returns the points of all endpoints, and counts them in starts by their leading bits.
func (r *ring) scatter(endpoints []Endpoint, halvings int) []point {
	points := make([]point, 0, len(r.points))
	for at := range endpoints {
		id := hashID(endpoints[at].ID)
		for i := range pointsOf(&endpoints[at], halvings) {
			p := point{hash: mix(id + uint64(i)*golden), at: int32(at)}
			r.starts[p.hash>>r.shift]++
			points = append(points, p)
		}
	}
	return points
}

// sortBuckets sorts the points of each bucket by insertion: buckets are short. Of points with the same hash, the ID decides.
func (r *ring) sortBuckets(endpoints []Endpoint) {
	after := func(p, q point) bool {
		return p.hash > q.hash || p.hash == q.hash && endpoints[p.at].ID > endpoints[q.at].ID
	}
	for i := 1; i < len(r.points); i++ {
		p, j := r.points[i], i
		for ; j > 0 && after(r.points[j-1], p); j-- {
			r.points[j] = r.points[j-1]
		}
		r.points[j] = p
	}
}

func totalPoints(endpoints []Endpoint, halvings int) (total int) {
	for at := range endpoints {
		total += pointsOf(&endpoints[at], halvings)
	}
	return total
}

func pointsOf(e *Endpoint, halvings int) int { return max(e.Weight*ringPoints>>halvings, 1) }

// chooseRing returns the first endpoint on the ring from a key that is open and within its bound. Endpoints that are not up are passed
// over, so the keys of an endpoint come back to it. Consistent hashing with bounded loads: Mirrokni, Thorup, Zadimoghaddam 2016.
func (b *Balancer) chooseRing(key uint64, barred []bool) Choice {
	r := &b.ring
	if len(r.points) == 0 || b.totals.open == 0 {
		return Choice{At: None, Prefers: None}
	}
	r.walks++
	limit := b.bound()
	home, fallback, prefers := None, None, None // the first that is up; that is open; that is within its bound, and full
	open, left, steps := b.totals.open, len(b.endpoints), 0
	for i := r.find(mix(key)); left > 0 && (open > 0 || prefers == None); i++ {
		if i == len(r.points) {
			i = 0
		}
		if steps++; isLong(steps) && !b.ringHasMore(limit, barred, fallback, prefers) {
			break
		}
		at := int(r.points[i].at)
		e := &b.endpoints[at]
		if e.Free <= 0 && prefers != None || r.seen[at] == r.walks {
			continue // the first of these: nearly all, while all are busy
		}
		r.seen[at] = r.walks
		left--
		if e.Free > 0 {
			open--
		}
		if !e.Up || barred != nil && barred[at] {
			continue
		}
		if home == None {
			home = at
		}
		if e.Free <= 0 {
			if limit.admits(e.Load-1, e.size()) { // a request that waits for it takes the place of one that ends
				prefers = at
			}
			continue
		}
		if fallback == None {
			fallback = at
		}
		if limit.admits(e.Load, e.size()) {
			return Choice{At: at, Prefers: prefers, Why: ringReason(at == home)}
		}
	}
	if fallback == None {
		return Choice{At: None, Prefers: None}
	}
	return Choice{At: fallback, Prefers: prefers, Why: RingFull}
}

// isLong reports whether a walk of so many points asks whether it can find anything more: after 512, before which most are over, and each
// time that it has doubled.
func isLong(steps int) bool { return steps >= 512 && steps&(steps-1) == 0 }

// ringHasMore reports whether an endpoint is left that a walk would take, or name, and has not met: else it would go on to the end.
func (b *Balancer) ringHasMore(limit bound, barred []bool, fallback, prefers int) bool {
	for at := range b.endpoints {
		e := &b.endpoints[at]
		if !e.Up || b.ring.seen[at] == b.ring.walks || barred != nil && barred[at] {
			continue
		}
		if e.Free > 0 && (fallback == None || limit.admits(e.Load, e.size())) || e.Free <= 0 && prefers == None && limit.admits(e.Load-1, e.size()) {
			return true
		}
	}
	return false
}

// key returns the key of a request, 0 for one of which nothing is known.
func (r *Request) key() uint64 {
	if r == nil {
		return 0
	}
	return r.Key
}

// prefix returns the prefix of a request, 0 for one of which nothing is known.
func (r *Request) prefix() uint64 {
	if r == nil {
		return 0
	}
	return r.Prefix
}

func ringReason(home bool) Why {
	if home {
		return Ring
	}
	return RingNext
}

// find returns the index of the first point at or after a hash; len(r.points) if the first of all comes next.
func (r *ring) find(hash uint64) int {
	bucket := hash >> r.shift
	i, end := int(r.starts[bucket]), int(r.starts[bucket+1])
	for i < end && r.points[i].hash < hash {
		i++
	}
	return i
}

// golden is 2^64 divided by the golden ratio: multiples of it are far apart.
const golden = 0x9e3779b97f4a7c15

// mix spreads the bits of x over all bits of a hash (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashID returns a hash of an endpoint's ID that is the same on all servers, of all versions.
func hashID(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return mix(h.Sum64())
}

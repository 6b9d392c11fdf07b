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
	own    []int32  // the indexes of the points of each endpoint, one endpoint after the other
	first  []int32  // of each endpoint, and of the end: index of its first in own
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
	r := ring{points: make([]point, total), starts: make([]uint32, 1<<width+1), shift: 64 - width, of: endpoints}
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
	r.listOwn(len(endpoints))
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

// listOwn lists the points of each endpoint in their order.
func (r *ring) listOwn(endpoints int) {
	r.own, r.first = make([]int32, len(r.points)), make([]int32, endpoints+1)
	for _, p := range r.points {
		r.first[p.at+1]++
	}
	for at := range endpoints {
		r.first[at+1] += r.first[at]
	}
	next := slices.Clone(r.first)
	for i, p := range r.points {
		r.own[next[p.at]] = int32(i)
		next[p.at]++
	}
}

func totalPoints(endpoints []Endpoint, halvings int) (total int) {
	for at := range endpoints {
		total += pointsOf(&endpoints[at], halvings)
	}
	return total
}

func pointsOf(e *Endpoint, halvings int) int { return max(e.Weight*ringPoints>>halvings, 1) }

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

package routing

import (
	"math/bits"
	"slices"
)

// sorter sorts keys that are spread over their range in about linear time, and any others as [slices.Sort] does. It puts the keys
// into buckets of equal width, which leaves them nearly sorted, and then sorts by insertion. Its zero value is ready.
type sorter struct {
	ends   [buckets + 1]uint32 // ends[i+1] is where bucket i ends
	sorted []key
}

const (
	bucketBits = 9
	buckets    = 1 << bucketBits
	fewKeys    = 32 // are sorted by insertion alone
	mostMoves  = 8  // for each key; many keys of one bucket need more
)

// sort returns the keys sorted. They are in the argument, or in memory of the sorter that the next call overwrites.
func (s *sorter) sort(keys []key) []key {
	if len(keys) > fewKeys {
		keys = s.spread(keys)
	}
	if !insertionSort(keys, mostMoves*len(keys)) {
		slices.Sort(keys)
	}
	return keys
}

// spread returns the keys in the order of their buckets.
func (s *sorter) spread(keys []key) []key {
	least, most := keys[0], keys[0]
	for _, k := range keys {
		least, most = min(least, k), max(most, k)
	}
	shift := max(bits.Len64(uint64(most-least))-bucketBits, 0)
	clear(s.ends[:])
	for _, k := range keys {
		s.ends[(k-least)>>shift+1]++
	}
	sum := uint32(0)
	for i := range s.ends {
		sum += s.ends[i]
		s.ends[i] = sum // where bucket i begins, for now
	}
	s.sorted = slices.Grow(s.sorted[:0], len(keys))[:len(keys)]
	for _, k := range keys {
		bucket := (k - least) >> shift
		s.sorted[s.ends[bucket]] = k
		s.ends[bucket]++
	}
	return s.sorted
}

// insertionSort sorts keys. It gives up and returns false after so many moves.
func insertionSort(keys []key, moves int) bool {
	for i := 1; i < len(keys); i++ {
		k, at := keys[i], i
		for ; at > 0 && keys[at-1] > k; at-- {
			keys[at] = keys[at-1]
		}
		keys[at] = k
		if moves -= i - at; moves < 0 {
			return false
		}
	}
	return true
}

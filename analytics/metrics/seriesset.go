package metrics

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// seriesSet holds the series of each key, made once, so that to count an event takes one lookup in an immutable map and no lock.
type seriesSet[K comparable, V any] struct {
	create func(K) V
	remove func(K)

	all atomic.Pointer[map[K]*keptSeries[V]] // replaced, never changed

	mu sync.Mutex // held while the map is replaced; guards keptSeries.idleSince
}

// keptSeries are the series of one key.
type keptSeries[V any] struct {
	series    V
	used      atomic.Bool // since the last prune
	idleSince time.Time   // zero: not idle when it was last looked at
}

func newSeriesSet[K comparable, V any](create func(K) V, remove func(K)) *seriesSet[K, V] {
	s := &seriesSet[K, V]{create: create, remove: remove}
	s.all.Store(&map[K]*keptSeries[V]{})
	return s
}

// find returns the series of a key that has some, and notes that they are about to be written.
func (s *seriesSet[K, V]) find(key K) (series V, found bool) {
	kept, found := (*s.all.Load())[key]
	if !found {
		return series, false
	}
	if !kept.used.Load() {
		kept.used.Store(true)
	}
	return kept.series, true
}

// of returns the series of a key, and makes them if there are none.
func (s *seriesSet[K, V]) of(key K) V {
	series, found := s.find(key)
	if !found {
		series, _ = s.add(key, 0)
	}
	return series
}

// forget removes the series of keys without a call of remove.
func (s *seriesSet[K, V]) forget(of func(K) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := maps.Clone(*s.all.Load())
	maps.DeleteFunc(left, func(key K, _ *keptSeries[V]) bool { return of(key) })
	s.all.Store(&left)
}

// add returns the series of a key, and makes them if there is room for one more key; limit 0 is no limit. Without room it takes no lock.
func (s *seriesSet[K, V]) add(key K, limit int) (series V, found bool) {
	if limit > 0 && len(*s.all.Load()) >= limit {
		return series, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.all.Load()
	if kept, found := old[key]; found {
		return kept.series, true
	}
	if limit > 0 && len(old) >= limit {
		return series, false
	}
	kept := &keptSeries[V]{series: s.create(key)}
	kept.used.Store(true)
	grown := maps.Clone(old)
	grown[key] = kept
	s.all.Store(&grown)
	return kept.series, true
}

// prune removes the series of keys that were not used, and not needed, for a time.
func (s *seriesSet[K, V]) prune(now time.Time, after time.Duration, needed func(K) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.all.Load()
	var left map[K]*keptSeries[V]
	for key, kept := range old {
		switch used := kept.used.Swap(false); {
		case needed(key):
			kept.idleSince = time.Time{}
		case used || kept.idleSince.IsZero():
			kept.idleSince = now
		case now.Sub(kept.idleSince) >= after:
			if left == nil {
				left = maps.Clone(old)
			}
			delete(left, key)
			s.remove(key)
		}
	}
	if left != nil {
		s.all.Store(&left)
	}
}

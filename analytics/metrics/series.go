package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// staleAfter is how long series stay after the table has lost the name in their label, so that scrapers see the final
// counts.
const staleAfter = time.Hour

// namedSeries collects metrics with a label that holds a name of the fleet table. It removes the series of a name that
// the table has not had, and that no request has used, for staleAfter.
type namedSeries struct {
	label   string
	exists  func(name string) bool // whether the table in force has the name
	vecs    []*prometheus.MetricVec
	removed []func(name string) // called when the series of a name were removed

	mu      sync.Mutex           // guards the field below
	missing map[string]time.Time // by name with series: since when the table lacks it; zero: it had it when last looked at
}

func newNamedSeries(label string, exists func(name string) bool, vecs ...*prometheus.MetricVec) *namedSeries {
	return &namedSeries{label: label, exists: exists, vecs: vecs, missing: map[string]time.Time{}}
}

// use notes that series of the name are about to be written, which restarts its time. It comes before the write.
func (s *namedSeries) use(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since, known := s.missing[name]; !known || !since.IsZero() {
		s.missing[name] = time.Time{}
	}
}

// cached returns a set of series whose keys have a name in the label. A lookup in it takes the place of one in each vector. The user of a series
// calls use before.
func cached[K comparable, V any](s *namedSeries, name func(K) string, create func(K) V) *seriesSet[K, V] {
	set := newSeriesSet(create, func(K) {})
	s.removed = append(s.removed, func(removed string) { set.forget(func(key K) bool { return name(key) == removed }) })
	return set
}

// Describe implements prometheus.Collector.
func (s *namedSeries) Describe(out chan<- *prometheus.Desc) {
	for _, v := range s.vecs {
		v.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (s *namedSeries) Collect(out chan<- prometheus.Metric) {
	s.prune(time.Now())
	for _, v := range s.vecs {
		v.Collect(out)
	}
}

func (s *namedSeries) prune(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, since := range s.missing {
		switch {
		case s.exists(name):
			s.missing[name] = time.Time{}
		case since.IsZero():
			s.missing[name] = now
		case now.Sub(since) >= staleAfter:
			delete(s.missing, name)
			for _, v := range s.vecs {
				v.DeletePartialMatch(prometheus.Labels{s.label: name})
			}
			for _, removed := range s.removed {
				removed(name)
			}
		}
	}
}

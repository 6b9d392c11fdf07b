package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// ModelState is one model at an entry as it stands.
type ModelState struct {
	Model  string
	Active int // requests in hand
}

// EntryMetrics are the metrics of an entry.
type Entry struct {
	requestMetrics
	failures *prometheus.CounterVec
	retries  prometheus.Counter
	refusals *prometheus.CounterVec
	reasons  reasons
}

// NewEntryMetrics registers an entry's metrics. models is called at each scrape.
func NewEntry(reg prometheus.Registerer, models func() []ModelState) *Entry {
	m := &Entry{
		requestMetrics: newRequestMetrics(reg),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colonnade_forward_failures_total", Help: "Forwards that a colo neither served nor refused.",
		}, []string{"colo"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "colonnade_retries_total", Help: "Attempts after an error before the first byte.",
		}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colonnade_refusals_total", Help: "Requests refused, by reason.",
		}, []string{"reason"}),
	}
	active := prometheus.NewDesc("inference_active_requests", "Requests in hand.", []string{"model"}, nil)
	reg.MustRegister(m.failures, m.retries, m.refusals, stateCollector{
		descs: []*prometheus.Desc{active},
		collect: func(out chan<- prometheus.Metric) {
			for _, s := range models() {
				out <- gauge(active, float64(s.Active), s.Model)
			}
		},
	})
	return m
}

// ForwardFailure counts a forward to a colo that failed without a verdict.
func (m *Entry) ForwardFailure(colo string) { m.failures.WithLabelValues(colo).Inc() }

// Retried counts an attempt after the first.
func (m *Entry) Retried() { m.retries.Inc() }

const (
	mostReasons   = 64 // told apart
	longestReason = 40
	otherReason   = "other"
)

// Refused counts a refusal. reason is one of ours, never a client's text; but it may come from a colo server, of
// another version or worse, so its length and the number of different ones are bounded.
func (m *Entry) Refused(reason string) {
	m.refusals.WithLabelValues(m.reasons.bounded(reason)).Inc()
}

// reasons are those that have been seen.
type reasons struct {
	mu   sync.Mutex // guards the field below
	seen map[string]bool
}

func (r *reasons) bounded(reason string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.seen[reason]:
		return reason
	case len(r.seen) >= mostReasons, !isReason(reason):
		return otherReason
	case r.seen == nil:
		r.seen = map[string]bool{}
	}
	r.seen[strings.Clone(reason)] = true
	return reason
}

// isReason says whether a text is a word of the sort that reasons are: small letters and underscores.
func isReason(s string) bool {
	other := func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') }
	return s != "" && len(s) <= longestReason && strings.IndexFunc(s, other) < 0
}

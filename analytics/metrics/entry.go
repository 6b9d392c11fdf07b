package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"colonnade/analytics"
	"colonnade/fleet"
)

// ModelState is the state of one model at an entry.
type ModelState struct {
	Model  string
	Active int // requests in flight
}

// Entry has the metrics of an entry.
type Entry struct {
	requestMetrics
	colos          *namedSeries
	failures       *prometheus.CounterVec
	retries        prometheus.Counter
	refusals       *prometheus.CounterVec
	reasons        reasonSet
	accounts       *accounts
	refusedByEntry *prometheus.CounterVec
	usageEstimated *prometheus.CounterVec
	promptRefused  *prometheus.CounterVec
}

// NewEntry registers an entry's metrics, with those of at most so many single accounts. table and models are called at each scrape.
func NewEntry(reg Registerer, table func() *fleet.Table, models func() []ModelState, maxAccounts int) *Entry {
	refusedByEntry := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "colonnade_refusals_by_entry_total",
		Help: "Requests that this entry refused without asking a colo: all colos had refused more than ten of the account and model within a second.",
	}, []string{"model"})
	usageEstimated := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "colonnade_limits_usage_estimated_total",
		Help: "Answers without a usage report that count against a limit of tokens or a budget by an estimate.",
	}, []string{"model"})
	promptRefused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "colonnade_prompts_refused_total",
		Help: "Prompts that the model's prompt_filter did not accept.",
	}, []string{"model"})
	m := &Entry{
		promptRefused:  promptRefused,
		accounts:       newEntryAccounts(reg, maxAccounts),
		refusedByEntry: refusedByEntry,
		usageEstimated: usageEstimated,
		requestMetrics: newRequestMetrics(reg, table, refusedByEntry.MetricVec, usageEstimated.MetricVec, promptRefused.MetricVec),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colonnade_forward_failures_total",
			Help: "Requests forwarded to a colo that came back without an answer or a verdict of its server.",
		}, []string{"colo"}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "colonnade_retries_total",
			Help: "Further attempts of this entry after an error before the engine's first byte.",
		}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colonnade_refusals_total",
			Help: "Refused client requests by reason: those answered with an error of our own. A connection over a limit counts as one.",
		}, []string{"reason"}),
	}
	m.colos = newNamedSeries("colo", func(name string) bool {
		_, ok := table().Colo(name)
		return ok
	}, m.failures.MetricVec)
	active := newDesc("inference_active_requests", "Client requests in flight, waiting or running.", "model")
	reg.MustRegister(m.colos, m.retries, m.refusals, stateCollector{
		descs: []*prometheus.Desc{active},
		collect: func(out chan<- prometheus.Metric) {
			for _, s := range models() {
				out <- gauge(active, float64(s.Active), s.Model)
			}
		},
	})
	return m
}

// Finished counts a final event.
func (m *Entry) Finished(e *analytics.Event) {
	m.requestMetrics.Finished(e)
	m.accounts.finished(e)
}

// ForwardFailure counts a request forwarded to a colo that failed without a verdict.
func (m *Entry) ForwardFailure(colo string) {
	m.colos.use(colo)
	m.failures.WithLabelValues(colo).Inc()
}

// RefusedByEntry counts a request that was refused without asking a colo.
func (m *Entry) RefusedByEntry(model string) {
	m.series.use(model)
	m.refusedByEntry.WithLabelValues(model).Inc()
}

// UsageEstimated counts an answer without usage that counts against limits by an estimate.
func (m *Entry) UsageEstimated(model string) {
	m.series.use(model)
	m.usageEstimated.WithLabelValues(model).Inc()
}

// PromptRefused counts a prompt that a model's filter did not accept.
func (m *Entry) PromptRefused(model string) {
	m.series.use(model)
	m.promptRefused.WithLabelValues(model).Inc()
}

// Retried counts an attempt after the first.
func (m *Entry) Retried() { m.retries.Inc() }

const (
	maxReasons      = 64 // different label values
	maxReasonLength = 40 // bytes
	otherReason     = "other"
)

// Refused counts a refusal. A reason is one of ours and never text of a client; but it may come from a colo server of
// another version, so its length and the number of different ones are bounded.
func (m *Entry) Refused(reason string) {
	m.refusals.WithLabelValues(m.reasons.bounded(reason)).Inc()
}

// reasonSet holds the reasons that have been counted.
type reasonSet struct {
	mu   sync.Mutex // guards the field below
	seen map[string]bool
}

func (r *reasonSet) bounded(reason string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.seen[reason]:
		return reason
	case len(r.seen) >= maxReasons, !isReason(reason):
		return otherReason
	case r.seen == nil:
		r.seen = map[string]bool{}
	}
	r.seen[strings.Clone(reason)] = true
	return reason
}

// isReason reports whether a text has the form of a reason: lower-case letters and underscores.
func isReason(s string) bool {
	other := func(c rune) bool { return c != '_' && (c < 'a' || c > 'z') }
	return s != "" && len(s) <= maxReasonLength && strings.IndexFunc(s, other) < 0
}

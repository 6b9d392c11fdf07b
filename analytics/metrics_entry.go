package analytics

import "github.com/prometheus/client_golang/prometheus"

// ModelState is one model at an entry as it stands.
type ModelState struct {
	Model  string
	Active int // requests in hand
}

// EntryMetrics are the metrics of an entry.
type EntryMetrics struct {
	requestMetrics
	failures *prometheus.CounterVec
	retries  prometheus.Counter
	refusals *prometheus.CounterVec
}

// NewEntryMetrics registers an entry's metrics. models is called at each scrape.
func NewEntryMetrics(reg prometheus.Registerer, models func() []ModelState) *EntryMetrics {
	m := &EntryMetrics{
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
func (m *EntryMetrics) ForwardFailure(colo string) { m.failures.WithLabelValues(colo).Inc() }

// Retried counts an attempt after the first.
func (m *EntryMetrics) Retried() { m.retries.Inc() }

// Refused counts a refusal. reason is one of ours, never a client's text.
func (m *EntryMetrics) Refused(reason string) { m.refusals.WithLabelValues(reason).Inc() }

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"colonnade/analytics"
)

// Registry holds the metrics of one node. Each node of a process has its own.
type Registry = prometheus.Registry

// NewRegistry returns a registry with the Go runtime's and the process's metrics.
func NewRegistry() *Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

// unknownModel is the label of requests for a model that the table does not have.
const unknownModel = "unknown"

// modelLabel never lets a client's text become a label.
func modelLabel(e *analytics.Event) string {
	if e.Pool == "" {
		return unknownModel
	}
	return e.Model
}

// requestMetrics are fed from final events, at entries and colos alike.
type requestMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	ttft     *prometheus.HistogramVec
	tokens   *prometheus.CounterVec
}

func newRequestMetrics(reg prometheus.Registerer) requestMetrics {
	m := requestMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inference_requests_total", Help: "Requests that ended, by outcome.",
		}, []string{"model", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "inference_request_duration_seconds", Help: "Time from arrival to the end of the response.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 16), // 10 ms to 5.5 min
		}, []string{"model"}),
		ttft: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "inference_time_to_first_token_seconds", Help: "Time from arrival to the engine's first byte.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 15), // 5 ms to 82 s
		}, []string{"model"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inference_tokens_total", Help: "Tokens, as engines reported them; estimated: deltas of answers without a report.",
		}, []string{"model", "type"}),
	}
	reg.MustRegister(m.requests, m.duration, m.ttft, m.tokens)
	return m
}

// Finished counts a final event.
func (m *requestMetrics) Finished(e *analytics.Event) {
	model := modelLabel(e)
	m.requests.WithLabelValues(model, string(e.Outcome)).Inc()
	if e.Outcome == analytics.OutcomeRefused {
		return // a refusal takes no time worth a histogram, and a storm of them would hide the others
	}
	m.duration.WithLabelValues(model).Observe(e.RequestTime.Std().Seconds())
	if e.TimeToFirstToken > 0 {
		m.ttft.WithLabelValues(model).Observe(e.TimeToFirstToken.Std().Seconds())
	}
	m.countTokens(model, "prompt", e.PromptTokens)
	m.countTokens(model, "completion", e.CompletionTokens)
	m.countTokens(model, "cached", e.CachedTokens)
	m.countTokens(model, "estimated", e.TokensEstimated)
}

func (m *requestMetrics) countTokens(model, kind string, n int) {
	if n > 0 {
		m.tokens.WithLabelValues(model, kind).Add(float64(n))
	}
}

// stateCollector reads a state when it is scraped.
type stateCollector struct {
	descs   []*prometheus.Desc
	collect func(chan<- prometheus.Metric)
}

func (c stateCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

func (c stateCollector) Collect(out chan<- prometheus.Metric) { c.collect(out) }

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func counter(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

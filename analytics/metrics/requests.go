package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"colonnade/analytics"
	"colonnade/fleet"
)

// unknownModel is the label of requests for a model that the table does not have.
const unknownModel = "unknown"

// modelLabel returns the event's model if it is of the table: text of a client never becomes a label.
func modelLabel(e *analytics.Event) string {
	if e.Pool == "" {
		return unknownModel
	}
	return e.Model
}

// requestMetrics are fed from final events, at entries and colos alike.
type requestMetrics struct {
	series   *namedSeries
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	ttft     *prometheus.HistogramVec
}

// newRequestMetrics registers them, and further metrics with the label model.
func newRequestMetrics(reg Registerer, table func() *fleet.Table, further ...*prometheus.MetricVec) requestMetrics {
	m := requestMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "inference_requests_total",
			Help: "Finished requests by outcome: at an entry all client requests but successful lists of models, at a colo one for each granted permit.",
		}, []string{"model", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "inference_request_duration_seconds",
			Help:    "Seconds from a request's arrival at this node to the end of its response; refused requests are left out.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 16), // 10 ms to 5.5 min
		}, []string{"model"}),
		ttft: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "inference_time_to_first_token_seconds",
			Help:    "Seconds from a request's arrival at this node to the first byte of the engine's answer.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 15), // 5 ms to 82 s
		}, []string{"model"}),
	}
	exists := func(name string) bool {
		_, ok := table().Model(name)
		return ok || name == unknownModel
	}
	m.series = newNamedSeries("model", exists, append(further, m.requests.MetricVec, m.duration.MetricVec, m.ttft.MetricVec)...)
	reg.MustRegister(m.series)
	return m
}

// Finished counts a final event.
func (m *requestMetrics) Finished(e *analytics.Event) {
	model := modelLabel(e)
	m.series.use(model)
	m.requests.WithLabelValues(model, string(e.Outcome)).Inc()
	if e.Outcome == analytics.OutcomeRefused {
		return // a refusal takes next to no time, and a storm of refusals would hide the other requests
	}
	m.duration.WithLabelValues(model).Observe(e.RequestTime.Std().Seconds())
	if e.TimeToFirstToken > 0 {
		m.ttft.WithLabelValues(model).Observe(e.TimeToFirstToken.Std().Seconds())
	}
}

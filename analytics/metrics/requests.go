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
	finished *seriesSet[finishedKind, finishedSeries]
}

// finishedKind is what final events have in common that are counted in the same series.
type finishedKind struct {
	model   string // the label
	outcome analytics.Outcome
	ttft    bool // the time to the first token is known
}

// finishedSeries are the series of one kind of final events; nil where the kind is not counted.
type finishedSeries struct {
	requests prometheus.Counter
	duration prometheus.Observer
	ttft     prometheus.Observer
}

// newRequestMetrics registers them, and further metrics with the label model.
func newRequestMetrics(reg Registerer, table func() *fleet.Table, further ...*prometheus.MetricVec) requestMetrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "inference_requests_total",
		Help: "Finished requests by outcome: at an entry all client requests but successful lists of models, at a colo one for each granted permit.",
	}, []string{"model", "outcome"})
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "inference_request_duration_seconds",
		Help:    "Seconds from a request's arrival at this node to the end of its response; refused requests are left out.",
		Buckets: prometheus.ExponentialBuckets(0.01, 2, 16), // 10 ms to 5.5 min
	}, []string{"model"})
	ttft := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "inference_time_to_first_token_seconds",
		Help:    "Seconds from a request's arrival at this node to the first byte of the engine's answer.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2, 15), // 5 ms to 82 s
	}, []string{"model"})
	exists := func(name string) bool {
		_, ok := table().Model(name)
		return ok || name == unknownModel
	}
	series := newNamedSeries("model", exists, append(further, requests.MetricVec, duration.MetricVec, ttft.MetricVec)...)
	reg.MustRegister(series)
	create := func(kind finishedKind) (s finishedSeries) {
		s.requests = requests.WithLabelValues(kind.model, string(kind.outcome))
		if kind.outcome == analytics.OutcomeRefused {
			return s // a refusal takes next to no time, and a storm of refusals would hide the other requests
		}
		s.duration = duration.WithLabelValues(kind.model)
		if kind.ttft {
			s.ttft = ttft.WithLabelValues(kind.model)
		}
		return s
	}
	return requestMetrics{series: series, finished: cached(series, func(kind finishedKind) string { return kind.model }, create)}
}

// Finished counts a final event.
func (m *requestMetrics) Finished(e *analytics.Event) {
	model := modelLabel(e)
	m.series.use(model)
	s := m.finished.of(finishedKind{model, e.Outcome, e.TimeToFirstToken > 0})
	s.requests.Inc()
	if s.duration != nil {
		s.duration.Observe(e.RequestTime.Std().Seconds())
	}
	if s.ttft != nil {
		s.ttft.Observe(e.TimeToFirstToken.Std().Seconds())
	}
}

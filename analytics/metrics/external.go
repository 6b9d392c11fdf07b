package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"colonnade/analytics"
	"colonnade/fleet"
)

// external has the metrics of endpoints that others operate: what goes there leaves the fleet, and usually costs money.
type external struct {
	series   *namedSeries
	requests *prometheus.CounterVec
	tokens   *prometheus.CounterVec
}

func newExternal(reg Registerer, table func() *fleet.Table) external {
	m := external{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colonnade_external_requests_total",
			Help: "Finished requests of endpoints with external: true, by outcome: one for each granted permit.",
		}, []string{"colo", "endpoint", "outcome"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "colonnade_external_tokens_total",
			Help: "Tokens of endpoints with external: true, by type as in inference_tokens_total.",
		}, []string{"colo", "endpoint", "type"}),
	}
	m.series = newNamedSeries("endpoint", func(id string) bool {
		t := table()
		return slices.ContainsFunc(t.Colos(), func(c *fleet.Colo) bool {
			return slices.ContainsFunc(t.EndpointsOf(c.Name), func(e *fleet.Endpoint) bool { return e.ID == id })
		})
	}, m.requests.MetricVec, m.tokens.MetricVec)
	reg.MustRegister(m.series)
	return m
}

// finished counts a final event.
func (m *external) finished(e *analytics.Event) {
	if !e.ExternalEndpoint {
		return
	}
	m.series.use(e.Endpoint)
	m.requests.WithLabelValues(e.ColoID, e.Endpoint, string(e.Outcome)).Inc()
	eachTokenCount(e, func(kind string, n int) { m.tokens.WithLabelValues(e.ColoID, e.Endpoint, kind).Add(float64(n)) })
}

package metrics

import "github.com/prometheus/client_golang/prometheus"

// Spans are counts of spans of requests.
type Spans struct {
	Exported uint64 // the collector has taken them
	Dropped  uint64 // since there was no room for them
	Failed   uint64 // the collector has not taken them
}

// RegisterSpans registers what has become of the spans of a node that exports them. counts is called at each scrape.
func RegisterSpans(reg Registerer, counts func() Spans) {
	desc := newDesc("colonnade_trace_spans_total",
		"Spans of requests, by what has become of them: exported (the collector has taken them), dropped (there was no room, since the collector is slow or away) or failed (it has not taken them). Only with OTEL_EXPORTER_OTLP_ENDPOINT.",
		"result")
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{desc},
		collect: func(out chan<- prometheus.Metric) {
			c := counts()
			out <- counter(desc, float64(c.Exported), "exported")
			out <- counter(desc, float64(c.Dropped), "dropped")
			out <- counter(desc, float64(c.Failed), "failed")
		},
	})
}

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"colonnade/analytics/ship"
)

// RegisterSinks registers the metrics of the sinks to which a node sends its events. stats is called at each scrape.
func RegisterSinks(reg Registerer, stats func() []ship.Stats) {
	lag := newDesc("colonnade_events_sink_lag_events", "Events that a sink has not taken yet, before its filter.", "sink")
	seconds := newDesc("colonnade_events_sink_lag_seconds", "Age of the oldest event that a sink has not taken yet.", "sink")
	shipped := newDesc("colonnade_events_sink_shipped_total", "Events that a sink has taken.", "sink")
	dropped := newDesc("colonnade_events_sink_dropped_total", "Events that were dropped at the bound of the disk before a sink had taken them, since its first start.", "sink")
	rejected := newDesc("colonnade_events_sink_rejected_total", "Events that a sink has rejected for good.", "sink")
	failures := newDesc("colonnade_events_sink_failures_total", "Attempts to send a batch that failed.", "sink")
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{lag, seconds, shipped, dropped, rejected, failures},
		collect: func(out chan<- prometheus.Metric) {
			for _, s := range stats() {
				out <- gauge(lag, float64(s.LagEvents), s.Name)
				out <- gauge(seconds, s.LagSeconds, s.Name)
				out <- counter(shipped, float64(s.Shipped), s.Name)
				out <- counter(dropped, float64(s.Dropped), s.Name)
				out <- counter(rejected, float64(s.Rejected), s.Name)
				out <- counter(failures, float64(s.Failures), s.Name)
			}
		},
	})
}

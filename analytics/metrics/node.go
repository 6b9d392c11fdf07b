package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colonnade/analytics/journal"
)

// ConfigState says how current a node's table is.
type ConfigState struct {
	Revision  int64
	Age       time.Duration // since the last word from the store
	Rejected  int           // documents whose newest version is not in force
	Conflicts int           // what two documents claim, and one has got
	Held      int           // documents that are deleted in the store and stay in force until that is confirmed
	Suspect   int           // documents whose leases ran out and that stay in force for a while
}

// RegisterConfig registers the metrics of a node's configuration. state is called at each scrape.
func RegisterConfig(reg prometheus.Registerer, state func() ConfigState) {
	revision := prometheus.NewDesc("colonnade_config_revision", "Revision of the table in force.", nil, nil)
	age := prometheus.NewDesc("colonnade_config_age_seconds", "Time since the last word from the store.", nil, nil)
	rejected := prometheus.NewDesc("colonnade_config_rejected", "Documents whose newest version is not in force.",
		nil, nil)
	conflicts := prometheus.NewDesc("colonnade_config_conflicts", "Aliases, URLs and keys that two documents claim.",
		nil, nil)
	held := prometheus.NewDesc("colonnade_config_deletions_held",
		"Documents that stay in force until their deletion is confirmed.", nil, nil)
	suspect := prometheus.NewDesc("colonnade_config_suspect",
		"Documents that stay in force for now though their leases ran out.", nil, nil)
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{revision, age, rejected, conflicts, held, suspect},
		collect: func(out chan<- prometheus.Metric) {
			s := state()
			out <- gauge(revision, float64(s.Revision))
			out <- gauge(age, s.Age.Seconds())
			out <- gauge(rejected, float64(s.Rejected))
			out <- gauge(conflicts, float64(s.Conflicts))
			out <- gauge(held, float64(s.Held))
			out <- gauge(suspect, float64(s.Suspect))
		},
	})
}

// Connections are those to a node's listener for requests.
type Connections struct {
	Open                         int
	RefusedAddress, RefusedTotal uint64 // since the node started: one address had too many; there were too many in all
}

// RegisterConnections registers the metrics of a node's connections. state is called at each scrape.
func RegisterConnections(reg prometheus.Registerer, state func() Connections) {
	open := prometheus.NewDesc("colonnade_connections", "Connections to the listener for requests.", nil, nil)
	refused := prometheus.NewDesc("colonnade_connections_refused_total",
		"Connections that were one too many, of their address or in all.", []string{"reason"}, nil)
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{open, refused},
		collect: func(out chan<- prometheus.Metric) {
			s := state()
			out <- gauge(open, float64(s.Open))
			out <- counter(refused, float64(s.RefusedAddress), "address")
			out <- counter(refused, float64(s.RefusedTotal), "total")
		},
	})
}

// RegisterEvents registers the metrics of a node's event log. stats is called at each scrape.
func RegisterEvents(reg prometheus.Registerer, stats func() journal.Stats) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("colonnade_events_"+name, help, labels, nil)
	}
	appended := desc("appended_total", "Events that were to be logged, dropped ones included.")
	crashed := desc("crashed_total", "Requests of an earlier run that were ended as crashed.")
	dropped := desc("dropped_total", "Events no longer kept: at the disk bound, or since they could not be written.",
		"segment")
	torn := desc("torn_total", "Bad lines that an earlier run left.")
	failed := desc("errors_total", "Disk errors.")
	size := desc("disk_bytes", "Size of all segments.")
	open := desc("open", "Requests begun and not yet ended.")
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{appended, crashed, dropped, torn, failed, size, open},
		collect: func(out chan<- prometheus.Metric) {
			s := stats()
			out <- counter(appended, float64(s.Appended))
			out <- counter(crashed, float64(s.Crashed))
			out <- counter(dropped, float64(s.Dropped-s.DroppedRefusals), "bills")
			out <- counter(dropped, float64(s.DroppedRefusals), "refused")
			out <- counter(torn, float64(s.Torn))
			out <- counter(failed, float64(s.Errors))
			out <- gauge(size, float64(s.Bytes))
			out <- gauge(open, float64(s.OpenBegins))
		},
	})
}

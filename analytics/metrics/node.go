package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"colonnade/analytics/journal"
)

// ConfigState describes how current a node's table is. The counts are of documents.
type ConfigState struct {
	Revision         int64
	Age              time.Duration // since the last answer of the store
	Tables           uint64        // built since the start
	Rejected         int           // whose newest version is not in force
	Conflicts        int           // claims of two documents to one alias, URL, key or colo
	PendingDeletions int           // deleted in the store, and in force until that is confirmed
	ExpiredLeases    int           // in force for now although their leases expired
}

// RegisterConfig registers the metrics of a node's configuration. state is called at each scrape.
func RegisterConfig(reg Registerer, state func() ConfigState) {
	revision := newDesc("colonnade_config_revision", "Revision of the store that the fleet table in force was built from.")
	age := newDesc("colonnade_config_age_seconds", "Seconds since the last answer of the store.")
	tables := newDesc("colonnade_config_tables_total", "Fleet tables that were built. Changes that arrive together are for one table.")
	rejected := newDesc("colonnade_config_rejected", "Documents whose newest version is invalid and not in force.")
	conflicts := newDesc("colonnade_config_conflicts", "Aliases, URLs, keys and colos that two documents claim.")
	deletions := newDesc("colonnade_config_deletions_pending",
		"Documents that were deleted in the store and stay in force until their deletion is confirmed.")
	expired := newDesc("colonnade_config_expired_lease_documents",
		"Documents whose leases expired and that stay in force until their endpoints fail a health check.")
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{revision, age, tables, rejected, conflicts, deletions, expired},
		collect: func(out chan<- prometheus.Metric) {
			s := state()
			out <- gauge(revision, float64(s.Revision))
			out <- gauge(age, s.Age.Seconds())
			out <- counter(tables, float64(s.Tables))
			out <- gauge(rejected, float64(s.Rejected))
			out <- gauge(conflicts, float64(s.Conflicts))
			out <- gauge(deletions, float64(s.PendingDeletions))
			out <- gauge(expired, float64(s.ExpiredLeases))
		},
	})
}

// ProblemLabels are the labels by which problems are counted.
type ProblemLabels struct{ Kind, Severity string }

// RegisterProblems registers the number of problems by kind and severity. counts is called at each scrape, and has every kind in each severity.
func RegisterProblems(reg Registerer, counts func() map[ProblemLabels]int) {
	desc := newDesc("colonnade_problems", "Problems that this node knows of, by kind and severity (error or warning); docs/status.md lists the kinds.",
		"kind", "severity")
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{desc},
		collect: func(out chan<- prometheus.Metric) {
			for of, n := range counts() {
				out <- gauge(desc, float64(n), of.Kind, of.Severity)
			}
		},
	})
}

// RegisterEvents registers the metrics of a node's journal. stats is called at each scrape.
func RegisterEvents(reg Registerer, stats func() journal.Stats) {
	appended := newDesc("colonnade_events_appended_total", "Events that were written.")
	crashed := newDesc("colonnade_events_crashed_total", "Requests of an earlier run of this node that were ended as crashed.")
	dropped := newDesc("colonnade_events_dropped_total",
		"Events that are not kept, removed for room or never written, by kind of segment: billing (inferences), requests, or refusals.",
		"segment")
	torn := newDesc("colonnade_events_torn_total", "Incomplete or corrupt lines found in segments of an earlier run.")
	failed := newDesc("colonnade_events_errors_total", "Failed operations on segments.")
	size := newDesc("colonnade_events_disk_bytes", "Bytes of all segments on disk.")
	open := newDesc("colonnade_events_open", "Requests that have begun and have no final event yet.")
	reg.MustRegister(stateCollector{
		descs: []*prometheus.Desc{appended, crashed, dropped, torn, failed, size, open},
		collect: func(out chan<- prometheus.Metric) {
			s := stats()
			out <- counter(appended, float64(s.Appended))
			out <- counter(crashed, float64(s.Crashed))
			out <- counter(dropped, float64(s.Dropped.Billing), "billing")
			out <- counter(dropped, float64(s.Dropped.Requests), "requests")
			out <- counter(dropped, float64(s.Dropped.Refusals), "refusals")
			out <- counter(torn, float64(s.Torn))
			out <- counter(failed, float64(s.Errors))
			out <- gauge(size, float64(s.Bytes))
			out <- gauge(open, float64(s.OpenBegins))
		},
	})
}

// RegisterRedis registers whether the Redis through which entries share limits answers. up is called at each scrape.
func RegisterRedis(reg Registerer, up func() bool) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "colonnade_redis_up",
		Help: "1 while Redis answers and limits are shared; 0 while the entry enforces its share of them. Only with -redis.",
	}, func() float64 {
		if up() {
			return 1
		}
		return 0
	}))
}

// RegisterOutOfTurn registers how many servers a node keeps no connections to. count is called at each scrape.
func RegisterOutOfTurn(reg Registerer, count func() int) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "colonnade_out_of_turn_servers",
		Help: "Engines (at an entry: colo servers) that sent something out of turn within the last hour, so that no connection to them is kept.",
	}, func() float64 { return float64(count()) }))
}

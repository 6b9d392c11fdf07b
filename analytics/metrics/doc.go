// Package metrics has the Prometheus metrics of entries and colo servers.
//
// Counters and histograms are fed from final events. State (permits, queues, configuration) is read by collectors when it
// is scraped, and not mirrored, so a metric cannot differ from what it describes, and the number of scrapers does not
// matter.
//
// Labels are names of the fleet table and words of our own, never text from a request, an account or a key: the number of
// series is bounded by the fleet's documents. One hour after a model, pool or colo has left the table, its series go too.
// A metric has the same labels on every kind of node.
//
// docs/metrics.md lists all metrics. A test compares it with what is registered:
//
//	go test ./analytics/metrics -update    # writes the page
package metrics

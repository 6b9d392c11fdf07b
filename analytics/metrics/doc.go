// Package metrics has the metrics of nodes.
//
// Counters and histograms are fed from final events; everything that is a state (permits, queues, configuration) is
// read when it is scraped and never mirrored. Labels hold names from the fleet table, never text from a request.
package metrics

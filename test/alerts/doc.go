// Package alerts has the tests of deploy/prometheus and deploy/grafana: of what their queries name, and of what they answer.
//
// Fleets run through faults while the tests record what the nodes export, before and during each fault. promtool then evaluates the rules on
// these samples, stretched in time: what a fleet exported within a second is what Prometheus would have scraped within minutes. So
// each alert is shown to fire at its fault, and none beside it, and no test waits for minutes.
package alerts

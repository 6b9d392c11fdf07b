package bench

import (
	"fmt"
	"math"
	"slices"

	"colonnade/bench/cost"
)

// shipResult is what sinks of events take beside requests.
func shipResult(m *cost.Result, size *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.ShipScenario, Title: "sinks of events beside requests",
		Question: "What do events cost that are sent to a sink, and do requests notice?",
		Method: fmt.Sprintf("`colonnade serve` starts with %d events that its sink lacks, and sends them while %.0f plain requests a second, evenly spaced, go on for %s, in each of %d "+
			"rounds, each with a new process and a new sink. The receiver of HTTP is in the process of the clients, and reads without decoding.",
			size.Backlog, size.ShipRate, size.ShipTime, size.ShipRounds),
		Columns: []column{
			{Name: "events/s", Better: higher, Key: true, Help: "events that the sink has taken in a second, median of the rounds."},
			{Name: "CPU", Unit: "µs", Better: lower, Help: "processor time of the node for an event: what it has used more than without a sink in the same round."},
			{Name: "memory", Unit: "MiB", Better: lower, Help: "what the node has allocated more than without a sink in the same round."},
			{Name: "p50", Unit: "ms", Better: lower, Help: "latency of requests from when they were due, median; of the rounds, the median."},
			{Name: "p99", Unit: "ms", Better: lower, Help: "the same, 99th percentile."},
			{Name: "× p50", Unit: "×", Better: lower, Help: "p50 relative to that without a sink in the same round, median of the rounds."},
			{Name: "× p99", Unit: "×", Better: lower, Help: "the same of p99."},
			{Name: "failed", Better: lower, Help: "requests that failed."},
		},
	}
	for _, sink := range m.Ship {
		s.addSink(&sink, &m.Ship[0])
	}
	return s, len(m.Ship) > 0
}

func (s *ScenarioResult) addSink(sink, without *cost.Shipped) {
	median := func(figure func(r, base cost.ShipRound) float64) float64 {
		var all []float64
		for i, r := range sink.Rounds {
			all = append(all, figure(r, without.Rounds[i]))
		}
		return quantile(all, 0.5)
	}
	row := values(
		math.Round(median(func(r, _ cost.ShipRound) float64 { return r.Events })),
		median(func(r, base cost.ShipRound) float64 { return (r.Used - base.Used) / r.Events }),
		median(func(r, base cost.ShipRound) float64 { return (r.Memory - base.Memory) / mib }),
		median(func(r, _ cost.ShipRound) float64 { return r.P50 / 1e3 }),
		median(func(r, _ cost.ShipRound) float64 { return r.P99 / 1e3 }),
		median(func(r, base cost.ShipRound) float64 { return r.P50 / base.P50 }),
		median(func(r, base cost.ShipRound) float64 { return r.P99 / base.P99 }),
		median(func(r, _ cost.ShipRound) float64 { return float64(r.Failed) }),
	)
	if sink.Sink == cost.NoSink {
		row = append(values(math.NaN(), math.NaN(), math.NaN()), row[3:]...)
		row[5], row[6] = 1, 1
	} else {
		s.Thresholds = append(s.Thresholds,
			ThresholdResult{Name: "events a second", Gateway: sink.Sink, Want: "at least 50000", Got: row[0], Passed: row[0] >= 50_000},
			aim("p99 of requests beside it ÷ that without a sink", sink.Sink, "at most 1.1 ×", float64(row[6]), 1.1, "×"))
	}
	s.Rows = append(s.Rows, Row{Gateway: sink.Sink, Values: row})
	if slices.ContainsFunc(sink.Rounds, func(r cost.ShipRound) bool { return r.Incomplete }) {
		s.Notes = append(s.Notes, sink.Sink+": the backlog has ended before a turn.")
	}
}

package bench

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"colonnade/bench/cost"
)

// shipResult is what sinks of events take beside requests.
func shipResult(m *cost.Result, size *cost.Size) (ScenarioResult, bool) {
	s := ScenarioResult{
		Name: cost.ShipScenario, Title: "sinks of events beside requests",
		Question: "What do events cost that are sent to a sink, and do requests notice?",
		Method: fmt.Sprintf("`colonnade serve` has %d events, and gets %.0f plain requests a second, evenly spaced. In each of %d rounds there are two turns of %s: in one the node gets a new "+
			"sink, which lacks all events, in the other it has none. Turns of one process are compared; the order of the two turns changes with each round, so that what drifts counts for both. The receiver of HTTP is in the process of the clients, and reads "+
			"without decoding.", size.Backlog, size.ShipRate, size.ShipRounds, size.ShipTime),
		Columns: []column{
			{Name: "events/s", Better: higher, Key: true, Help: "events that the sink has taken in a second, median of the rounds."},
			{Name: "CPU", Unit: "µs", Better: lower, Help: "processor time of the node for an event: what it has used more than without a sink in the same round, median."},
			{Name: "memory", Unit: "MiB", Better: lower, Help: "how much more resident memory the node has after the first turn with a sink than before it. Later turns use the same memory again."},
			{Name: "p50", Unit: "ms", Better: lower, Help: "latency of requests from when they were due, median of all turns with the sink."},
			{Name: "p99", Unit: "ms", Better: lower, Help: "the same, 99th percentile."},
			{Name: "× p50", Unit: "×", Better: lower, Help: "p50 relative to that of all turns without the sink."},
			{Name: "× p99", Unit: "×", Better: lower, Help: "the same of p99."},
			{Name: "from", Unit: "×", Help: "lower end of the 90 % bootstrap interval of × p99: rounds are drawn at random, with repetition, as many as there were."},
			{Name: "to", Unit: "×", Help: "the upper end."},
			{Name: "failed", Better: lower, Help: "requests that failed, in all turns."},
		},
	}
	for _, sink := range m.Ship {
		s.addSink(&sink)
	}
	return s, len(m.Ship) > 0
}

func (s *ScenarioResult) addSink(sink *cost.Shipped) {
	median := func(figure func(r cost.ShipRound) float64) float64 {
		var all []float64
		for _, r := range sink.Rounds {
			all = append(all, figure(r))
		}
		return quantile(all, 0.5)
	}
	with, without := latencies(sink.Rounds)
	timesP99 := quantile(with, 0.99) / quantile(without, 0.99)
	from, to := spreadOfP99(sink.Rounds)
	failed, first := 0, ""
	for _, r := range sink.Rounds {
		failed += r.With.Failed + r.Without.Failed
		first = cmp.Or(first, r.With.FirstFail, r.Without.FirstFail)
	}
	events := median(func(r cost.ShipRound) float64 { return r.Events })
	s.Rows = append(s.Rows, Row{Gateway: sink.Sink, Values: values(
		float64(int(events)),
		median(func(r cost.ShipRound) float64 { return (r.With.Used - r.Without.Used) / r.Events }),
		(sink.Rounds[0].With.Memory-sink.Rounds[0].Without.Memory)/mib,
		quantile(with, 0.5)/1e3, quantile(with, 0.99)/1e3, quantile(with, 0.5)/quantile(without, 0.5), timesP99, from, to, float64(failed),
	)})
	s.Thresholds = append(s.Thresholds,
		ThresholdResult{Name: "events a second", Gateway: sink.Sink, Want: "at least 50000", Got: Value(int(events)), Passed: events >= 50_000},
		aim("p99 of requests beside it ÷ that without a sink", sink.Sink, "at most 1.1 ×", timesP99, 1.1, "×"))
	if slices.ContainsFunc(sink.Rounds, func(r cost.ShipRound) bool { return r.Incomplete }) {
		s.Notes = append(s.Notes, sink.Sink+": the backlog has ended before the end of a turn.")
	}
	if first != "" {
		s.Notes = append(s.Notes, sink.Sink+": the first that failed: "+first)
	}
}

// latencies returns those of all turns with a sink, and of all turns without.
func latencies(rounds []cost.ShipRound) (with, without []float64) {
	for _, r := range rounds {
		with, without = append(with, r.With.Latencies...), append(without, r.Without.Latencies...)
	}
	return with, without
}

// resamplings is how often rounds are drawn.
const resamplings = 200

// spreadOfP99 returns between which values nine in ten ratios of p99 lie, if rounds are drawn at random with replacement (the bootstrap). Rounds
// are drawn and not requests, since what disturbs a request disturbs those beside it.
func spreadOfP99(rounds []cost.ShipRound) (from, to float64) {
	random := rand.New(rand.NewPCG(1, 1)) // the same page for the same figures
	ratios := make([]float64, resamplings)
	drawn := make([]cost.ShipRound, len(rounds))
	for i := range ratios {
		for k := range drawn {
			drawn[k] = rounds[random.IntN(len(rounds))]
		}
		with, without := latencies(drawn)
		ratios[i] = quantile(with, 0.99) / quantile(without, 0.99)
	}
	return quantile(ratios, 0.05), quantile(ratios, 0.95)
}

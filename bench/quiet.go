package bench

import (
	"fmt"
	"math"
)

// quietMethod says how quiet accounts are judged.
const quietMethod = "\n\n" +
	"What a quiet account gets is judged from the next slot that frees after its request was due, by whomever " +
	"that is taken: while all slots are taken nobody can be served, however well he is treated. There are two " +
	"readings, and a mark for each, against what the same accounts get alone. *× from slot* is of the time to the " +
	"first token, which is what a client sees; where others publish how many times as long an account takes to " +
	"its first byte, it is that, but from when it was due, which is *× alone* here. *× wait* is of the wait only, " +
	"without the engine's own time. That is the stricter one by far: what is waited alone is a few milliseconds " +
	"for the way and the machine's own noise, and a ratio to these says little of what anybody notices. Where a run misses " +
	"either, and has measured why, it says so; it is missed all the same. A request of a quiet account that is " +
	"refused, or fails, counts as one that takes a minute: no gateway reaches these marks by turning quiet " +
	"accounts away."

func quietPlot(with string) Plot {
	return Plot{
		Name: plotQuiet, Title: "A quiet account's time to first token beside " + with, Kind: CDF,
		X: Axis{Label: "time to first token", Unit: "ms", Log: true}, Y: Axis{Label: "share of requests at or below"},
	}
}

// reportQuiet says what became of the quiet accounts, beside what they get when nobody else asks.
func (u *unfair) reportQuiet(s *scenarioRun, alone, all *result) {
	nan := float64(Unmeasured())
	quiet := accountsOf(u.quiet)
	before, who := alone.dueInWindow(quiet...), all.dueInWindow(quiet...)
	p99 := func(times []float64) float64 { return quantile(times, 0.99) }
	ttft := p99(all.ttftsWithPenalty(who))
	slot := p99(all.ttftsFromFreeSlot(who, exemptions{})) / p99(alone.ttftsFromFreeSlot(before, exemptions{}))
	way := alone.medianTransit(before)
	own := p99(all.ttftsFromFreeSlot(who, exemptions{idsOf(who), way})) / p99(alone.ttftsFromFreeSlot(before, exemptions{idsOf(before), way}))
	wait, bare := p99(all.minusEngineTTFT(all.ttftsFromFreeSlot(who, exemptions{}))), p99(alone.minusEngineTTFT(alone.ttftsFromFreeSlot(before, exemptions{})))
	waits, passed := all.minusEngineTTFT(all.ttftsWithPenalty(who)), all.passedOver(who)
	s.addRow("quiet accounts", nan, nan, nan, all.meanSlotShare(quiet), quantile(waits, 0.5), p99(waits),
		p99(alone.minusEngineTTFT(alone.ttftsWithPenalty(before))), ttft, ttft/p99(alone.ttftsWithPenalty(before)), slot, own, wait, wait/bare, passed,
		ratio(countOutcome(who, refused), len(who)), quantile(all.refusalTimes(who), 0.99), nan)
	s.observe(markQuiet, slot)
	s.observe(markWait, wait/bare)
	if all.slots > 0 && own <= quietMark.max {
		s.reasons[markQuiet] = fmt.Sprintf("without slots that another quiet account took, which is as entitled to one, and slots "+
			"that freed within the %s that a request takes to an engine alone, when it could not be in the queue yet, "+
			"it is %s (*× own slot*).", measure(Value(ms(way)), "ms"), measure(Value(own), "×"))
		every, empty := all.turnover()
		s.reasons[markWait] = whyTooFine(bare, every, empty, passed)
	}
	s.addSeries(plotQuiet, Series{X: Quantiles(alone.plottedTTFTs(before)), Dashed: true, Name: s.runner.gateway.Name + ", alone"})
	s.addSeries(plotQuiet, Series{X: Quantiles(all.plottedTTFTs(who))})
}

// whyTooFine says by what was measured, all in ms, why the wait alone cannot be judged: if what the mark allows beside what is
// waited alone is less than the time in which one slot frees. Otherwise it is empty.
func whyTooFine(alone, every, empty, passed float64) string {
	allows := (waitMark.max - 1) * alone
	if every <= allows {
		return ""
	}
	return fmt.Sprintf("alone, it waits %s at p99, for the way and the machine's own noise, and the mark allows %s more; but a slot "+
		"frees every %s, so that whoever is passed over once has missed it, and %s of the requests were. Even "+
		"who is next waits: a slot that frees is taken again after %s at p99.",
		measure(Value(alone), "ms"), measure(Value(allows), "ms"), measure(Value(every), "ms"),
		measure(Value(passed), "%"), measure(Value(empty), "ms"))
}

// plottedTTFTs are the times to the first token for a plot: one who is turned away has none, and counts as that.
func (r *result) plottedTTFTs(samples []*sample) []float64 {
	all := r.ttftsWithPenalty(samples)
	for i, s := range samples {
		if !s.served() {
			all[i] = math.Inf(1)
		}
	}
	return all
}

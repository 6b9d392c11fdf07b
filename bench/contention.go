package bench

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// contention is load in which one account asks for far more than its share, beside others that ask for a little more, and
// quiet ones that ask for less. The quiet accounts are first measured alone.
type contention struct {
	greedy    flow
	others    []flow
	quiet     []flow
	alone     interval     // measured, with the quiet accounts only
	contended interval     // measured, with all accounts
	base      requestShape // unit of the capacity
	timing    timing       // of the engines
	byTokens  bool         // service is also compared in tokens
}

const (
	caseAll    = "all"
	caseQuiet  = "quiet accounts"
	caseOthers = "others"

	chartQuiet = "quiet"
)

var minTokensJain = threshold{name: "Jain's index of tokens", limit: 0.98, quick: 0.9}

func contentionColumns() []column {
	return []column{
		columnGoodput,
		columnJain,
		{Name: "tokens", Better: higher, Key: true, Help: "the same of tokens, input and output."},
		{Name: "service", Unit: "%", Help: "slot time of the account, or of each of several, relative to all slots."},
		columnWaitP50.withHelp("time to first token without the engine's own time, median. For quiet accounts this and the " +
			"next columns count every request, a refused or failed one as a minute; for others those that were not refused."),
		columnWaitP99,
		{Name: "alone p99", Unit: "ms", Better: lower, Help: "wait p99 of the quiet accounts without the others."},
		{Name: "TTFT p99", Unit: "ms", Better: lower, Help: "time to first token since the request was due, 99th percentile."},
		{Name: "× alone", Unit: "×", Better: lower, Key: true, Help: "TTFT p99 relative to that without the others."},
		{Name: "× from slot", Unit: "×", Better: lower, Key: true, Help: "the same, with both times counted from the next slot that " +
			"becomes free."},
		{Name: "× own slot", Unit: "×", Better: lower, Help: "the same, leaving out slots that another quiet account took, and slots " +
			"that became free within the time that a request needs to reach an engine."},
		{Name: "wait from slot", Unit: "ms", Better: lower, Help: "wait counted from the next slot that becomes free, 99th percentile."},
		{Name: "× wait", Unit: "×", Better: lower, Key: true, Help: "the same relative to that without the others."},
		{Name: "passed over", Unit: "%", Better: lower, Help: "requests that saw a slot which was free for them go to another " +
			"request."},
		columnRefused,
		columnRefusal,
		columnLeaked,
	}
}

// contentionKeys leaves out the greedy account: its short wait is no merit.
func contentionKeys() []string { return []string{caseAll, caseQuiet, caseOthers} }

// contentionMethod says how quiet accounts are judged.
const contentionMethod = "\n\n" +
	"Quiet accounts are judged from the next slot that becomes free after a request was due, whichever request takes it: " +
	"while all slots are taken, no gateway can serve anyone. There are two thresholds, both relative to the same accounts " +
	"alone. *× from slot* compares the time to first token, which is what a client sees (counted from when the request was " +
	"due, the figure that others publish, it is *× alone*). *× wait* compares only the wait, without the engine's own time. It " +
	"is by far the stricter one: alone, the wait is a few milliseconds of transport and noise, so a large ratio can be " +
	"imperceptible. A refused or failed request counts as one that takes a minute, so refusing quiet accounts does not help."

// contentionAccounts are the accounts of a contention scenario, those first that cannot be left out.
func contentionAccounts(greedy string) []string {
	return []string{quiet(0), greedy, team(0), team(1), quiet(1), team(2), quiet(2), team(3)}
}

// participants are the quiet accounts that take part, and the others but for the greedy one.
func (s *scenarioRun) participants(greedy string) (quiet, others []string) {
	for _, name := range s.accounts {
		switch {
		case strings.HasPrefix(name, "quiet"):
			quiet = append(quiet, name)
		case name != greedy:
			others = append(others, name)
		}
	}
	return quiet, others
}

func accountsOf(flows []flow) []string {
	var all []string
	for _, f := range flows {
		all = append(all, f.account)
	}
	return all
}

func quietChart(beside string) chart {
	return chart{Name: chartQuiet, Title: "A quiet account's time to first token beside " + beside, Kind: cdfChart,
		X: axis{Label: "time to first token", Unit: "ms", Log: true}, Y: axis{Label: "share of requests at or below", Unit: "%"}}
}

// run measures the quiet accounts alone, then all accounts.
func (c *contention) run(ctx context.Context, s *scenarioRun) error {
	alone, err := s.runTrial(ctx, &trial{name: "alone", timing: c.timing, flows: c.quiet, window: c.alone, seed: 1})
	if err != nil {
		return err
	}
	flows := slices.Clone(c.quiet)
	for i := range flows {
		flows[i].due = steady(newRand(2, uint64(i)), float64(len(flows[i].due))/c.alone.end.Seconds(),
			s.preset.loadInterval(c.contended))
	}
	flows = append(append(flows, c.others...), c.greedy)
	all, err := s.runTrial(ctx, &trial{name: "together", timing: c.timing, flows: flows, window: c.contended, seed: 3})
	if err != nil {
		return err
	}
	c.report(s, alone, all)
	return nil
}

func (c *contention) report(s *scenarioRun, alone, all *result) {
	demanding := append(accountsOf(c.others), c.greedy.account)
	capacity := s.rates[c.base] * s.work(c.base)
	if s.engines == nil && c.byTokens {
		capacity = math.NaN() // it is known in tokens of common requests only
	}
	requests := all.dueInWindow()
	total := figures{"goodput": all.goodput() / capacity, "Jain": jainIndex(all.service(demanding)),
		"refused": ratio(countOutcome(requests, refused), len(requests)), "refusal p99": quantile(all.refusalTimes(requests), 0.99),
		"leaked": max(alone.leakedValue(), all.leakedValue())}
	if c.byTokens {
		total["tokens"] = jainIndex(all.tokensServed(demanding))
		s.observe(minTokensJain, total["tokens"])
	}
	s.observe(minGoodput, total["goodput"])
	s.checkCapacity(total["goodput"])
	s.observe(minJain, total["Jain"])
	s.observe(maxRefusalTime, total["refusal p99"])
	s.observe(noLeaks, total["leaked"])
	s.addRow(caseAll, total)

	c.reportQuiet(s, alone, all)
	c.reportDemanding(s, all, caseOthers, accountsOf(c.others))
	c.reportDemanding(s, all, c.greedy.account, []string{c.greedy.account})
}

func (c *contention) reportDemanding(s *scenarioRun, all *result, name string, accounts []string) {
	requests := all.dueInWindow(accounts...)
	waits := all.waits(requests)
	s.addRow(name, figures{"service": all.meanSlotShare(accounts), "wait p50": quantile(waits, 0.5), "wait p99": quantile(waits, 0.99),
		"TTFT p99": quantile(all.ttfts(requests), 0.99), "refused": ratio(countOutcome(requests, refused), len(requests)),
		"refusal p99": quantile(all.refusalTimes(requests), 0.99)})
}

// quietTimes are p99 times of quiet accounts, in ms.
type quietTimes struct{ ttft, wait, fromSlot, ownSlot, waitFromSlot float64 }

// measureQuiet measures the requests of quiet accounts. transit is how long one takes to an engine alone.
func (r *result) measureQuiet(requests []*sample, transit exemptions) quietTimes {
	p99 := func(times []float64) float64 { return quantile(times, 0.99) }
	transit.peers = idsOf(requests)
	return quietTimes{
		ttft: p99(r.ttftsWithPenalty(requests)), wait: p99(r.minusEngineTTFT(r.ttftsWithPenalty(requests))),
		fromSlot: p99(r.ttftsFromFreeSlot(requests, exemptions{})), ownSlot: p99(r.ttftsFromFreeSlot(requests, transit)),
		waitFromSlot: p99(r.minusEngineTTFT(r.ttftsFromFreeSlot(requests, exemptions{}))),
	}
}

// reportQuiet compares the quiet accounts with what they get alone.
func (c *contention) reportQuiet(s *scenarioRun, alone, all *result) {
	quiet := accountsOf(c.quiet)
	before, requests := alone.dueInWindow(quiet...), all.dueInWindow(quiet...)
	transit := exemptions{transit: alone.medianTransit(before)}
	base, now := alone.measureQuiet(before, transit), all.measureQuiet(requests, transit)
	row := figures{"service": all.meanSlotShare(quiet), "wait p50": quantile(all.minusEngineTTFT(all.ttftsWithPenalty(requests)), 0.5),
		"wait p99": now.wait, "alone p99": base.wait, "TTFT p99": now.ttft, "× alone": now.ttft / base.ttft,
		"× from slot": now.fromSlot / base.fromSlot, "× own slot": now.ownSlot / base.ownSlot, "wait from slot": now.waitFromSlot,
		"× wait": now.waitFromSlot / base.waitFromSlot, "passed over": all.passedOver(requests),
		"refused":     ratio(countOutcome(requests, refused), len(requests)),
		"refusal p99": quantile(all.refusalTimes(requests), 0.99)}
	s.observe(maxQuietTTFT, row["× from slot"])
	s.observe(maxQuietWait, row["× wait"])
	if all.slots > 0 && row["× own slot"] <= maxQuietTTFT.limit {
		s.reasons[maxQuietTTFT.name] = []string{fmt.Sprintf("It is %s (*× own slot*) without slots that another quiet account took, "+
			"which is entitled to them as well, and without slots that became free within the %s that a request needs to reach an engine.",
			measure(Value(row["× own slot"]), "×"), measure(Value(ms(transit.transit)), "ms"))}
		interval, refill := all.turnover()
		s.reasons[maxQuietWait.name] = whyTooFine(base.waitFromSlot, interval, refill, row["passed over"])
	}
	s.addRow(caseQuiet, row)
	s.addSeries(chartQuiet, series{X: quantiles(alone.plottedTTFTs(before)), Dashed: true, Name: s.gateway.Name + ", alone"})
	s.addSeries(chartQuiet, series{X: quantiles(all.plottedTTFTs(requests))})
}

// whyTooFine is nil unless the threshold of the wait allows less, beside the wait alone, than the interval in which one slot
// becomes free. Times are in ms.
func whyTooFine(alone, interval, refill, passedOver float64) []string {
	allowed := (maxQuietWait.limit - 1) * alone
	if interval <= allowed {
		return nil
	}
	return []string{
		fmt.Sprintf("Alone, the wait is %s at p99 (transport and noise), so the threshold allows %s more.",
			measure(Value(alone), "ms"), measure(Value(allowed), "ms")),
		fmt.Sprintf("A slot becomes free every %s, so one request passed over once misses the threshold; %s of them were.",
			measure(Value(interval), "ms"), measure(Value(passedOver), "%")),
		fmt.Sprintf("Even the next request in line waits: a free slot is taken again after %s at p99.", measure(Value(refill), "ms")),
	}
}

// plottedTTFTs are the times to first token for a chart. Requests without an answer count as infinite.
func (r *result) plottedTTFTs(samples []*sample) []float64 {
	all := r.ttftsWithPenalty(samples)
	for i, s := range samples {
		if !s.served() {
			all[i] = math.Inf(1)
		}
	}
	return all
}

package bench

import (
	"context"
	"fmt"
	"time"
)

const chartLost = "lost"

// maxRefill is two rounds of health checks, one per second.
var (
	noUnbegun = threshold{name: "failed before their first token", max: true}
	maxRefill = threshold{name: "recovery after an engine is back", unit: "s", max: true, limit: 2}
)

// outages are when engines are lost, each time another one, and when the trial ends. How soon an engine is used again
// depends on when it is probed next: so there are several.
func (p preset) outages() (lost []interval, end time.Duration) {
	at := func(start, end int) interval {
		return interval{time.Duration(start) * time.Millisecond, time.Duration(end) * time.Millisecond}
	}
	if p.quick {
		return []interval{at(700, 1500)}, 3 * time.Second
	}
	return []interval{at(2500, 4500), at(7000, 8300), at(10500, 11400)}, 14 * time.Second
}

// engineLostScenario has an engine that dies and comes back.
func engineLostScenario() Scenario {
	return Scenario{
		Name: "engine-lost", Title: "an engine is lost and comes back",
		question: "What becomes of the requests that the engine had, do the others stay busy, and how soon is it used again?",
		method: func(p preset) string {
			lost, end := p.outages()
			return fmt.Sprintf("Eight accounts ask for 1.3 times the capacity together (Poisson arrivals), for %s. At %s one engine closes "+
				"all connections and stops listening, until %s. Requests that it had begun to answer cannot be saved; the work on "+
				"them is not counted, nor is the part before. Goodput is relative to the engines that are there. Recovery is from "+
				"when the engine is back until 90 %% of its slots are taken over half a second%s.",
				end, lost[0].start, lost[0].end, describeOutages(lost))
		},
		accounts: named(teamCount, team), minEngines: 2,
		columns: []column{
			{Name: "before", Unit: "%", Better: higher, Key: true, Help: "goodput before the engine is lost, relative to the capacity."},
			{Name: "without", Unit: "%", Better: higher, Key: true, Help: "goodput without it, relative to the capacity of the others."},
			{Name: "after", Unit: "%", Better: higher, Key: true, Help: "goodput after it is back, relative to the capacity."},
			{Name: "recovery", Unit: "s", Better: lower, Key: true, Help: "from when an engine is back until it is fully used, median. An " +
				"engine that is not used again counts until the end."},
			columnFailed,
			{Name: "no token", Better: lower, Help: "failed requests without a single token, which could have been saved."},
			columnWaitP99.withKey(false).withHelp("time to first token without the engine's own time, 99th percentile."),
			columnLeaked,
		},
		charts: []chart{{Name: chartLost, Title: "Goodput while an engine is lost", Kind: lineChart,
			X: axis{Label: "time", Unit: "s"}, Y: axis{Label: "goodput", Unit: "%"}}},
		thresholds: []threshold{noUnbegun, maxRefill, noLeaks},
		duration:   func(p preset) time.Duration { _, end := p.outages(); return end + time.Second },
		run:        runEngineLost,
	}
}

// describeOutages says how often recovery is measured.
func describeOutages(lost []interval) string {
	if len(lost) == 1 {
		return "; it is measured once, and may take up to the interval of the gateway's health checks"
	}
	text := "; it depends on when the gateway probes the engine, so it is the median over further outages of other engines"
	for _, l := range lost[1:] {
		text += fmt.Sprintf(", from %s to %s", l.start, l.end)
	}
	return text
}

func runEngineLost(ctx context.Context, s *scenarioRun) error {
	p := s.preset
	lost, end := p.outages()
	lost = lost[:min(len(lost), len(s.engines.all))]
	rate := s.rates[p.shape()]
	t := trial{name: "an engine lost", timing: p.timing, window: interval{0, end}, seed: 10}
	for i, l := range lost {
		t.events = append(t.events, engineEvent{l.start, s.engines.all[i].stop}, engineEvent{l.end, s.engines.all[i].start})
	}
	for i, name := range s.accounts {
		t.flows = append(t.flows, flow{account: name, tokens: p.tokens,
			due: poisson(newRand(10, uint64(i)), 1.3*rate/teamCount, t.window)})
	}
	r, err := s.runTrial(ctx, &t)
	if err != nil {
		return err
	}
	capacity := rate * s.work(p.shape())
	row := s.lostGoodput(r, lost, capacity)
	row["failed"], row["no token"] = s.lostFailures(r)
	var recoveries []float64
	for i, l := range lost {
		recoveries = append(recoveries, r.refillTime(i, s.engines.all[i].slots, l.end))
		s.refLines[chartLost] = append(s.refLines[chartLost], refLine{Name: "lost", At: Value(l.start.Seconds()), Vertical: true},
			refLine{Name: "back", At: Value(l.end.Seconds()), Vertical: true})
	}
	row["recovery"], row["wait p99"], row["leaked"] = quantile(recoveries, 0.5), quantile(r.waits(r.dueInWindow()), 0.99), r.leakedValue()
	s.observe(noUnbegun, row["no token"])
	s.observe(maxRefill, row["recovery"])
	s.observe(noLeaks, row["leaked"])
	s.addRow("", row)
	s.addSeries(chartLost, r.timeline(end/44, capacity))
	return nil
}

// lostGoodput is the goodput before, during and after the first outage, relative to the engines that are there. Around the
// moments of change some time is left out, so that work begun with all engines does not count for fewer.
func (s *scenarioRun) lostGoodput(r *result, lost []interval, capacity float64) figures {
	settle := 2 * s.preset.timing.serviceTime(s.preset.tokens)
	rest := 1 - 1/float64(len(s.engines.all))
	first, next := lost[0], r.trial.window.end
	if len(lost) > 1 {
		next = lost[1].start - settle/2
	}
	return figures{
		"before":  r.within(interval{settle, first.start - settle/2}).goodput() / capacity,
		"without": r.within(interval{first.start + settle, first.end}).goodput() / (capacity * rest),
		"after":   r.within(interval{first.end + settle, next}).goodput() / capacity,
	}
}

// lostFailures counts the requests that failed, and those of them that had no token.
func (s *scenarioRun) lostFailures(r *result) (failures, unbegun float64) {
	example := ""
	for x := range r.eachSample {
		if x.outcome != failed {
			continue
		}
		failures++
		if x.first < 0 {
			unbegun++
			example = x.describe()
		}
	}
	if unbegun > 0 {
		s.note("%g of %g failed requests had no token, one with: %s", unbegun, failures, example)
	}
	return failures, unbegun
}

// within is the result with another window.
func (r *result) within(in interval) *result {
	t, other := *r.trial, *r
	t.window = in
	other.trial = &t
	return &other
}

// timeline is the goodput over time, relative to the capacity.
func (r *result) timeline(step time.Duration, capacity float64) series {
	var s series
	for at := r.trial.window.start; at+step <= r.trial.window.end; at += step {
		s.X = append(s.X, Value((at + step/2).Seconds()))
		s.Y = append(s.Y, Value(r.within(interval{at, at + step}).goodput()/capacity))
	}
	return s
}

// refillTime is the time in seconds from a moment until 90 % of an engine's slots are taken over half a second, or until the
// end of the trial.
func (r *result) refillTime(engine, slots int, since time.Duration) float64 {
	const over, step = 500 * time.Millisecond, 20 * time.Millisecond
	for at := since; at+over <= r.trial.window.end; at += step {
		var used time.Duration
		for _, j := range r.jobs {
			if j.engine == engine {
				used += j.held.intersect(interval{at, at + over}).duration()
			}
		}
		if used.Seconds() >= 0.9*float64(slots)*over.Seconds() {
			return (at - since).Seconds()
		}
	}
	return (r.trial.window.end - since).Seconds()
}

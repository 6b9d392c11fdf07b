package bench

import (
	"context"
	"fmt"
	"time"
)

const plotLost = "lost"

const (
	markUnbegun = "failed before their first token"
	markRefill  = "recovery when an engine is back"
)

// refillMark is two rounds of health checks, each a second.
var (
	unbegunMark = threshold{name: markUnbegun, zero: true}
	refillMark  = threshold{name: markRefill, unit: "s", max: 2}
)

// outages are when engines are lost, each another, until they are back, and when the trial ends. How soon one that is back is
// used depends on when it is looked at next: so there are several.
func (z preset) outages() (lost []interval, end time.Duration) {
	at := func(from, until int) interval {
		return interval{time.Duration(from) * time.Millisecond, time.Duration(until) * time.Millisecond}
	}
	if z.quick {
		return []interval{at(700, 1500)}, 3 * time.Second
	}
	return []interval{at(2500, 4500), at(7000, 8300), at(10500, 11400)}, 14 * time.Second
}

// engineLostScenario is one of the engines that dies, and comes back.
func engineLostScenario() Scenario {
	return Scenario{
		Name: "engine-lost", Title: "An engine is lost, and comes back",
		question: "What becomes of the requests that it had, do the other engines stay busy, and how soon is it used again?",
		method: func(z preset) string {
			lost, end := z.outages()
			return fmt.Sprintf("Eight accounts ask for 1.3 times the capacity together (Poisson). At %s one of the "+
				"engines closes every connection and stops to listen, "+
				"until %s; the trial ends at %s. Requests that it had half answered cannot be saved, and the work on "+
				"them counts for nothing, also before. Goodput is of what the engines that are there can do. Recovery is "+
				"from when the engine is back until its slots are nine tenths full over half a second. It depends on "+
				"when the gateway looks at the engine next: %s.", lost[0].start, lost[0].end, end, describeOutages(lost))
		},
		accounts: named(teamCount, team), minEngines: 2,
		columns: []Column{
			{Name: "before", Unit: "%", Better: Higher, Key: true, Help: "Goodput before the engine is lost, of capacity."},
			{Name: "without", Unit: "%", Better: Higher, Key: true, Help: "Goodput without it, of what the other engines can do."},
			{Name: "after", Unit: "%", Better: Higher, Key: true, Help: "Goodput since it is back, of capacity."},
			{Name: "recovery", Unit: "s", Better: Lower, Key: true, Help: "From when an engine is back until it is fully " +
				"used: the median. One that is not used again at all counts until the end."},
			{Name: "failed", Better: Lower, Help: "Requests that got neither a whole answer nor a refusal."},
			{Name: "not begun", Better: Lower, Help: "Of these, those that had not a single token: they could have been saved."},
			{Name: "wait p99", Unit: "ms", Better: Lower, Help: "Time to the first token less the engine's own, 99th " +
				"percentile."},
			{Name: "leaked", Better: Lower, Help: "Requests still held when all has been quiet."},
		},
		plots: []Plot{{Name: plotLost, Title: "Goodput while an engine is lost", Kind: Lines,
			X: Axis{Label: "time", Unit: "s"}, Y: Axis{Label: "goodput", Unit: "%"}}},
		thresholds: []threshold{unbegunMark, refillMark, leakedMark},
		duration:   func(z preset) time.Duration { _, end := z.outages(); return end + time.Second },
		run:        playLost,
	}
}

func playLost(ctx context.Context, s *scenarioRun) error {
	z := s.preset
	lost, end := z.outages()
	lost = lost[:min(len(lost), len(s.engines.all))]
	rate := s.rates[z.shape()]
	t := trial{name: "an engine lost", timing: z.timing, window: interval{0, end}, seed: 10}
	for i, l := range lost {
		t.events = append(t.events, engineEvent{l.start, s.engines.all[i].stop}, engineEvent{l.end, s.engines.all[i].start})
	}
	for i, name := range s.accounts {
		t.flows = append(t.flows, flow{account: name, tokens: z.tokens,
			due: poisson(newRand(10, uint64(i)), 1.3*rate/teamCount, t.window)})
	}
	r, err := s.runTrial(ctx, &t)
	if err != nil {
		return err
	}
	capacity := rate * s.workOf(z.shape())
	left := 1 - 1/float64(len(s.engines.all))
	settle := 2 * z.timing.serviceTime(z.tokens) // what was begun with all engines is not counted in favour of fewer
	during := func(in interval, of float64) float64 {
		return r.within(in).goodput() / (capacity * of)
	}
	first, next := lost[0], end
	if len(lost) > 1 {
		next = lost[1].start - settle/2
	}
	before, without, after := during(interval{settle, first.start - settle/2}, 1), during(interval{first.start + settle, first.end},
		left), during(interval{first.end + settle, next}, 1)
	broken, unbegun, example := 0, 0, ""
	for x := range r.eachSample {
		if x.outcome == failed {
			broken++
			if x.first < 0 {
				unbegun++
				example = x.describe()
			}
		}
	}
	if unbegun > 0 {
		s.note("%s: of %d requests that failed, %d had no token, such as by: %s.", s.runner.gateway.Name, broken, unbegun, example)
	}
	var recoveries []float64
	for i, l := range lost {
		recoveries = append(recoveries, r.refillTime(i, s.engines.all[i].slots, l.end))
	}
	recovery := quantile(recoveries, 0.5)
	s.observe(markUnbegun, float64(unbegun))
	s.observe(markRefill, recovery)
	s.addRow("", before, without, after, recovery, float64(broken), float64(unbegun), quantile(r.waits(r.dueInWindow()), 0.99),
		r.leakedValue())
	s.observe(markLeaked, r.leakedValue())
	s.addSeries(plotLost, r.timeline(end/44, capacity))
	for _, l := range lost {
		s.lines[plotLost] = append(s.lines[plotLost], Line{Name: "lost", At: Value(l.start.Seconds()), Upright: true},
			Line{Name: "back", At: Value(l.end.Seconds()), Upright: true})
	}
	return nil
}

// describeOutages says how often recovery is measured.
func describeOutages(lost []interval) string {
	if len(lost) == 1 {
		return "it is measured once here, and by chance may be anything up to the interval of its health checks"
	}
	text := "so other engines are lost after that, one after the other"
	for _, l := range lost[1:] {
		text += fmt.Sprintf(", from %s until %s", l.start, l.end)
	}
	return text + ", and it is the median"
}

// within is the result as if another span had been measured.
func (r *result) within(in interval) *result {
	t, other := *r.trial, *r
	t.window = in
	other.trial = &t
	return &other
}

// timeline is goodput over time, of what can be done.
func (r *result) timeline(step time.Duration, capacity float64) Series {
	var s Series
	for at := r.trial.window.start; at+step <= r.trial.window.end; at += step {
		s.X = append(s.X, Value((at + step/2).Seconds()))
		s.Y = append(s.Y, Value(r.within(interval{at, at + step}).goodput()/capacity))
	}
	return s
}

// refillTime is how long after a moment, in seconds, an engine's slots are nine tenths full over half a second; until the
// trial's end if they never are.
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

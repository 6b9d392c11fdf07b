package bench

import (
	"context"
	"fmt"
	"time"
)

const plotLost = "lost"

// lostTimes are when an engine is lost, when it is back, and when the trial ends.
func (z size) lostTimes() (lost, back, end time.Duration) {
	if z.rough {
		return 700 * time.Millisecond, 1500 * time.Millisecond, 3 * time.Second
	}
	return 2500 * time.Millisecond, 4500 * time.Millisecond, 8 * time.Second
}

// engineLost is one of the engines that dies, and comes back.
func engineLost() Contest {
	return Contest{
		Name: "engine-lost", Title: "An engine is lost, and comes back",
		question: "What becomes of the requests that it had, do the other engines stay busy, and how soon is it used again?",
		method: func(z size) string {
			lost, back, end := z.lostTimes()
			return fmt.Sprintf("Eight accounts ask for 1.3 times the capacity together (Poisson). At %s one of the "+
				"engines closes every connection and stops to listen, "+
				"until %s; the trial ends at %s. Requests that it had half answered cannot be saved, and the work on "+
				"them counts for nothing, also before. Goodput is of what the engines that are there can do. Recovery is "+
				"from when the engine is back until its slots are nine tenths full over half a second.", lost, back, end)
		},
		accounts: named(teams, team), engines: 2,
		columns: []Column{
			{Name: "before", Unit: "%", Better: Higher, Help: "Goodput before the engine is lost, of capacity."},
			{Name: "without", Unit: "%", Better: Higher, Help: "Goodput without it, of what the other engines can do."},
			{Name: "after", Unit: "%", Better: Higher, Help: "Goodput since it is back, of capacity."},
			{Name: "recovery", Unit: "s", Better: Lower, Help: "From when the engine is back until it is fully used."},
			{Name: "failed", Better: Lower, Help: "Requests that got neither a whole answer nor a refusal."},
			{Name: "not begun", Better: Lower, Help: "Of these, those that had not a single token: they could have been saved."},
			{Name: "wait p99", Unit: "ms", Better: Lower, Help: "Time to the first token less the engine's own, 99th " +
				"percentile."},
			{Name: "leaked", Better: Lower, Help: "Requests still held when all has been quiet."},
		},
		plots: []Plot{{Name: plotLost, Title: "Goodput while an engine is lost", Kind: Lines,
			X: Axis{Label: "time", Unit: "s"}, Y: Axis{Label: "goodput", Unit: "%"}}},
		marks: []mark{leakedMark},
		lasts: func(z size) time.Duration { _, _, end := z.lostTimes(); return end + time.Second },
		play:  playLost,
	}
}

func playLost(ctx context.Context, s *stage) error {
	z := s.size
	lost, back, end := z.lostTimes()
	rate := s.rates[z.shape()]
	victim := s.engines.all[0]
	t := trial{name: "an engine lost", pace: z.pace, window: span{0, end}, seed: 10,
		events: []event{{lost, victim.lose}, {back, victim.open}}}
	for i, name := range s.seats {
		t.flows = append(t.flows, flow{account: name, tokens: z.tokens,
			due: poisson(seeded(10, uint64(i)), 1.3*rate/teams, t.window)})
	}
	r, err := s.trial(ctx, &t)
	if err != nil {
		return err
	}
	capacity := rate * s.worth(z.shape())
	left := 1 - 1/float64(len(s.engines.all))
	settle := 2 * z.pace.holds(z.tokens) // what was begun with all engines is not counted in favour of fewer
	during := func(in span, of float64) float64 {
		return r.during(in).goodput() / (capacity * of)
	}
	before, without, after := during(span{settle, lost - settle/2}, 1), during(span{lost + settle, back},
		left), during(span{back + settle, end}, 1)
	broken, unbegun := 0, 0
	for x := range r.each {
		if x.fate == failed {
			broken++
			if x.first < 0 {
				unbegun++
			}
		}
	}
	recovery := r.refilled(0, victim.slots, back)
	s.row("", before, without, after, recovery, float64(broken), float64(unbegun), quantile(r.waits(r.of()), 0.99),
		r.leakedOr())
	s.reach(markLeaked, r.leakedOr())
	s.plot(plotLost, r.timeline(end/44, capacity))
	s.lines[plotLost] = []Line{{Name: "lost", At: Value(lost.Seconds()), Upright: true},
		{Name: "back", At: Value(back.Seconds()), Upright: true}}
	return nil
}

// during is the result as if another span had been measured.
func (r *result) during(in span) *result {
	t, other := *r.trial, *r
	t.window = in
	other.trial = &t
	return &other
}

// timeline is goodput over time, of what can be done.
func (r *result) timeline(step time.Duration, capacity float64) Series {
	var s Series
	for at := r.trial.window.from; at+step <= r.trial.window.until; at += step {
		s.X = append(s.X, Value((at + step/2).Seconds()))
		s.Y = append(s.Y, Value(r.during(span{at, at + step}).goodput()/capacity))
	}
	return s
}

// refilled is how long after a moment, in seconds, an engine's slots are nine tenths full over half a second; NaN if
// they never are.
func (r *result) refilled(engine, slots int, since time.Duration) float64 {
	const over, step = 500 * time.Millisecond, 20 * time.Millisecond
	for at := since; at+over <= r.trial.window.until; at += step {
		var used time.Duration
		for _, j := range r.jobs {
			if j.engine == engine {
				used += j.held.and(span{at, at + over}).length()
			}
		}
		if used.Seconds() >= 0.9*float64(slots)*over.Seconds() {
			return (at - since).Seconds()
		}
	}
	return float64(Unmeasured())
}

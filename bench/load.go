package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	plotGoodput = "goodput"
	plotTTFT    = "ttft"
	plotRefused = "refused"
)

// factors are the loads, as multiples of capacity.
func (z preset) factors() []float64 {
	if z.quick {
		return []float64{0.5, 1, 2, 5}
	}
	return []float64{0.5, 1, 2, 3, 5}
}

// deadline is what half of the accounts ask for. At high load the queue is longer than that.
func (z preset) deadline() time.Duration { return 3 * z.timing.serviceTime(z.tokens) }

// loadScenario is eight accounts that ask alike, from half to five times what the engines can do.
func loadScenario() Scenario {
	return Scenario{
		Name: "load", Title: "From half to five times what the engines can do",
		question: "How much of what the engines can do reaches clients as the load grows, and how long do they wait?",
		method: func(z preset) string {
			return fmt.Sprintf("Eight accounts ask alike (Poisson), together for a multiple of the capacity, for %s at "+
				"each load. Every answer has about %d "+
				"tokens, which take %s. Half of the accounts say that they need the first token within %s, by "+
				"x-colonnade-deadline-ms.",
				z.seconds(3.4), z.tokens, z.timing.serviceTime(z.tokens), z.deadline())
		},
		accounts: named(teamCount, team), minAccounts: 1,
		columns: []Column{
			{Name: "goodput", Unit: "%", Better: Higher, Help: "Work of answered requests, of what the engines can do."},
			{Name: "possible", Unit: "%", Better: Higher, Key: true, Help: "Goodput of what is possible: of what the engines can do or of what was " +
				"asked for, whichever is less."},
			{Name: "Jain", Better: Higher, Key: true, Help: "Jain's index over the slot time of all accounts."},
			{Name: "wait p50", Unit: "ms", Better: Lower, Help: "Time to the first token less the engine's own, the " +
				"median of requests that were not refused."},
			{Name: "wait p99", Unit: "ms", Better: Lower, Key: true, Help: "The same, 99th percentile."},
			{Name: "refused", Unit: "%", Help: "Requests that were refused, of all."},
			{Name: "refused in", Unit: "ms", Better: Lower, Help: "Time to a refusal on arrival, 99th percentile."},
			{Name: "overdue", Better: Lower, Help: "Requests that came to an engine past the deadline that they carried. Only Colonnade's " +
				"parts know the header that says it: a gateway that does not cannot keep it."},
			{Name: "expired", Unit: "%", Better: Lower, Help: "Requests that were begun and given up when the deadline " +
				"that they carried had passed, of all: work for nothing."},
			{Name: "failed", Better: Lower, Help: "Requests that got neither an answer nor a refusal."},
			{Name: "leaked", Better: Lower, Help: "Requests still held when all has been quiet."},
		},
		plots: []Plot{
			{Name: plotGoodput, Title: "What reaches clients", Kind: Lines, X: Axis{Label: "load", Unit: "× " +
				"capacity"}, Y: Axis{Label: "goodput", Unit: "%"}},
			{Name: plotTTFT, Title: "Time to the first token, 99th percentile", Kind: Lines,
				X: Axis{Label: "load", Unit: "× capacity"},
				Y: Axis{Label: "time to first token", Unit: "ms", Log: true}},
		},
		thresholds: []threshold{goodputMark, refuseMark, overdueMark, leakedMark},
		duration:   func(z preset) time.Duration { return time.Duration(len(z.factors())) * z.seconds(5.3) },
		run:        playLoad,
	}
}

func playLoad(ctx context.Context, s *scenarioRun) error {
	var goodputs, ttfts Series
	z := s.preset
	rate := s.rates[z.shape()]
	capacity := rate * s.workOf(z.shape())
	for n, factor := range z.factors() {
		window := interval{z.seconds(0.8), z.seconds(4.2)}
		t := trial{name: fmt.Sprintf("%g×", factor), timing: z.timing, window: window, seed: uint64(n)}
		for i, name := range s.accounts {
			f := flow{account: name, tokens: z.tokens,
				due: poisson(newRand(uint64(n), uint64(i)), factor*rate/float64(len(s.accounts)), z.loadInterval(window))}
			if i%2 == 1 {
				f.deadline = z.deadline()
			}
			t.flows = append(t.flows, f)
		}
		r, err := s.runTrial(ctx, &t)
		if err != nil {
			return err
		}
		all := r.dueInWindow()
		goodput := r.goodput() / capacity
		possible := goodput / min(1, r.offered(s)/capacity)
		refuse := quantile(r.refusalTimes(all), 0.99)
		waits := r.waits(all)
		ttft := quantile(r.ttfts(all), 0.99)
		s.addRow(t.name, goodput, possible, jainIndex(r.service(s.accounts)), quantile(waits, 0.5), quantile(waits, 0.99),
			ratio(countOutcome(all, refused), len(all)), refuse, r.overdueValue(), ratio(countOutcome(all, expired),
				len(all)), float64(countOutcome(all, failed)), r.leakedValue())
		goodputs.X, goodputs.Y = append(goodputs.X, Value(factor)), append(goodputs.Y, Value(goodput))
		ttfts.X, ttfts.Y = append(ttfts.X, Value(factor)), append(ttfts.Y, Value(ttft))
		if factor >= 1 {
			s.observeGoodput(possible, goodput)
		}
		s.observe(markRefuse, refuse)
		s.observe(markOverdue, r.overdueValue())
		s.observe(markLeaked, r.leakedValue())
		s.noteFailures(r)
	}
	s.addSeries(plotGoodput, goodputs)
	s.addSeries(plotTTFT, ttfts)
	return nil
}

// offered is the work per second that was asked for in the window.
func (r *result) offered(s *scenarioRun) float64 {
	sum := 0.0
	for i, first := range r.samples {
		if len(first) == 0 {
			continue
		}
		f := r.trial.flows[first[0].flow]
		if r.trial.window.contains(first[0].due) {
			sum += s.workOf(requestShape{r.trial.timing, variedTokens(newRand(r.trial.seed, uint64(i)), f.tokens), f.input})
		}
	}
	return sum / r.trial.window.duration().Seconds()
}

// leakedValue is what was leaked, or NaN where that cannot be asked.
func (r *result) leakedValue() float64 {
	if r.leaked < 0 {
		return float64(Unmeasured())
	}
	return float64(r.leaked)
}

// overdueValue is what was dispatched past its deadline, or NaN where that cannot be known.
func (r *result) overdueValue() float64 {
	if r.slots == 0 {
		return float64(Unmeasured())
	}
	return float64(r.overdue())
}

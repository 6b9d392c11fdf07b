package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	chartGoodput = "goodput"
	chartTTFT    = "ttft"
)

var noOverdue = threshold{name: "dispatched past their deadline", max: true}

// factors are the loads, as multiples of the capacity.
func (p preset) factors() []float64 {
	if p.quick {
		return []float64{0.5, 1, 2, 5}
	}
	return []float64{0.5, 1, 2, 3, 5}
}

// deadline is that of the requests of half of the accounts. At high load the queue is longer.
func (p preset) deadline() time.Duration { return 3 * p.timing.serviceTime(p.tokens) }

// loadScenario has eight equal accounts, from half to five times the capacity.
func loadScenario() Scenario {
	return Scenario{
		Name: "load", Title: "from half to five times the capacity",
		question: "How much of the capacity reaches clients as the load grows, and how long do they wait?",
		method: func(p preset) string {
			return fmt.Sprintf("Eight accounts ask for the same (Poisson arrivals), together for a multiple of the capacity, for "+
				"%s at each load. An answer has about %d tokens, which take %s. Half of the accounts need the first token within "+
				"%s, and say so with `x-colonnade-deadline-ms`.",
				p.seconds(3.4), p.tokens, p.timing.serviceTime(p.tokens), p.deadline())
		},
		accounts: named(teamCount, team), minAccounts: 1,
		columns: []column{
			columnGoodput.withKey(false),
			{Name: "possible", Unit: "%", Better: higher, Key: true, Help: "goodput relative to what is possible: to the capacity or to " +
				"what was asked for, whichever is less."},
			columnJain.withHelp("Jain's index of the slot time of all accounts."),
			columnWaitP50,
			columnWaitP99,
			columnRefused,
			columnRefusal,
			{Name: "overdue", Better: lower, Help: "requests that reached an engine past their deadline. Only Colonnade and its " +
				"variants know the header that carries it; other gateways cannot keep it."},
			{Name: "expired", Unit: "%", Better: lower, Help: "requests that began and were given up at their deadline: work for " +
				"nothing."},
			columnFailed,
			columnLeaked,
		},
		charts: []chart{
			{Name: chartGoodput, Title: "Goodput by load", Kind: lineChart, X: axis{Label: "load", Unit: "× capacity"},
				Y: axis{Label: "goodput", Unit: "%"}},
			{Name: chartTTFT, Title: "Time to first token by load, 99th percentile", Kind: lineChart,
				X: axis{Label: "load", Unit: "× capacity"}, Y: axis{Label: "time to first token", Unit: "ms", Log: true}},
		},
		thresholds: []threshold{minGoodput, maxRefusalTime, noOverdue, noLeaks},
		duration:   func(p preset) time.Duration { return time.Duration(len(p.factors())) * p.seconds(5.3) },
		run:        runLoad,
	}
}

func runLoad(ctx context.Context, s *scenarioRun) error {
	var goodputs, ttfts series
	p := s.preset
	rate := s.rates[p.shape()]
	capacity := rate * s.work(p.shape())
	for n, factor := range p.factors() {
		t := trial{name: fmt.Sprintf("%g×", factor), timing: p.timing, window: interval{p.seconds(0.8), p.seconds(4.2)}, seed: uint64(n)}
		for i, name := range s.accounts {
			f := flow{account: name, tokens: p.tokens, due: poisson(newRand(uint64(n), uint64(i)),
				factor*rate/float64(len(s.accounts)), p.loadInterval(t.window))}
			if i%2 == 1 {
				f.deadline = p.deadline()
			}
			t.flows = append(t.flows, f)
		}
		r, err := s.runTrial(ctx, &t)
		if err != nil {
			return err
		}
		requests := r.dueInWindow()
		waits := r.waits(requests)
		goodput := r.goodput() / capacity
		row := figures{"goodput": goodput, "possible": goodput / min(1, r.offered(s)/capacity), "Jain": jainIndex(r.service(s.accounts)),
			"wait p50": quantile(waits, 0.5), "wait p99": quantile(waits, 0.99),
			"refused": ratio(countOutcome(requests, refused), len(requests)), "refusal p99": quantile(r.refusalTimes(requests), 0.99),
			"overdue": r.overdueValue(), "expired": ratio(countOutcome(requests, expired), len(requests)),
			"failed": float64(countOutcome(requests, failed)), "leaked": r.leakedValue()}
		goodputs.X, goodputs.Y = append(goodputs.X, Value(factor)), append(goodputs.Y, Value(goodput))
		ttfts.X, ttfts.Y = append(ttfts.X, Value(factor)), append(ttfts.Y, Value(quantile(r.ttfts(requests), 0.99)))
		if factor >= 1 {
			s.observe(minGoodput, row["possible"])
			s.checkCapacity(goodput)
		}
		s.observe(maxRefusalTime, row["refusal p99"])
		s.observe(noOverdue, row["overdue"])
		s.observe(noLeaks, row["leaked"])
		s.addRow(t.name, row)
	}
	s.addSeries(chartGoodput, goodputs)
	s.addSeries(chartTTFT, ttfts)
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
			sum += s.work(requestShape{r.trial.timing, variedTokens(newRand(r.trial.seed, uint64(i)), f.tokens), f.input})
		}
	}
	return sum / r.trial.window.duration().Seconds()
}

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
func (z size) factors() []float64 {
	if z.rough {
		return []float64{0.5, 1, 2, 5}
	}
	return []float64{0.5, 1, 2, 3, 5}
}

// deadline is what half of the accounts ask for. At high load the queue is longer than that.
func (z size) deadline() time.Duration { return 3 * z.pace.holds(z.tokens) }

// load is eight accounts that ask alike, from half to five times what the engines can do.
func load() Contest {
	return Contest{
		Name: "load", Title: "From half to five times what the engines can do",
		question: "How much of what the engines can do reaches clients as the load grows, and how long do they wait?",
		method: func(z size) string {
			return fmt.Sprintf("Eight accounts ask alike (Poisson), together for a multiple of the capacity, for %s at "+
				"each load. Every answer has about %d "+
				"tokens, which take %s. Half of the accounts say that they need the first token within %s, by "+
				"x-colonnade-deadline-ms.",
				z.long(3.4), z.tokens, z.pace.holds(z.tokens), z.deadline())
		},
		accounts: named(teams, team), few: 1,
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
		marks: []mark{goodputMark, refuseMark, overdueMark, leakedMark},
		lasts: func(z size) time.Duration { return time.Duration(len(z.factors())) * z.long(5.3) },
		play:  playLoad,
	}
}

func playLoad(ctx context.Context, s *stage) error {
	var goodputs, ttfts Series
	z := s.size
	rate := s.rates[z.shape()]
	capacity := rate * s.worth(z.shape())
	for n, factor := range z.factors() {
		window := span{z.long(0.8), z.long(4.2)}
		t := trial{name: fmt.Sprintf("%g×", factor), pace: z.pace, window: window, seed: uint64(n)}
		for i, name := range s.seats {
			f := flow{account: name, tokens: z.tokens,
				due: poisson(seeded(uint64(n), uint64(i)), factor*rate/float64(len(s.seats)), z.under(window))}
			if i%2 == 1 {
				f.deadline = z.deadline()
			}
			t.flows = append(t.flows, f)
		}
		r, err := s.trial(ctx, &t)
		if err != nil {
			return err
		}
		all := r.of()
		goodput := r.goodput() / capacity
		possible := goodput / min(1, r.offered(s)/capacity)
		refuse := quantile(r.refusals(all), 0.99)
		waits := r.waits(all)
		ttft := quantile(r.ttfts(all), 0.99)
		s.row(t.name, goodput, possible, jain(r.service(s.seats)), quantile(waits, 0.5), quantile(waits, 0.99),
			share(count(all, refused), len(all)), refuse, r.overdueOr(), share(count(all, expired),
				len(all)), float64(count(all, failed)), r.leakedOr())
		goodputs.X, goodputs.Y = append(goodputs.X, Value(factor)), append(goodputs.Y, Value(goodput))
		ttfts.X, ttfts.Y = append(ttfts.X, Value(factor)), append(ttfts.Y, Value(ttft))
		if factor >= 1 {
			s.reachGoodput(possible, goodput)
		}
		s.reach(markRefuse, refuse)
		s.reach(markOverdue, r.overdueOr())
		s.reach(markLeaked, r.leakedOr())
		s.failures(r)
	}
	s.plot(plotGoodput, goodputs)
	s.plot(plotTTFT, ttfts)
	return nil
}

// offered is the work per second that was asked for in the window.
func (r *result) offered(s *stage) float64 {
	sum := 0.0
	for i, first := range r.samples {
		if len(first) == 0 {
			continue
		}
		f := r.trial.flows[first[0].flow]
		if r.trial.window.has(first[0].due) {
			sum += s.worth(shape{r.trial.pace, about(seeded(r.trial.seed, uint64(i)), f.tokens), f.input})
		}
	}
	return sum / r.trial.window.length().Seconds()
}

// leakedOr is what was leaked, or NaN where that cannot be asked.
func (r *result) leakedOr() float64 {
	if r.leaked < 0 {
		return float64(Unmeasured())
	}
	return float64(r.leaked)
}

// overdueOr is what was dispatched past its deadline, or NaN where that cannot be known.
func (r *result) overdueOr() float64 {
	if r.slots == 0 {
		return float64(Unmeasured())
	}
	return float64(r.overdue())
}

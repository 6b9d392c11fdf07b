package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const markSecond = "obeying clients admitted at their next try"

// backlog is what a burst brings, in time that the engines need for it.
func (z preset) backlog() time.Duration {
	if z.quick {
		return 1800 * time.Millisecond
	}
	return 6 * time.Second
}

// quickCutoff is when a quick run is over, though clients may have been told to come back far later.
const quickCutoff = 7 * time.Second

// quickNote says when a quick run is over; others wait for everybody.
func (z preset) quickNote() string {
	if z.quick {
		return fmt.Sprintf(" A quick run ends after %s, whoever has not come back by then.", quickCutoff)
	}
	return ""
}

// retryScenario are clients that are refused and come back: when they are told to, or at once.
func retryScenario() Scenario {
	return Scenario{
		Name: "retry", Title: "Refused clients come back",
		question: "Are those who come back when they are told to served then, and does it pay not to obey?",
		method: func(z preset) string {
			return fmt.Sprintf("A burst within half a second brings what the engines need %s for, to gateways that have "+
				"answered next to nobody before: three accounts whose clients come back when they are told to "+
				"(where they are told nothing, as the official SDKs do; at most %d tries), and one, with an eighth of "+
				"all clients, whose clients come back after about %s, "+
				"whatever they are told (at most %d tries).", z.backlog(), maxTriesHonouring, ignoringDelay, maxTriesIgnoring) + z.quickNote()
		},
		accounts: named(4, team), minAccounts: 2, variant: variant{fresh: true},
		columns: []Column{
			{Name: "clients", Help: "How many came."},
			{Name: "at first", Unit: "%", Help: "Clients that were admitted at their first try."},
			{Name: "at second", Unit: "%", Better: Higher, Help: "Of those who were refused at first, the share that " +
				"was admitted at the next try."},
			{Name: "in the end", Unit: "%", Better: Higher, Help: "Clients that were answered at any try."},
			{Name: "tries", Better: Lower, Help: "Requests for each client: mean."},
			{Name: "told p50", Unit: "s", Help: "When to come back, as told: the median."},
			{Name: "told p99", Unit: "s", Help: "The same, 99th percentile."},
			{Name: "served in", Unit: "s", Better: Lower, Help: "From a client's first try until it was answered, the median."},
			{Name: "all in", Unit: "s", Better: Lower, Help: "Until the last one was answered."},
			{Name: "leaked", Better: Lower, Help: "Requests still held when all has been quiet."},
		},
		thresholds: []threshold{{name: markSecond, unit: "%", min: 0.8, quick: 0.6}, leakedMark},
		duration:   func(z preset) time.Duration { return z.backlog()*3/2 + time.Second },
		run:        playRetry,
	}
}

func playRetry(ctx context.Context, s *scenarioRun) error {
	z := s.preset
	clients := int(z.backlog().Seconds() * s.rates[z.shape()])
	obeying, disobeying := s.accounts[:len(s.accounts)-1], s.accounts[len(s.accounts)-1]
	in := interval{0, 500 * time.Millisecond}
	t := trial{name: "a burst", timing: z.timing, window: interval{0, requestTimeout}, seed: 11}
	if z.quick {
		t.cutoff = quickCutoff
	}
	for i, name := range obeying {
		t.flows = append(t.flows, flow{account: name, tokens: z.tokens, retry: honoursRetryAfter,
			due: poisson(newRand(11, uint64(i)), float64(clients*7/8/len(obeying))/in.duration().Seconds(), in)})
	}
	t.flows = append(t.flows, flow{account: disobeying, tokens: z.tokens, retry: ignoresRetryAfter,
		due: poisson(newRand(11, 99), float64(clients/8)/in.duration().Seconds(), in)})
	r, err := s.runTrial(ctx, &t)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		who  []string
	}{{"obeying", obeying}, {"disobeying", []string{disobeying}}} {
		f := r.retryStats(c.who)
		leaked := float64(Unmeasured())
		if c.name == "obeying" {
			leaked = r.leakedValue()
			s.observe(markSecond, f.second)
			s.observe(markLeaked, leaked)
		}
		s.addRow(c.name, float64(f.clients), f.first, f.second, f.any, f.tries, quantile(f.retryAfters, 0.5),
			quantile(f.retryAfters, 0.99),
			quantile(f.served, 0.5), quantile(f.served, 1), leaked)
	}
	s.noteFailures(r)
	return nil
}

// retryStats is what became of clients that come back.
type retryStats struct {
	clients                   int
	first, second, any, tries float64
	retryAfters, served       []float64 // in seconds
}

func (r *result) retryStats(accounts []string) retryStats {
	var f retryStats
	first, again, second, end, tries := 0, 0, 0, 0, 0
	for _, a := range r.samples {
		if len(a) == 0 || !slices.Contains(accounts, r.account(&a[0])) {
			continue
		}
		f.clients++
		tries += len(a)
		if a[0].outcome == completed {
			first++
		}
		if len(a) > 1 {
			again++
			if a[1].outcome == completed {
				second++
			}
		}
		if last := a[len(a)-1]; last.outcome == completed {
			end++
			f.served = append(f.served, (last.ended - a[0].due).Seconds())
		}
		for _, x := range a {
			if x.retryAfter >= 0 {
				f.retryAfters = append(f.retryAfters, x.retryAfter.Seconds())
			}
		}
	}
	f.first, f.second = ratio(first, f.clients), ratio(second, again)
	f.any, f.tries = ratio(end, f.clients), ratio(tries, f.clients)
	return f
}

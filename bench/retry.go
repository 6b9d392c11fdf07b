package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

var minSecondAttempt = threshold{name: "clients that honour Retry-After admitted at their second attempt", unit: "%", limit: 0.8, quick: 0.6}

// retryScenario has refused clients that come back: after Retry-After, or at once.
func retryScenario() Scenario {
	return Scenario{
		Name: "retry", Title: "refused clients come back",
		question: "Are clients that honour Retry-After served when they come back, and do clients that ignore it gain anything?",
		method: func(p preset) string {
			text := fmt.Sprintf("A burst within half a second brings work for %s, to gateways that have answered hardly any request "+
				"before. The clients of three accounts come back after Retry-After, or without that header as the official SDKs do; "+
				"they make at most %d attempts. The clients of one account, an eighth of all, come back after about %s, whatever "+
				"the header says; they make at most %d attempts.", p.backlog, maxAttemptsHonouring, ignoringDelay, maxAttemptsIgnoring)
			if p.retryCutoff > 0 {
				text += fmt.Sprintf(" A quick run ends after %s, even if clients have yet to come back.", p.retryCutoff)
			}
			return text
		},
		accounts: named(4, team), minAccounts: 2, variant: variant{fresh: true},
		columns: []column{
			{Name: "clients", Help: "number of clients."},
			{Name: "1st attempt", Unit: "%", Help: "clients that were admitted at their first attempt."},
			{Name: "2nd attempt", Unit: "%", Better: higher, Help: "of the clients that were refused and came back, those that were admitted " +
				"at their second attempt."},
			{Name: "any attempt", Unit: "%", Better: higher, Help: "clients that were answered at any attempt."},
			{Name: "attempts", Better: lower, Help: "requests per client, mean."},
			{Name: "Retry-After p50", Unit: "s", Help: "the Retry-After of refusals, median."},
			{Name: "Retry-After p99", Unit: "s", Help: "the same, 99th percentile."},
			{Name: "answered p50", Unit: "s", Better: lower, Help: "from a client's first attempt to the end of its answer, median."},
			{Name: "answered max", Unit: "s", Better: lower, Help: "the same, of the last client."},
			columnLeaked,
		},
		thresholds: []threshold{minSecondAttempt, noLeaks},
		duration:   func(p preset) time.Duration { return p.backlog*3/2 + time.Second },
		run:        runRetry,
	}
}

func runRetry(ctx context.Context, s *scenarioRun) error {
	p := s.preset
	clients := int(p.backlog.Seconds() * s.rates[p.shape()])
	honouring, ignoring := s.accounts[:len(s.accounts)-1], s.accounts[len(s.accounts)-1:]
	in := interval{0, 500 * time.Millisecond}
	t := trial{name: "burst", timing: p.timing, window: interval{0, requestTimeout}, cutoff: p.retryCutoff, seed: 11}
	for i, name := range honouring {
		t.flows = append(t.flows, flow{account: name, tokens: p.tokens, retry: honoursRetryAfter,
			due: poisson(newRand(11, uint64(i)), float64(clients*7/8/len(honouring))/in.duration().Seconds(), in)})
	}
	t.flows = append(t.flows, flow{account: ignoring[0], tokens: p.tokens, retry: ignoresRetryAfter,
		due: poisson(newRand(11, 99), float64(clients/8)/in.duration().Seconds(), in)})
	r, err := s.runTrial(ctx, &t)
	if err != nil {
		return err
	}
	row := r.retries(honouring)
	row["leaked"] = r.leakedValue()
	s.observe(minSecondAttempt, row["2nd attempt"])
	s.observe(noLeaks, row["leaked"])
	s.addRow("honour", row)
	s.addRow("ignore", r.retries(ignoring))
	return nil
}

// retries says what became of clients that come back.
func (r *result) retries(accounts []string) figures {
	var clients, first, again, second, answered, total int
	var retryAfters, times []float64 // in seconds
	for _, attempts := range r.samples {
		if len(attempts) == 0 || !slices.Contains(accounts, r.account(&attempts[0])) {
			continue
		}
		clients++
		total += len(attempts)
		if attempts[0].outcome == completed {
			first++
		}
		if len(attempts) > 1 {
			again++
			if attempts[1].outcome == completed {
				second++
			}
		}
		if last := attempts[len(attempts)-1]; last.outcome == completed {
			answered++
			times = append(times, (last.ended - attempts[0].due).Seconds())
		}
		for _, a := range attempts {
			if a.retryAfter >= 0 {
				retryAfters = append(retryAfters, a.retryAfter.Seconds())
			}
		}
	}
	return figures{"clients": float64(clients), "1st attempt": ratio(first, clients), "2nd attempt": ratio(second, again),
		"any attempt": ratio(answered, clients), "attempts": ratio(total, clients),
		"Retry-After p50": quantile(retryAfters, 0.5), "Retry-After p99": quantile(retryAfters, 0.99),
		"answered p50": quantile(times, 0.5), "answered max": quantile(times, 1)}
}

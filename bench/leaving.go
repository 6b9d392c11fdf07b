package bench

import (
	"context"
	"fmt"
	"math"
	"time"
)

// leavingAccounts are the accounts whose clients leave.
var leavingAccounts = named(4, func(i int) string { return team(i + 4) })

// maxRecovery is the time for which a cancelled request may be held, and as much again.
var (
	maxRecovery     = threshold{name: "recovery after a crowd has left", unit: "s", max: true, limit: 0.5, quick: 1}
	maxLateDispatch = threshold{name: "dispatched after their client had left, of those that left", unit: "%", max: true, limit: 0.01, quick: 0.05}
)

// leavingTimes are when the crowd comes, when it leaves, and when the trial ends.
func (p preset) leavingTimes() (come, leave, end time.Duration) {
	if p.quick {
		return 250 * time.Millisecond, time.Second, 2 * time.Second
	}
	return time.Second, 3500 * time.Millisecond, 6 * time.Second
}

// leavingScenario has many waiting clients that leave at the same moment.
func leavingScenario() Scenario {
	return Scenario{
		Name: "leaving", Title: "a crowd of clients leaves at once",
		question: "After a waiting crowd has left, how soon do the queue and the engines serve others again?",
		method: func(p preset) string {
			come, leave, end := p.leavingTimes()
			return fmt.Sprintf("One account asks for 15 %% of the capacity (Poisson arrivals) for %s. From %s to %s, %d clients of four "+
				"other accounts arrive, and at %s all of them close their connections. The queue is long enough for all. Recovery "+
				"is from when the last of them has closed its connection until no engine has a request of theirs. Clients and "+
				"engines record these moments themselves, so load that is sent late does not matter.", end, come, 2*come, p.clients, leave)
		},
		accounts: append(named(1, team), leavingAccounts...), minAccounts: 2, variant: variant{longQueue: true},
		columns: []column{
			{Name: "recovery", Unit: "s", Better: lower, Key: true, Help: "from when the last client has left until no engine has a " +
				"request of theirs."},
			columnWaitP99.withKey(false).withHelp("wait of the account that stays while the crowd is there: time to first token without " +
				"the engine's own time, 99th percentile."),
			{Name: "after", Unit: "ms", Better: lower, Key: true, Help: "the same, after the crowd has left."},
			{Name: "wasted", Unit: "s", Better: lower, Help: "slot time that engines spent on clients that had left."},
			{Name: "dispatched", Better: lower, Help: "requests that reached an engine more than 20 ms after their client had left."},
			columnRefused.withHelp("share of the crowd's requests that were refused, and so did not wait."),
			columnLeaked,
		},
		thresholds: []threshold{maxRecovery, maxLateDispatch, noLeaks},
		duration:   func(p preset) time.Duration { _, _, end := p.leavingTimes(); return end + time.Second },
		run:        runLeaving,
	}
}

func runLeaving(ctx context.Context, s *scenarioRun) error {
	p := s.preset
	come, leave, end := p.leavingTimes()
	t := trial{name: "leaving", timing: p.timing, window: interval{0, end}, seed: 9}
	t.flows = append(t.flows, flow{account: team(0), tokens: p.tokens,
		due: poisson(newRand(9, 0), 0.15*s.rates[p.shape()], t.window)})
	for _, name := range s.accounts[1:] {
		t.flows = append(t.flows, flow{account: name, tokens: p.tokens, behaviour: behaviour{disconnectAt: leave},
			due: burst(p.clients/len(s.accounts[1:]), interval{come, 2 * come})})
	}
	r, err := s.runTrial(ctx, &t)
	if err != nil {
		return err
	}
	requests := r.dueInWindow(s.accounts[1:]...)
	row := figures{"recovery": r.drainTime(requests), "wait p99": quantile(r.waits(r.dueIn(team(0), interval{come, leave})), 0.99),
		"after":  quantile(r.waits(r.dueIn(team(0), interval{leave, end})), 0.99),
		"wasted": r.wastedSeconds(), "dispatched": r.dispatchedLate(requests),
		"refused": ratio(countOutcome(requests, refused), len(requests)), "leaked": r.leakedValue()}
	s.observe(maxRecovery, row["recovery"])
	s.observe(maxLateDispatch, row["dispatched"]/float64(max(1, countOutcome(requests, disconnected))))
	s.observe(noLeaks, row["leaked"])
	s.addRow("", row)
	return nil
}

// dueIn are the requests of an account that were due in an interval.
func (r *result) dueIn(account string, in interval) []*sample {
	var found []*sample
	for s := range r.eachSample {
		if r.account(s) == account && in.contains(s.due) {
			found = append(found, s)
		}
	}
	return found
}

// dispatchedLate counts the requests that reached an engine after their client had left; NaN where that is unknown.
func (r *result) dispatchedLate(requests []*sample) float64 {
	if r.slots == 0 {
		return math.NaN()
	}
	n := 0
	for _, x := range requests {
		if j := r.job(x); j != nil && x.outcome == disconnected && j.arrived > x.ended+dispatchSlack {
			n++
		}
	}
	return float64(n)
}

// drainTime is how long after the last client of a crowd has left an engine still has a request of the crowd, in seconds; NaN
// where that is unknown.
func (r *result) drainTime(requests []*sample) float64 {
	if r.slots == 0 {
		return math.NaN()
	}
	var left, drained time.Duration
	for _, x := range requests {
		if x.outcome != disconnected {
			continue
		}
		left = max(left, x.ended)
		if j := r.job(x); j != nil {
			drained = max(drained, j.held.end)
		}
	}
	return max(0, drained-left).Seconds()
}

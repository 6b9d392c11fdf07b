package bench

import (
	"context"
	"fmt"
	"time"
)

// crowdAccounts are the accounts whose clients leave.
var crowdAccounts = named(4, func(i int) string { return team(i + 4) })

const (
	markRid  = "recovery when a crowd has left"
	markLeft = "dispatched after their client had left, of those that left"
)

// ridMark is by what is held after a cancelled request at most, and as much again.
var (
	ridMark  = threshold{name: markRid, unit: "s", max: 0.5, quick: 1}
	leftMark = threshold{name: markLeft, unit: "%", max: 0.01, quick: 0.05}
)

// leavingTimes are when the crowd comes, when it leaves, and when the trial ends.
func (z preset) leavingTimes() (come, leave, end time.Duration) {
	if z.quick {
		return 250 * time.Millisecond, time.Second, 2 * time.Second
	}
	return time.Second, 3500 * time.Millisecond, 6 * time.Second
}

// leavingScenario are many clients that wait and leave at the same moment.
func leavingScenario() Scenario {
	return Scenario{
		Name: "leaving", Title: "A crowd of clients leaves at once",
		title: func(z preset) string { return fmt.Sprintf("%d clients leave at once", z.clients) },
		question: "When a crowd that waits has gone, is it gone at once: from the queue, from the engines, and from " +
			"everybody's way?",
		method: func(z preset) string {
			come, leave, end := z.leavingTimes()
			return fmt.Sprintf("One account asks for 15 %% of the capacity (Poisson), all of %s. After %s, %d clients "+
				"of four other accounts come within as long, and all close "+
				"their connections at %s. The queue is long enough for all of them here. Recovery is from when the last "+
				"of them has closed its connection until no engine has any of their requests: clients and engines note "+
				"these moments themselves, so that it does not matter if new load is sent late.", end, come, z.clients, leave)
		},
		accounts: append(named(1, team), crowdAccounts...), minAccounts: 2, variant: variant{longQueue: true},
		columns: []Column{
			{Name: "recovery", Unit: "s", Better: Lower, Key: true, Help: "From when the last client has left until the " +
				"engines are rid of them all."},
			{Name: "wait p99", Unit: "ms", Better: Lower, Help: "Of the account that stays, while the crowd is there: " +
				"time to the first token less the engine's own."},
			{Name: "after", Unit: "ms", Better: Lower, Key: true, Help: "The same, once they have left."},
			{Name: "wasted", Unit: "s", Better: Lower, Help: "Slot time that engines spent on clients that had left."},
			{Name: "dispatched", Better: Lower, Help: "Requests that came to an engine more than 20 ms after their " +
				"client had left."},
			{Name: "refused", Unit: "%", Help: "Requests of the crowd that were refused: they had no queue to wait in."},
			{Name: "leaked", Better: Lower, Help: "Requests still held when all has been quiet."},
		},
		thresholds: []threshold{ridMark, leftMark, leakedMark},
		duration:   func(z preset) time.Duration { _, _, end := z.leavingTimes(); return end + time.Second },
		run:        playLeaving,
	}
}

func playLeaving(ctx context.Context, s *scenarioRun) error {
	z := s.preset
	come, leave, end := z.leavingTimes()
	t := trial{name: "leaving", timing: z.timing, window: interval{0, end}, seed: 9}
	t.flows = append(t.flows, flow{account: team(0), tokens: z.tokens,
		due: poisson(newRand(9, 0), 0.15*s.rates[z.shape()], t.window)})
	for _, name := range s.accounts[1:] {
		t.flows = append(t.flows, flow{account: name, tokens: z.tokens, behaviour: behaviour{disconnectAt: leave},
			due: burst(z.clients/len(s.accounts[1:]), interval{come, 2 * come})})
	}
	r, err := s.runTrial(ctx, &t)
	if err != nil {
		return err
	}
	crowd := r.dueInWindow(s.accounts[1:]...)
	dispatched := 0
	for _, x := range crowd {
		if j := r.job(x); j != nil && x.outcome == disconnected && j.arrived > x.ended+dispatchSlack {
			dispatched++
		}
	}
	recovery, late := r.drainTime(crowd), float64(dispatched)
	if r.slots == 0 { // nobody knows what came to the engines
		recovery, late = float64(Unmeasured()), float64(Unmeasured())
	}
	s.observe(markRid, recovery)
	s.observe(markLeft, late/float64(max(1, countOutcome(crowd, disconnected))))
	s.addRow("", recovery, quantile(r.waits(r.dueIn(team(0), interval{come, leave})), 0.99),
		quantile(r.waits(r.dueIn(team(0), interval{leave, end})), 0.99),
		r.wastedSeconds(), late, ratio(countOutcome(crowd, refused), len(crowd)), r.leakedValue())
	s.observe(markLeaked, r.leakedValue())
	s.noteFailures(r)
	return nil
}

// dueIn are an account's requests that were due in a span.
func (r *result) dueIn(account string, in interval) []*sample {
	var found []*sample
	for s := range r.eachSample {
		if r.account(s) == account && in.contains(s.due) {
			found = append(found, s)
		}
	}
	return found
}

// drainTime is how long after the last of a crowd has left, in seconds, an engine still has a request of one that has.
func (r *result) drainTime(crowd []*sample) float64 {
	var gone, until time.Duration
	for _, x := range crowd {
		if x.outcome != disconnected {
			continue
		}
		gone = max(gone, x.ended)
		if j := r.job(x); j != nil {
			until = max(until, j.held.end)
		}
	}
	return max(0, until-gone).Seconds()
}

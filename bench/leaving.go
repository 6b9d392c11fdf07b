package bench

import (
	"context"
	"fmt"
	"time"
)

// crowds are the accounts whose clients leave.
var crowds = named(4, func(i int) string { return team(i + 4) })

// leavingTimes are when the crowd comes, when it leaves, and when the trial ends.
func (z size) leavingTimes() (come, leave, end time.Duration) {
	if z.rough {
		return 250 * time.Millisecond, time.Second, 2 * time.Second
	}
	return time.Second, 3500 * time.Millisecond, 6 * time.Second
}

// clientsLeave are 2000 clients that wait and leave at the same moment.
func clientsLeave() Contest {
	return Contest{
		Name: "leaving", Title: "Thousands of clients leave at once",
		question: "When a crowd that waits has gone, is it gone at once: from the queue, from the engines, and from " +
			"everybody's way?",
		method: func(z size) string {
			come, leave, end := z.leavingTimes()
			return fmt.Sprintf("One account asks for 15 %% of the capacity (Poisson), all of %s. After %s, %d clients "+
				"of four other accounts come within as long, and all close "+
				"their connections at %s. The queue is long enough for all of them here. Recovery is from their leaving "+
				"until every request of the first account is "+
				"answered as if nobody else were there (its wait is below the engine's time to the first "+
				"token).", end, come, z.clients, leave)
		},
		accounts: append(named(1, team), crowds...), few: 2, longQueue: true,
		columns: []Column{
			{Name: "recovery", Unit: "s", Better: Lower, Help: "From the leaving until the account that stays is served " +
				"as if it were alone."},
			{Name: "wait p99", Unit: "ms", Better: Lower, Help: "Of the account that stays, while the crowd is there: " +
				"time to the first token less the engine's own."},
			{Name: "after", Unit: "ms", Better: Lower, Help: "The same, once they have left."},
			{Name: "wasted", Unit: "s", Better: Lower, Help: "Slot time that engines spent on clients that had left."},
			{Name: "dispatched", Better: Lower, Help: "Requests that came to an engine more than 20 ms after their " +
				"client had left."},
			{Name: "refused", Unit: "%", Help: "Requests of the crowd that were refused: they had no queue to wait in."},
			{Name: "leaked", Better: Lower, Help: "Requests still held when all has been quiet."},
		},
		marks: []mark{leakedMark},
		lasts: func(z size) time.Duration { _, _, end := z.leavingTimes(); return end + time.Second },
		play:  playLeaving,
	}
}

func playLeaving(ctx context.Context, s *stage) error {
	z := s.size
	come, leave, end := z.leavingTimes()
	t := trial{name: "leaving", pace: z.pace, window: span{0, end}, seed: 9}
	t.flows = append(t.flows, flow{account: team(0), tokens: z.tokens,
		due: poisson(seeded(9, 0), 0.15*s.rates[z.shape()], t.window)})
	for _, name := range s.seats[1:] {
		t.flows = append(t.flows, flow{account: name, tokens: z.tokens, conduct: conduct{leaves: leave},
			due: burst(z.clients/len(s.seats[1:]), span{come, 2 * come})})
	}
	r, err := s.trial(ctx, &t)
	if err != nil {
		return err
	}
	crowd := r.of(s.seats[1:]...)
	dispatched := 0
	for _, x := range crowd {
		if j := r.job(x); j != nil && x.fate == left && j.arrived > x.ended+slack {
			dispatched++
		}
	}
	recovery, late := r.recovered(team(0), leave), float64(dispatched)
	if r.slots == 0 { // nobody knows the engines' own time, nor what came to them
		recovery, late = float64(Unmeasured()), float64(Unmeasured())
	}
	s.row("", recovery, quantile(r.waits(r.due(team(0), span{come, leave})), 0.99),
		quantile(r.waits(r.due(team(0), span{leave, end})), 0.99),
		r.wasted(), late, share(count(crowd, refused), len(crowd)), r.leakedOr())
	s.reach(markLeaked, r.leakedOr())
	s.failures(r)
	return nil
}

// due are an account's requests that were due in a span.
func (r *result) due(account string, in span) []*sample {
	var found []*sample
	for s := range r.each {
		if r.account(s) == account && in.has(s.due) {
			found = append(found, s)
		}
	}
	return found
}

// recovered is how long after a moment it took, in seconds, until an account's requests waited less than the engine's
// own time to the first token, and all later ones too. Requests that were due before count: they are why others wait.
func (r *result) recovered(account string, since time.Duration) float64 {
	last := time.Duration(0)
	for s := range r.each {
		if r.account(s) != account || s.ended < since {
			continue
		}
		late := s.fate != answered || s.ttft() > 2*r.trial.pace.ttft
		if came := s.first; late && s.due < since {
			last = max(last, came-since) // it waited since before; what matters is when it was served
		} else if late {
			last = max(last, s.due-since)
		}
	}
	return last.Seconds()
}

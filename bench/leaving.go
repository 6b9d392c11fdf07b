package bench

import (
	"context"
	"fmt"
	"time"
)

// crowds are the accounts whose clients leave.
var crowds = named(4, func(i int) string { return team(i + 4) })

const (
	markRid  = "recovery when a crowd has left"
	markLeft = "dispatched after their client had left, of those that left"
)

// ridMark is by what is held after a cancelled request at most, and as much again.
var (
	ridMark  = mark{name: markRid, unit: "s", most: 0.5, rough: 1}
	leftMark = mark{name: markLeft, unit: "%", most: 0.01, rough: 0.05}
)

// leavingTimes are when the crowd comes, when it leaves, and when the trial ends.
func (z size) leavingTimes() (come, leave, end time.Duration) {
	if z.rough {
		return 250 * time.Millisecond, time.Second, 2 * time.Second
	}
	return time.Second, 3500 * time.Millisecond, 6 * time.Second
}

// clientsLeave are many clients that wait and leave at the same moment.
func clientsLeave() Contest {
	return Contest{
		Name: "leaving", Title: "A crowd of clients leaves at once",
		title: func(z size) string { return fmt.Sprintf("%d clients leave at once", z.clients) },
		question: "When a crowd that waits has gone, is it gone at once: from the queue, from the engines, and from " +
			"everybody's way?",
		method: func(z size) string {
			come, leave, end := z.leavingTimes()
			return fmt.Sprintf("One account asks for 15 %% of the capacity (Poisson), all of %s. After %s, %d clients "+
				"of four other accounts come within as long, and all close "+
				"their connections at %s. The queue is long enough for all of them here. Recovery is from when the last "+
				"of them has closed its connection until no engine has any of their requests: clients and engines note "+
				"these moments themselves, so that it does not matter if new load is sent late.", end, come, z.clients, leave)
		},
		accounts: append(named(1, team), crowds...), few: 2, kind: kind{longQueue: true},
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
		marks: []mark{ridMark, leftMark, leakedMark},
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
	recovery, late := r.rid(crowd), float64(dispatched)
	if r.slots == 0 { // nobody knows what came to the engines
		recovery, late = float64(Unmeasured()), float64(Unmeasured())
	}
	s.reach(markRid, recovery)
	s.reach(markLeft, late/float64(max(1, count(crowd, left))))
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

// rid is how long after the last of a crowd has left, in seconds, an engine still has a request of one that has.
func (r *result) rid(crowd []*sample) float64 {
	var gone, until time.Duration
	for _, x := range crowd {
		if x.fate != left {
			continue
		}
		gone = max(gone, x.ended)
		if j := r.job(x); j != nil {
			until = max(until, j.held.until)
		}
	}
	return max(0, until-gone).Seconds()
}

package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	bigToken  = 12 << 10
	slowTimes = 8 // as long as an answer takes, a slow client takes to read it
)

// slowRate is how many bytes a slow client reads each second.
func (z size) slowRate() int {
	return int(float64(bigToken*z.tokens) / (slowTimes * z.pace.holds(z.tokens).Seconds()))
}

// slowReaders are clients that read more slowly than engines write.
func slowReaders() Contest {
	return Contest{
		Name: "slow-readers", Title: "Clients that read slowly",
		question: "Do clients that read slowly hold engines up, and with them everybody else?",
		method: func(z size) string {
			return fmt.Sprintf("Four accounts ask for 80 %% of the capacity together, and four for 40 %% more, whose "+
				"answers have %d KiB and whose clients "+
				"read %d KiB a second from a buffer of %d KiB: %d times as long as the answer "+
				"takes.", z.tokens*bigToken>>10, z.slowRate()>>10, slowBuffer>>10, slowTimes)
		},
		accounts: named(teams, team), engines: 1,
		columns: []Column{
			{Name: "goodput", Unit: "%", Better: Higher, Help: "Work of answered requests, of what the engines can do."},
			{Name: "held", Unit: "×", Better: Lower, Help: "How long requests hold their slot, of how long the engine " +
				"needs for them: mean."},
			{Name: "wait p50", Unit: "ms", Better: Lower, Help: "Time to the first token less the engine's own, the median."},
			{Name: "wait p99", Unit: "ms", Better: Lower, Help: "The same, 99th percentile."},
			{Name: "refused", Unit: "%", Help: "Requests that were refused, of all."},
			{Name: "failed", Better: Lower, Help: "Requests that got neither a whole answer nor a refusal."},
			{Name: "leaked", Better: Lower, Help: "Requests still held when all has been quiet."},
		},
		marks: []mark{goodputMark, leakedMark},
		lasts: func(z size) time.Duration { return z.long(9.8) },
		play:  playSlow,
	}
}

func playSlow(ctx context.Context, s *stage) error {
	z := s.size
	rate := s.rates[z.shape()]
	t := trial{name: "slow readers", pace: z.pace, window: span{z.long(2), z.long(6.5)}, seed: 7}
	t.cut = t.window.until + z.grace + slowTimes*z.pace.holds(z.tokens) // those who read slowly shall come to the end
	for i, name := range s.seats {
		f := flow{account: name, tokens: z.tokens}
		each := 0.2 * rate
		if i >= 4 {
			each = 0.1 * rate
			f.big, f.conduct.slow = bigToken, z.slowRate()
		}
		f.due = poisson(seeded(7, uint64(i)), each, span{0, t.window.until})
		t.flows = append(t.flows, f)
	}
	r, err := s.trial(ctx, &t)
	if err != nil {
		return err
	}
	nan := float64(Unmeasured())
	goodput := r.goodput() / (rate * s.worth(z.shape()))
	all := r.of()
	s.row("all", goodput, r.held(all), nan, nan, share(count(all, refused), len(all)), float64(count(all, failed)),
		r.leakedOr())
	for _, c := range []struct {
		name string
		who  []string
	}{{"slow readers", s.seats[4:]}, {"others", s.seats[:4]}} {
		who := r.of(c.who...)
		waits := r.waits(who)
		s.row(c.name, nan, r.held(who), quantile(waits, 0.5), quantile(waits, 0.99),
			share(count(who, refused), len(who)), float64(count(who, failed)), nan)
	}
	s.reachGoodput(goodput, goodput)
	s.reach(markLeaked, r.leakedOr())
	s.failures(r)
	return nil
}

// held is how long requests hold their slot, as a multiple of what the engine needs: the mean.
func (r *result) held(samples []*sample) float64 {
	var held, need time.Duration
	for _, s := range samples {
		if j := r.job(s); j != nil && j.served {
			held += j.held.length()
			need += r.trial.pace.holds(j.tokens)
		}
	}
	return held.Seconds() / need.Seconds()
}

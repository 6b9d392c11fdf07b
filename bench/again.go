package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const markSecond = "obeying clients admitted at their next try"

// backlog is what a burst brings, in time that the engines need for it.
func (z size) backlog() time.Duration {
	if z.rough {
		return 1800 * time.Millisecond
	}
	return 6 * time.Second
}

// roughCut is when a quick run is over, though clients may have been told to come back far later.
const roughCut = 7 * time.Second

// ends says when a quick run is over; others wait for everybody.
func (z size) ends() string {
	if z.rough {
		return fmt.Sprintf(" A quick run ends after %s, whoever has not come back by then.", roughCut)
	}
	return ""
}

// comeBack are clients that are refused and come back: when they are told to, or at once.
func comeBack() Contest {
	return Contest{
		Name: "retry", Title: "Refused clients come back",
		question: "Are those who come back when they are told to served then, and does it pay not to obey?",
		method: func(z size) string {
			return fmt.Sprintf("A burst within half a second brings what the engines need %s for, to gateways that have "+
				"answered next to nobody before: three accounts whose clients come back when they are told to "+
				"(where they are told nothing, as the official SDKs do; at most %d tries), and one, with an eighth of "+
				"all clients, whose clients come back after about %s, "+
				"whatever they are told (at most %d tries).", z.backlog(), triesObeying, disobeysAfter, mostTries) + z.ends()
		},
		accounts: named(4, team), few: 2, kind: kind{untaught: true},
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
		marks: []mark{{name: markSecond, unit: "%", least: 0.8, rough: 0.6}, leakedMark},
		lasts: func(z size) time.Duration { return z.backlog()*3/2 + time.Second },
		play:  playRetry,
	}
}

func playRetry(ctx context.Context, s *stage) error {
	z := s.size
	clients := int(z.backlog().Seconds() * s.rates[z.shape()])
	obeying, disobeying := s.seats[:len(s.seats)-1], s.seats[len(s.seats)-1]
	in := span{0, 500 * time.Millisecond}
	t := trial{name: "a burst", pace: z.pace, window: span{0, patient}, seed: 11}
	if z.rough {
		t.cut = roughCut
	}
	for i, name := range obeying {
		t.flows = append(t.flows, flow{account: name, tokens: z.tokens, retry: obeys,
			due: poisson(seeded(11, uint64(i)), float64(clients*7/8/len(obeying))/in.length().Seconds(), in)})
	}
	t.flows = append(t.flows, flow{account: disobeying, tokens: z.tokens, retry: disobeys,
		due: poisson(seeded(11, 99), float64(clients/8)/in.length().Seconds(), in)})
	r, err := s.trial(ctx, &t)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		who  []string
	}{{"obeying", obeying}, {"disobeying", []string{disobeying}}} {
		f := r.returns(c.who)
		leaked := float64(Unmeasured())
		if c.name == "obeying" {
			leaked = r.leakedOr()
			s.reach(markSecond, f.second)
			s.reach(markLeaked, leaked)
		}
		s.row(c.name, float64(f.clients), f.first, f.second, f.end, f.tries, quantile(f.told, 0.5),
			quantile(f.told, 0.99),
			quantile(f.served, 0.5), quantile(f.served, 1), leaked)
	}
	s.failures(r)
	return nil
}

// returns is what became of clients that come back.
type returns struct {
	clients                   int
	first, second, end, tries float64
	told, served              []float64 // in seconds
}

func (r *result) returns(accounts []string) returns {
	var f returns
	first, again, second, end, tries := 0, 0, 0, 0, 0
	for _, a := range r.samples {
		if len(a) == 0 || !slices.Contains(accounts, r.account(&a[0])) {
			continue
		}
		f.clients++
		tries += len(a)
		if a[0].fate == answered {
			first++
		}
		if len(a) > 1 {
			again++
			if a[1].fate == answered {
				second++
			}
		}
		if last := a[len(a)-1]; last.fate == answered {
			end++
			f.served = append(f.served, (last.ended - a[0].due).Seconds())
		}
		for _, x := range a {
			if x.retryAfter >= 0 {
				f.told = append(f.told, x.retryAfter.Seconds())
			}
		}
	}
	f.first, f.second = share(first, f.clients), share(second, again)
	f.end, f.tries = share(end, f.clients), share(tries, f.clients)
	return f
}

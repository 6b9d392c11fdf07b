package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// unfair is a scenario in which one account wants far more than others, in one way or another.
type unfair struct {
	greedy  flow   // that account's
	others  []flow // accounts that also want more than their share
	quiet   []flow // accounts that want less, in both trials
	alone   span   // how long these are measured without anybody else
	crowded span   // and with all
	base    shape  // what capacity is reckoned in
	pace    pace   // of the engines
	byToken bool   // service is also compared by tokens
}

const (
	markGoodput = "goodput"
	markJain    = "Jain's index of service"
	markTokens  = "Jain's index of tokens"
	markQuiet   = "a quiet account's time to first token, times alone"
	markRefuse  = "time to refuse, p99"
	markOverdue = "dispatched past their deadline"
	markLeaked  = "leaked"
)

// The marks, as the contract of the benchmark has them.
var (
	goodputMark = mark{name: markGoodput, unit: "%", least: 0.95, rough: 0.8}
	jainMark    = mark{name: markJain, least: 0.98, rough: 0.9}
	tokensMark  = mark{name: markTokens, least: 0.98, rough: 0.9}
	quietMark   = mark{name: markQuiet, unit: "×", most: 1.5, rough: 6}
	refuseMark  = mark{name: markRefuse, unit: "ms", most: 10, rough: 50}
	overdueMark = mark{name: markOverdue, none: true}
	leakedMark  = mark{name: markLeaked, none: true}
)

const plotQuiet = "quiet"

func unfairColumns() []Column {
	return []Column{
		{Name: "goodput", Unit: "%", Better: Higher, Help: "Work of answered requests, of what the engines can do."},
		{Name: "Jain", Better: Higher, Help: "Jain's index over the slot time of the accounts that want more than their " +
			"share: 1 is fair."},
		{Name: "tokens", Better: Higher, Help: "The same over tokens, in and out."},
		{Name: "service", Unit: "%", Help: "Slot time that the account (or each of them) got, of all slots."},
		{Name: "wait p50", Unit: "ms", Better: Lower, Help: "Time to the first token less the engine's own, the median."},
		{Name: "wait p99", Unit: "ms", Better: Lower, Help: "The same, 99th percentile."},
		{Name: "alone p99", Unit: "ms", Better: Lower, Help: "The wait of quiet accounts when nobody else asks."},
		{Name: "TTFT p99", Unit: "ms", Better: Lower, Help: "Time to the first token, 99th percentile, counted from " +
			"when the request was due."},
		{Name: "× alone", Unit: "×", Better: Lower, Help: "TTFT p99, times that of the same requests when nobody else asks."},
		{Name: "× from slot", Unit: "×", Better: Lower, Help: "The same, but counted from the next slot that " +
			"frees and that no other quiet account takes: before that, it cannot begin."},
		{Name: "refused", Unit: "%", Help: "Requests that were refused, of all."},
		{Name: "refused in", Unit: "ms", Better: Lower, Help: "Time to a refusal on arrival, 99th percentile."},
		{Name: "leaked", Better: Lower, Help: "Requests still held when all has been quiet."},
	}
}

func quietPlot(with string) Plot {
	return Plot{
		Name: plotQuiet, Title: "A quiet account's time to first token beside " + with, Kind: CDF,
		X: Axis{Label: "time to first token", Unit: "ms", Log: true}, Y: Axis{Label: "share of requests at or below"},
	}
}

// play measures the quiet accounts alone, then everybody.
func (u *unfair) play(ctx context.Context, s *stage) error {
	alone, err := s.trial(ctx, &trial{name: "alone", pace: u.pace, flows: u.quiet, window: u.alone, seed: 1})
	if err != nil {
		return err
	}
	flows := u.quiet
	for i := range flows {
		flows[i].due = steady(seeded(2, uint64(i)), float64(len(flows[i].due))/u.alone.until.Seconds(),
			span{0, u.crowded.until})
	}
	flows = append(append(slices.Clone(flows), u.others...), u.greedy)
	all, err := s.trial(ctx, &trial{name: "together", pace: u.pace, flows: flows, window: u.crowded, seed: 3})
	if err != nil {
		return err
	}
	u.report(s, alone, all)
	return nil
}

func (u *unfair) report(s *stage, alone, all *result) {
	nan := float64(Unmeasured())
	want := append(accountsOf(u.others), u.greedy.account)
	capacity := s.rates[u.base] * s.worth(u.base)
	if s.engines == nil && u.byToken {
		capacity = nan // of engines that are not ours, it is known in tokens of common requests only
	}
	goodput, fair, tokens := all.goodput()/capacity, jain(all.service(want)), jain(all.tokens(want))
	if !u.byToken {
		tokens = nan
	}
	everybody := all.of()
	refuse := quantile(all.refusals(everybody), 0.99)
	leaked := max(alone.leakedOr(), all.leakedOr())
	turnedAway := share(count(everybody, refused), len(everybody))
	s.row("all", goodput, fair, tokens, nan, nan, nan, nan, nan, nan, nan, turnedAway, refuse, leaked)

	quiet := accountsOf(u.quiet)
	before := alone.of(quiet...)
	ttft := quantile(alone.ttfts(before), 0.99)
	waited := quantile(alone.waits(before), 0.99)
	for _, c := range []struct {
		name     string
		accounts []string
	}{{"quiet accounts", quiet}, {"others", accountsOf(u.others)}, {u.greedy.account, []string{u.greedy.account}}} {
		who := all.of(c.accounts...)
		raw, slot := quantile(all.ttfts(who), 0.99), quantile(all.fromSlot(who), 0.99)
		waits := all.waits(who)
		own, first, second := nan, nan, nan
		if c.name == "quiet accounts" {
			own, first, second = waited, raw/ttft, slot/ttft
			s.reach(markQuiet, second)
		}
		got := 0.0
		for _, x := range all.service(c.accounts) {
			got += x / float64(len(c.accounts))
		}
		if all.slots > 0 {
			got /= float64(all.slots) * u.crowded.length().Seconds()
		} else {
			got = nan
		}
		s.row(c.name, nan, nan, nan, got, quantile(waits, 0.5), quantile(waits, 0.99), own, raw, first, second,
			share(count(who, refused), len(who)), quantile(all.refusals(who), 0.99), nan)
	}
	s.reachGoodput(goodput, goodput)
	s.reach(markJain, fair)
	s.reach(markTokens, tokens)
	s.reach(markRefuse, refuse)
	s.reach(markLeaked, leaked)
	s.plot(plotQuiet, Series{X: Quantiles(alone.ttfts(before)), Dashed: true, Name: s.gateway.Name + ", alone"})
	s.plot(plotQuiet, Series{X: Quantiles(all.ttfts(all.of(quiet...)))})
	s.failures(all)
}

// unfairAccounts are who asks in an unfair scenario, those first that cannot be left out.
func unfairAccounts(greedy string) []string {
	return append([]string{quiet(0), greedy, team(0), team(1), quiet(1), team(2), quiet(2)}, team(3))
}

// seated are those who take part in an unfair scenario: quiet accounts, and others than the greedy one.
func (s *stage) seated(greedy string) (quiet, others []string) {
	for _, name := range s.seats {
		switch {
		case strings.HasPrefix(name, "quiet"):
			quiet = append(quiet, name)
		case name != greedy:
			others = append(others, name)
		}
	}
	return quiet, others
}

func accountsOf(flows []flow) []string {
	var all []string
	for _, f := range flows {
		all = append(all, f.account)
	}
	return all
}

// worth is the work of one request of a shape: in seconds of a slot, or of a gateway whose engines are not ours, in
// events.
func (s *stage) worth(sh shape) float64 {
	if s.engines == nil {
		return s.events.of(sh.tokens)
	}
	return sh.pace.holds(sh.tokens).Seconds()
}

// failures notes requests that failed, with one example.
func (s *stage) failures(r *result) {
	n, example := 0, ""
	for x := range r.each {
		if x.fate == failed {
			n++
			example = x.problem
		}
	}
	if n > 0 {
		s.note("%s, %s: %d requests failed, such as by: %s.", s.gateway.Name, r.trial.name, n, example)
	}
}

// flood is one account that asks a hundred times as often as others.
func flood() Contest {
	return Contest{
		Name: "flood", Title: "One account asks a hundred times as often as others",
		question: "Do others get their share of the service, and how much longer does an account wait that asks for little?",
		method: func(z size) string {
			return fmt.Sprintf("Four accounts ask for a fourth more than their share of the capacity each (Poisson), "+
				"and one for %d times as much as "+
				"one of these. Three quiet accounts ask now and then, for 5 %% of the capacity each: first alone, then "+
				"beside the others. "+
				"Every request wants %d tokens, which take %s.", z.louder, z.tokens, z.pace.holds(z.tokens))
		},
		accounts: unfairAccounts(flooder), few: 3,
		columns: unfairColumns(), plots: []Plot{quietPlot("one that floods")},
		marks: []mark{goodputMark, jainMark, quietMark, refuseMark, leakedMark},
		lasts: func(z size) time.Duration { return z.long(25) },
		play: func(ctx context.Context, s *stage) error {
			z, base := s.size, s.size.shape()
			u := unfair{base: base, pace: z.pace, alone: span{0, z.long(5)}, crowded: span{z.long(2), z.long(18.5)}}
			rate := s.rates[base]
			quiet, others := s.seated(flooder)
			for i, name := range quiet {
				u.quiet = append(u.quiet, flow{account: name, tokens: z.tokens,
					due: steady(seeded(1, uint64(i)), 0.05*rate, u.alone)})
			}
			ask := func(account string, chance uint64, rate float64) flow {
				return flow{account: account, tokens: z.tokens, due: poisson(seeded(4, chance), rate,
					span{0, u.crowded.until})}
			}
			much := 1.25 * rate * (1 - 0.05*float64(len(quiet))) / float64(len(others)+1)
			for i, name := range others {
				u.others = append(u.others, ask(name, uint64(i), much))
			}
			u.greedy = ask(flooder, 99, much*float64(z.louder))
			return u.play(ctx, s)
		},
	}
}

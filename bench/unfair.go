package bench

import (
	"context"
	"fmt"
	"math"
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
	markQuiet   = "a quiet account's time to first token from the next slot, times alone"
	markWait    = "a quiet account's wait from the next slot, times alone"
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
	waitMark    = mark{name: markWait, unit: "×", most: 1.5, rough: 60}
	refuseMark  = mark{name: markRefuse, unit: "ms", most: 10, rough: 50}
	overdueMark = mark{name: markOverdue, none: true}
	leakedMark  = mark{name: markLeaked, none: true}
)

const plotQuiet = "quiet"

func unfairColumns() []Column {
	return []Column{
		{Name: "goodput", Unit: "%", Better: Higher, Key: true, Help: "Work of answered requests, of what the engines can do."},
		{Name: "Jain", Better: Higher, Key: true, Help: "Jain's index over the slot time of the accounts that want more than their " +
			"share: 1 is fair."},
		{Name: "tokens", Better: Higher, Key: true, Help: "The same over tokens, in and out."},
		{Name: "service", Unit: "%", Help: "Slot time that the account (or each of them) got, of all slots."},
		{Name: "wait p50", Unit: "ms", Better: Lower, Help: "Time to the first token less the engine's own, the median. " +
			"Of others it is that of requests that were not refused; of quiet accounts it is, here and in what " +
			"follows, that of all, and one that was refused or failed counts as a minute."},
		{Name: "wait p99", Unit: "ms", Better: Lower, Key: true, Help: "The same, 99th percentile."},
		{Name: "alone p99", Unit: "ms", Better: Lower, Help: "The wait of quiet accounts when nobody else asks."},
		{Name: "TTFT p99", Unit: "ms", Better: Lower, Help: "Time to the first token, 99th percentile, counted from " +
			"when the request was due."},
		{Name: "× alone", Unit: "×", Better: Lower, Key: true, Help: "TTFT p99, times that of the same requests " +
			"when nobody else asks."},
		{Name: "× from slot", Unit: "×", Better: Lower, Key: true, Help: "The same, but counted from the next slot that " +
			"frees, in both."},
		{Name: "× own slot", Unit: "×", Better: Lower, Help: "The same, but slots are left to others that another " +
			"quiet account takes, or that free while the request is on its way, as long as it takes alone."},
		{Name: "wait from slot", Unit: "ms", Better: Lower, Help: "The wait counted from the next slot that frees, " +
			"99th percentile."},
		{Name: "× wait", Unit: "×", Better: Lower, Key: true, Help: "That, times what it is when nobody else asks."},
		{Name: "passed over", Unit: "%", Better: Lower, Help: "Requests that saw a slot which was free for them go to " +
			"another request first."},
		{Name: "refused", Unit: "%", Help: "Requests that were refused, of all."},
		{Name: "refused in", Unit: "ms", Better: Lower, Help: "Time to a refusal on arrival, 99th percentile."},
		{Name: "leaked", Better: Lower, Help: "Requests still held when all has been quiet."},
	}
}

// unfairKeys leaves out who is greedy: how little he waits is no merit.
func unfairKeys() []string { return []string{"all", "quiet accounts", "others"} }

// play measures the quiet accounts alone, then everybody.
func (u *unfair) play(ctx context.Context, s *stage) error {
	alone, err := s.trial(ctx, &trial{name: "alone", pace: u.pace, flows: u.quiet, window: u.alone, seed: 1})
	if err != nil {
		return err
	}
	flows := u.quiet
	for i := range flows {
		flows[i].due = steady(seeded(2, uint64(i)), float64(len(flows[i].due))/u.alone.until.Seconds(),
			s.size.under(u.crowded))
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
	s.row("all", goodput, fair, tokens, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, turnedAway, refuse, leaked)

	u.reportQuiet(s, alone, all)
	for _, c := range []struct {
		name     string
		accounts []string
	}{{"others", accountsOf(u.others)}, {u.greedy.account, []string{u.greedy.account}}} {
		who := all.of(c.accounts...)
		waits := all.waits(who)
		s.row(c.name, nan, nan, nan, all.partOf(c.accounts), quantile(waits, 0.5), quantile(waits, 0.99), nan,
			quantile(all.ttfts(who), 0.99), nan, nan, nan, nan, nan, nan, share(count(who, refused), len(who)),
			quantile(all.refusals(who), 0.99), nan)
	}
	s.reachGoodput(goodput, goodput)
	s.reach(markJain, fair)
	s.reach(markTokens, tokens)
	s.reach(markRefuse, refuse)
	s.reach(markLeaked, leaked)
	s.failures(all)
}

// partOf is the part of all slots that an account got, or each of several; NaN where the slots are not known.
func (r *result) partOf(accounts []string) float64 {
	if r.slots == 0 {
		return math.NaN()
	}
	return r.part(accounts) / float64(len(accounts))
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
				"Every request wants %d tokens, which take %s.", z.louder, z.tokens, z.pace.holds(z.tokens)) + quietMethod
		},
		accounts: unfairAccounts(flooder), few: 3,
		columns: unfairColumns(), keyCases: unfairKeys(), plots: []Plot{quietPlot("one that floods")},
		marks: []mark{goodputMark, jainMark, quietMark, waitMark, refuseMark, leakedMark},
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
					z.under(u.crowded))}
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

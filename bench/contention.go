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
	greedy    flow         // that account's
	others    []flow       // accounts that also want more than their share
	quiet     []flow       // accounts that want less, in both trials
	alone     interval     // how long these are measured without anybody else
	contended interval     // and with all
	base      requestShape // what capacity is reckoned in
	timing    timing       // of the engines
	byToken   bool         // service is also compared by tokens
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
	goodputMark = threshold{name: markGoodput, unit: "%", min: 0.95, quick: 0.8}
	jainMark    = threshold{name: markJain, min: 0.98, quick: 0.9}
	tokensMark  = threshold{name: markTokens, min: 0.98, quick: 0.9}
	quietMark   = threshold{name: markQuiet, unit: "×", max: 1.5, quick: 6}
	waitMark    = threshold{name: markWait, unit: "×", max: 1.5, quick: 60}
	refuseMark  = threshold{name: markRefuse, unit: "ms", max: 10, quick: 50}
	overdueMark = threshold{name: markOverdue, zero: true}
	leakedMark  = threshold{name: markLeaked, zero: true}
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
func (u *unfair) play(ctx context.Context, s *scenarioRun) error {
	alone, err := s.runTrial(ctx, &trial{name: "alone", timing: u.timing, flows: u.quiet, window: u.alone, seed: 1})
	if err != nil {
		return err
	}
	flows := u.quiet
	for i := range flows {
		flows[i].due = steady(newRand(2, uint64(i)), float64(len(flows[i].due))/u.alone.end.Seconds(),
			s.preset.loadInterval(u.contended))
	}
	flows = append(append(slices.Clone(flows), u.others...), u.greedy)
	all, err := s.runTrial(ctx, &trial{name: "together", timing: u.timing, flows: flows, window: u.contended, seed: 3})
	if err != nil {
		return err
	}
	u.report(s, alone, all)
	return nil
}

func (u *unfair) report(s *scenarioRun, alone, all *result) {
	nan := float64(Unmeasured())
	want := append(accountsOf(u.others), u.greedy.account)
	capacity := s.rates[u.base] * s.workOf(u.base)
	if s.engines == nil && u.byToken {
		capacity = nan // of engines that are not ours, it is known in tokens of common requests only
	}
	goodput, fair, tokens := all.goodput()/capacity, jainIndex(all.service(want)), jainIndex(all.tokensServed(want))
	if !u.byToken {
		tokens = nan
	}
	everybody := all.dueInWindow()
	refuse := quantile(all.refusalTimes(everybody), 0.99)
	leaked := max(alone.leakedValue(), all.leakedValue())
	turnedAway := ratio(countOutcome(everybody, refused), len(everybody))
	s.addRow("all", goodput, fair, tokens, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, turnedAway, refuse, leaked)

	u.reportQuiet(s, alone, all)
	for _, c := range []struct {
		name     string
		accounts []string
	}{{"others", accountsOf(u.others)}, {u.greedy.account, []string{u.greedy.account}}} {
		who := all.dueInWindow(c.accounts...)
		waits := all.waits(who)
		s.addRow(c.name, nan, nan, nan, all.meanSlotShare(c.accounts), quantile(waits, 0.5), quantile(waits, 0.99), nan,
			quantile(all.ttfts(who), 0.99), nan, nan, nan, nan, nan, nan, ratio(countOutcome(who, refused), len(who)),
			quantile(all.refusalTimes(who), 0.99), nan)
	}
	s.observeGoodput(goodput, goodput)
	s.observe(markJain, fair)
	s.observe(markTokens, tokens)
	s.observe(markRefuse, refuse)
	s.observe(markLeaked, leaked)
	s.noteFailures(all)
}

// meanSlotShare is the part of all slots that an account got, or each of several; NaN where the slots are not known.
func (r *result) meanSlotShare(accounts []string) float64 {
	if r.slots == 0 {
		return math.NaN()
	}
	return r.slotShare(accounts) / float64(len(accounts))
}

// unfairAccounts are who asks in an unfair scenario, those first that cannot be left out.
func unfairAccounts(greedy string) []string {
	return append([]string{quiet(0), greedy, team(0), team(1), quiet(1), team(2), quiet(2)}, team(3))
}

// participants are those who take part in an unfair scenario: quiet accounts, and others than the greedy one.
func (s *scenarioRun) participants(greedy string) (quiet, others []string) {
	for _, name := range s.accounts {
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

// workOf is the work of one request of a shape: in seconds of a slot, or of a gateway whose engines are not ours, in
// events.
func (s *scenarioRun) workOf(sh requestShape) float64 {
	if s.engines == nil {
		return s.events.expected(sh.tokens)
	}
	return sh.timing.serviceTime(sh.tokens).Seconds()
}

// noteFailures notes requests that failed, with one example.
func (s *scenarioRun) noteFailures(r *result) {
	n, example := 0, ""
	for x := range r.eachSample {
		if x.outcome == failed {
			n++
			example = x.problem
		}
	}
	if n > 0 {
		s.note("%s, %s: %d requests failed, such as by: %s.", s.runner.gateway.Name, r.trial.name, n, example)
	}
}

// floodScenario is one account that asks a hundred times as often as others.
func floodScenario() Scenario {
	return Scenario{
		Name: "flood", Title: "One account asks a hundred times as often as others",
		question: "Do others get their share of the service, and how much longer does an account wait that asks for little?",
		method: func(z preset) string {
			return fmt.Sprintf("Four accounts ask for a fourth more than their share of the capacity each (Poisson), "+
				"and one for %d times as much as "+
				"one of these. Three quiet accounts ask now and then, for 5 %% of the capacity each: first alone, then "+
				"beside the others. "+
				"Every request wants %d tokens, which take %s.", z.floodFactor, z.tokens, z.timing.serviceTime(z.tokens)) + quietMethod
		},
		accounts: unfairAccounts(floodAccount), minAccounts: 3,
		columns: unfairColumns(), keyCases: unfairKeys(), plots: []Plot{quietPlot("one that floods")},
		thresholds: []threshold{goodputMark, jainMark, quietMark, waitMark, refuseMark, leakedMark},
		duration:   func(z preset) time.Duration { return z.seconds(25) },
		run: func(ctx context.Context, s *scenarioRun) error {
			z, base := s.preset, s.preset.shape()
			u := unfair{base: base, timing: z.timing, alone: interval{0, z.seconds(5)}, contended: interval{z.seconds(2), z.seconds(18.5)}}
			rate := s.rates[base]
			quiet, others := s.participants(floodAccount)
			for i, name := range quiet {
				u.quiet = append(u.quiet, flow{account: name, tokens: z.tokens,
					due: steady(newRand(1, uint64(i)), 0.05*rate, u.alone)})
			}
			ask := func(account string, chance uint64, rate float64) flow {
				return flow{account: account, tokens: z.tokens, due: poisson(newRand(4, chance), rate,
					z.loadInterval(u.contended))}
			}
			much := 1.25 * rate * (1 - 0.05*float64(len(quiet))) / float64(len(others)+1)
			for i, name := range others {
				u.others = append(u.others, ask(name, uint64(i), much))
			}
			u.greedy = ask(floodAccount, 99, much*float64(z.floodFactor))
			return u.play(ctx, s)
		},
	}
}

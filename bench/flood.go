package bench

import (
	"context"
	"fmt"
	"time"
)

// floodScenario has one account that sends a hundred times as many requests as others.
func floodScenario() Scenario {
	return Scenario{
		Name: "flood", Title: "one account sends a hundred times as many requests as others",
		question: "Do other accounts get their share of the service, and how much longer does a quiet account wait?",
		method: func(p preset) string {
			return fmt.Sprintf("Four accounts ask for 25 %% more than their share of the capacity each (Poisson arrivals), and one "+
				"for %d times as much as each of these. Three quiet accounts ask for 5 %% of the capacity each, first alone, "+
				"then beside the others. Every request has about %d tokens, which take %s.",
				p.floodFactor, p.tokens, p.timing.serviceTime(p.tokens)) + contentionMethod
		},
		accounts: contentionAccounts(floodAccount), minAccounts: 3,
		columns: contentionColumns(), keyCases: contentionKeys(), charts: []chart{quietChart("an account that floods")},
		thresholds: []threshold{minGoodput, minJain, maxQuietTTFT, maxQuietWait, maxRefusalTime, noLeaks},
		duration:   func(p preset) time.Duration { return p.seconds(25) },
		run:        runFlood,
	}
}

func runFlood(ctx context.Context, s *scenarioRun) error {
	p, base := s.preset, s.preset.shape()
	c := contention{base: base, timing: p.timing, alone: interval{0, p.seconds(5)}, contended: interval{p.seconds(2), p.seconds(18.5)}}
	rate := s.rates[base]
	quiet, others := s.participants(floodAccount)
	for i, name := range quiet {
		c.quiet = append(c.quiet, flow{account: name, tokens: p.tokens, due: steady(newRand(1, uint64(i)), 0.05*rate, c.alone)})
	}
	ask := func(account string, seed uint64, rate float64) flow {
		return flow{account: account, tokens: p.tokens, due: poisson(newRand(4, seed), rate, p.loadInterval(c.contended))}
	}
	each := 1.25 * rate * (1 - 0.05*float64(len(quiet))) / float64(len(others)+1)
	for i, name := range others {
		c.others = append(c.others, ask(name, uint64(i), each))
	}
	c.greedy = ask(floodAccount, 99, each*float64(p.floodFactor))
	return c.run(ctx, s)
}

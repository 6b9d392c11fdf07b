package bench

import (
	"context"
	"fmt"
	"time"
)

// cheapShape is the common request beside one that is many times as costly. Its first token takes no longer than any
// other, so that time is in proportion to tokens.
func (p preset) cheapShape() requestShape {
	const each = 16 * time.Millisecond
	return requestShape{timing{each, each}, 3, 3}
}

// costlyScenario has one account whose requests cost a hundred times as much as those of others.
func costlyScenario() Scenario {
	return Scenario{
		Name: leadScenario, Title: "one account's requests cost a hundred times as much",
		question: "Do other accounts get their share of the service when one account sends few but long requests?",
		method: func(p preset) string {
			shape := p.cheapShape()
			return fmt.Sprintf("Four accounts ask for 25 %% more than their share of the capacity each (Poisson arrivals), with "+
				"requests of about %d tokens of input and of output, which take %s. One account asks for the whole capacity, with "+
				"requests that are %d times as long. Three quiet accounts ask for 2 %% of the capacity each, first alone, then "+
				"beside the others.", shape.tokens, shape.timing.serviceTime(shape.tokens), p.costFactor) + contentionMethod
		},
		accounts: contentionAccounts(heavyAccount), minAccounts: 3,
		columns: contentionColumns(), keyCases: contentionKeys(), charts: []chart{quietChart("an account whose requests are long")},
		shapes:     func(p preset) []requestShape { return []requestShape{p.cheapShape()} },
		thresholds: []threshold{minGoodput, minJain, minTokensJain, maxQuietTTFT, maxQuietWait, maxRefusalTime, noLeaks},
		duration:   func(p preset) time.Duration { return p.seconds(24) },
		run:        runCostly,
	}
}

func runCostly(ctx context.Context, s *scenarioRun) error {
	p, base := s.preset, s.preset.cheapShape()
	c := contention{base: base, timing: base.timing, alone: interval{0, p.seconds(4)}, contended: interval{p.seconds(3), p.seconds(18.5)},
		byTokens: true}
	rate := s.rates[base]
	ask := func(account string, seed uint64, times int, rate float64) flow {
		return flow{account: account, tokens: times * base.tokens, input: times * base.input,
			due: poisson(newRand(6, seed), rate, p.loadInterval(c.contended))}
	}
	quiet, others := s.participants(heavyAccount)
	for i, name := range quiet {
		c.quiet = append(c.quiet, flow{account: name, tokens: base.tokens, input: base.input,
			due: steady(newRand(1, uint64(i)), 0.02*rate, c.alone)})
	}
	for i, name := range others {
		c.others = append(c.others, ask(name, uint64(i), 1, 1.25*rate*(1-0.02*float64(len(quiet)))/float64(len(others)+1)))
	}
	c.greedy = ask(heavyAccount, 9, p.costFactor, rate/float64(p.costFactor))
	return c.run(ctx, s)
}

package bench

import (
	"context"
	"fmt"
	"time"
)

// cheapShape is the common request where another is many times as costly. Its time to the first token is that of any other,
// so that time and tokens are in proportion.
func (z preset) cheapShape() requestShape {
	const each = 16 * time.Millisecond
	return requestShape{timing{each, each}, 3, 3}
}

// costlyScenario is one account whose requests cost a hundred times as much as others'.
func costlyScenario() Scenario {
	return Scenario{
		Name: "costly", Title: "One account's requests cost a hundred times as much",
		question: "Do others get their share of the service, when one account takes its own by a few long requests?",
		method: func(z preset) string {
			sh := z.cheapShape()
			return fmt.Sprintf("Four accounts ask for a fourth more than their share of the capacity each (Poisson), by "+
				"requests of about %d tokens in and "+
				"out, which take %s. One asks for as much as the engines can do by requests that are %d times as long. "+
				"Three quiet accounts ask now and then, "+
				"for 2 %% of the capacity each: first alone, then beside the others.",
				sh.tokens, sh.timing.serviceTime(sh.tokens), z.costFactor) + quietMethod
		},
		accounts: unfairAccounts(heavyAccount), minAccounts: 3,
		columns: unfairColumns(), keyCases: unfairKeys(), plots: []Plot{quietPlot("one whose requests are long")},
		shapes:     func(z preset) []requestShape { return []requestShape{z.cheapShape()} },
		thresholds: []threshold{goodputMark, jainMark, tokensMark, quietMark, waitMark, refuseMark, leakedMark},
		duration:   func(z preset) time.Duration { return z.seconds(24) },
		run: func(ctx context.Context, s *scenarioRun) error {
			z, base := s.preset, s.preset.cheapShape()
			u := unfair{base: base, timing: base.timing, alone: interval{0, z.seconds(4)}, contended: interval{z.seconds(3), z.seconds(18.5)},
				byToken: true}
			rate, whole := s.rates[base], z.loadInterval(u.contended)
			ask := func(account string, chance uint64, times int, rate float64) flow {
				return flow{account: account, tokens: times * base.tokens, input: times * base.input,
					due: poisson(newRand(6, chance), rate, whole)}
			}
			quiet, others := s.participants(heavyAccount)
			for i, name := range quiet {
				u.quiet = append(u.quiet, flow{account: name, tokens: base.tokens, input: base.input,
					due: steady(newRand(1, uint64(i)), 0.02*rate, u.alone)})
			}
			for i, name := range others {
				u.others = append(u.others, ask(name, uint64(i), 1,
					1.25*rate*(1-0.02*float64(len(quiet)))/float64(len(others)+1)))
			}
			u.greedy = ask(heavyAccount, 9, z.costFactor, rate/float64(z.costFactor))
			return u.play(ctx, s)
		},
	}
}

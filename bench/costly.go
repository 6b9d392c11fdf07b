package bench

import (
	"context"
	"fmt"
	"time"
)

// cheap is the common request where another is many times as costly. Its time to the first token is that of any other,
// so that time and tokens are in proportion.
func (z size) cheap() shape {
	const each = 16 * time.Millisecond
	return shape{pace{each, each}, 3, 3}
}

// costly is one account whose requests cost a hundred times as much as others'.
func costly() Contest {
	return Contest{
		Name: "costly", Title: "One account's requests cost a hundred times as much",
		question: "Do others get their share of the service, when one account takes its own by a few long requests?",
		method: func(z size) string {
			sh := z.cheap()
			return fmt.Sprintf("Four accounts ask for a fourth more than their share of the capacity each (Poisson), by "+
				"requests of about %d tokens in and "+
				"out, which take %s. One asks for as much as the engines can do by requests that are %d times as long. "+
				"Three quiet accounts ask now and then, "+
				"for 2 %% of the capacity each: first alone, then beside the others.",
				sh.tokens, sh.pace.holds(sh.tokens), z.costlier) + quietMethod
		},
		accounts: unfairAccounts(heavy), few: 3,
		columns: unfairColumns(), keyCases: unfairKeys(), plots: []Plot{quietPlot("one whose requests are long")},
		shapes: func(z size) []shape { return []shape{z.cheap()} },
		marks:  []mark{goodputMark, jainMark, tokensMark, quietMark, waitMark, refuseMark, leakedMark},
		lasts:  func(z size) time.Duration { return z.long(24) },
		play: func(ctx context.Context, s *stage) error {
			z, base := s.size, s.size.cheap()
			u := unfair{base: base, pace: base.pace, alone: span{0, z.long(4)}, crowded: span{z.long(3), z.long(18.5)},
				byToken: true}
			rate, whole := s.rates[base], z.under(u.crowded)
			ask := func(account string, chance uint64, times int, rate float64) flow {
				return flow{account: account, tokens: times * base.tokens, input: times * base.input,
					due: poisson(seeded(6, chance), rate, whole)}
			}
			quiet, others := s.seated(heavy)
			for i, name := range quiet {
				u.quiet = append(u.quiet, flow{account: name, tokens: base.tokens, input: base.input,
					due: steady(seeded(1, uint64(i)), 0.02*rate, u.alone)})
			}
			for i, name := range others {
				u.others = append(u.others, ask(name, uint64(i), 1,
					1.25*rate*(1-0.02*float64(len(quiet)))/float64(len(others)+1)))
			}
			u.greedy = ask(heavy, 9, z.costlier, rate/float64(z.costlier))
			return u.play(ctx, s)
		},
	}
}

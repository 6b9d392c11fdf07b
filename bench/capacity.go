package bench

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// requestShape is a kind of request.
type requestShape struct {
	timing timing
	tokens int
	input  int
}

// engineCapacity measures how many requests of a shape the engines of a gateway answer per second, asked directly by as
// many clients as they have slots, each of which asks again as soon as it is answered. It is what no gateway can
// exceed.
func engineCapacity(ctx context.Context, a *runner, sh requestShape, lasts time.Duration) (float64, error) {
	a.engines.setTiming(sh.timing)
	rates := make(chan float64, len(a.engines.all))
	errs := make(chan error, len(a.engines.all))
	for _, e := range a.engines.all {
		go func() {
			direct, err := newClient("http://"+e.address+"/v1", a.client.model)
			errs <- err
			if err == nil {
				l := closedLoad{shape: sh, keys: []string{""}, clients: e.slots, lasts: lasts}
				rates <- independentRate(runClosedLoop(ctx, &runner{client: direct, ids: a.ids}, l))
				direct.conns.close()
			}
		}()
	}
	sum := 0.0
	for range a.engines.all {
		if err := <-errs; err != nil {
			return 0, err
		}
	}
	for range a.engines.all {
		sum += <-rates
	}
	return sum, ctx.Err()
}

// closedLoad is a number of clients that ask again as soon as they are answered.
type closedLoad struct {
	shape   requestShape
	keys    []string // the clients have them in turn
	clients int
	lasts   time.Duration
}

// runClosedLoop returns when each answer that each client got was asked for, and when it ended. What is under way at the end
// is waited for.
func runClosedLoop(ctx context.Context, a *runner, l closedLoad) [][]interval {
	var all sync.WaitGroup
	answers := make([][]interval, l.clients)
	clock := clock{time.Now()}
	for i := range answers {
		all.Go(func() {
			for ctx.Err() == nil && clock.now() < l.lasts {
				s := sample{}
				c := request{id: a.ids.next(), key: l.keys[i%len(l.keys)], tokens: l.shape.tokens, input: l.shape.input,
					timeout: requestTimeout}
				a.client.do(ctx, clock, &c, &s)
				if s.outcome == completed {
					answers[i] = append(answers[i], interval{s.sent, s.ended})
				} else {
					sleep(ctx, refusedPause)
				}
			}
		})
	}
	all.Wait()
	return answers
}

// independentRate is how many answers per second clients got of which each has a slot to itself: the sum of what each got up to its
// last answer.
func independentRate(answers [][]interval) float64 {
	rate := 0.0
	for _, of := range answers {
		if n := len(of); n > 0 {
			rate += float64(n) / of[n-1].end.Seconds()
		}
	}
	return rate
}

// rateIn is how many answers per second clients got in a window that wait for each other, and how long an answer took
// on the average. An answer counts with the part of it that lies in the window: clients that begin at once are answered
// in rounds, and it must not matter where in a round the window ends.
func rateIn(answers [][]interval, window interval) (rate float64, each time.Duration) {
	n, took := 0, time.Duration(0)
	for _, of := range answers {
		for _, s := range of {
			n++
			took += s.duration()
			if s.duration() > 0 {
				rate += float64(s.intersect(window).duration()) / float64(s.duration())
			}
		}
	}
	return rate / window.duration().Seconds(), took / time.Duration(max(1, n))
}

const (
	maxClients     = 512
	minGain        = 1.05 // as many times the throughput that more clients must bring, or it has not grown
	maxFlatSteps   = 2    // so many steps in a row without growth are its end: one may be short of the next colo's share
	answersPerStep = 5    // answers that each client gets at least in a step
	searchSteps    = 20   // times as long as one measurement is it about until a capacity is found
	refusedPause   = 20 * time.Millisecond
)

// searchCapacity finds the capacity of a gateway whose engines are not ours: twice as many clients each time, until that brings no
// more; and then again between the best number and its neighbours.
func searchCapacity(ctx context.Context, a *runner, sh requestShape, keys []string, lasts time.Duration) (float64, error) {
	best, at, flat := 0.0, 1, 0
	answer := time.Duration(0) // how long one took in the last step
	step := func(n int) float64 {
		a.progress(a.gateway.Name, fmt.Sprintf("finding its capacity: %d at once", n))
		long := max(lasts, answersPerStep*answer)
		if answer == 0 {
			alone := a.probe(ctx, sh, keys[0])
			long = max(lasts, (alone.ended-alone.sent)*answersPerStep)
			a.events = streamEvents{requested: sh.tokens, received: alone.tokens}
		}
		rate := 0.0
		answers := runClosedLoop(ctx, a, closedLoad{sh, keys, n, long})
		rate, answer = rateIn(answers, interval{long / answersPerStep, long}) // not the first round, in which nobody waits
		return rate
	}
	for n := 1; n <= maxClients && flat < maxFlatSteps && ctx.Err() == nil; n *= 2 {
		if rate := step(n); rate > best*minGain {
			best, at, flat = rate, n, 0
		} else {
			best, flat = max(best, rate), flat+1
		}
	}
	for _, n := range []int{at * 3 / 4, at * 3 / 2} {
		if n > 0 && n != at && ctx.Err() == nil {
			best = max(best, step(n))
		}
	}
	return best, ctx.Err()
}

// probe is an answer that nothing else runs beside.
func (a *runner) probe(ctx context.Context, sh requestShape, key string) *sample {
	s := sample{}
	c := request{id: a.ids.next(), key: key, tokens: sh.tokens, input: sh.input, timeout: requestTimeout}
	a.client.do(ctx, clock{time.Now()}, &c, &s)
	return &s
}

// streamEvents is how many events an answer of so many tokens had. Where engines are not ours, work is counted in events, of
// which there are more than tokens, for the role and the end, or fewer, if the model has no more to say.
type streamEvents struct{ requested, received int }

// expected is how many events an answer probably has.
func (e streamEvents) expected(tokens int) float64 {
	switch {
	case e.received >= e.requested:
		return float64(tokens + e.received - e.requested)
	case e.received == 0:
		return float64(tokens)
	}
	return float64(tokens) * float64(e.received) / float64(e.requested)
}

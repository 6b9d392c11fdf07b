package bench

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// shape is a kind of request.
type shape struct {
	pace   pace
	tokens int
	input  int
}

// capacityOf measures how many requests of a shape the engines of a gateway answer per second, asked directly by as
// many clients as they have slots, each of which asks again as soon as it is answered. It is what no gateway can
// exceed.
func capacityOf(ctx context.Context, a *arena, sh shape, lasts time.Duration) (float64, error) {
	a.engines.pace(sh.pace)
	rates := make(chan float64, len(a.engines.all))
	errs := make(chan error, len(a.engines.all))
	for _, e := range a.engines.all {
		go func() {
			direct, err := newClient("http://"+e.address+"/v1", a.client.model)
			errs <- err
			if err == nil {
				l := loop{shape: sh, keys: []string{""}, clients: e.slots, lasts: lasts}
				rates <- apart(closedLoop(ctx, &arena{client: direct, ids: a.ids}, l))
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

// loop is a number of clients that ask again as soon as they are answered.
type loop struct {
	shape   shape
	keys    []string // the clients have them in turn
	clients int
	lasts   time.Duration
}

// closedLoop returns when each answer that each client got was asked for, and when it ended. What is under way at the end
// is waited for.
func closedLoop(ctx context.Context, a *arena, l loop) [][]span {
	var all sync.WaitGroup
	answers := make([][]span, l.clients)
	clock := clock{time.Now()}
	for i := range answers {
		all.Go(func() {
			for ctx.Err() == nil && clock.now() < l.lasts {
				s := sample{}
				c := call{id: a.ids.next(), key: l.keys[i%len(l.keys)], tokens: l.shape.tokens, input: l.shape.input,
					patience: patient}
				a.client.do(ctx, clock, &c, &s)
				if s.fate == answered {
					answers[i] = append(answers[i], span{s.sent, s.ended})
				} else {
					sleep(ctx, pauseRefused)
				}
			}
		})
	}
	all.Wait()
	return answers
}

// apart is how many answers per second clients got of which each has a slot to itself: the sum of what each got up to its
// last answer.
func apart(answers [][]span) float64 {
	rate := 0.0
	for _, of := range answers {
		if n := len(of); n > 0 {
			rate += float64(n) / of[n-1].until.Seconds()
		}
	}
	return rate
}

// together is how many answers per second clients got in a window that wait for each other, and how long an answer took
// on the average. An answer counts with the part of it that lies in the window: clients that begin at once are answered
// in rounds, and it must not matter where in a round the window ends.
func together(answers [][]span, window span) (rate float64, each time.Duration) {
	n, took := 0, time.Duration(0)
	for _, of := range answers {
		for _, s := range of {
			n++
			took += s.length()
			if s.length() > 0 {
				rate += float64(s.and(window).length()) / float64(s.length())
			}
		}
	}
	return rate / window.length().Seconds(), took / time.Duration(max(1, n))
}

const (
	mostClients  = 512
	worthMore    = 1.05 // as many times the throughput that more clients must bring, or it has not grown
	flatSteps    = 2    // so many steps in a row without growth are its end: one may be short of the next colo's share
	loopsEach    = 5    // answers that each client gets at least in a step
	climbs       = 20   // times as long as one measurement is it about until a capacity is found
	pauseRefused = 20 * time.Millisecond
)

// climb finds the capacity of a gateway whose engines are not ours: twice as many clients each time, until that brings no
// more; and then again between the best number and its neighbours.
func climb(ctx context.Context, a *arena, sh shape, keys []string, lasts time.Duration) (float64, error) {
	best, at, flat := 0.0, 1, 0
	answer := time.Duration(0) // how long one took in the last step
	step := func(n int) float64 {
		a.tell(a.gateway.Name, fmt.Sprintf("finding its capacity: %d at once", n))
		long := max(lasts, loopsEach*answer)
		if answer == 0 {
			alone := a.alone(ctx, sh, keys[0])
			long = max(lasts, (alone.ended-alone.sent)*loopsEach)
			a.events = events{asked: sh.tokens, came: alone.tokens}
		}
		rate := 0.0
		answers := closedLoop(ctx, a, loop{sh, keys, n, long})
		rate, answer = together(answers, span{long / loopsEach, long}) // not the first round, in which nobody waits
		return rate
	}
	for n := 1; n <= mostClients && flat < flatSteps && ctx.Err() == nil; n *= 2 {
		if rate := step(n); rate > best*worthMore {
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

// alone is an answer that nothing else runs beside.
func (a *arena) alone(ctx context.Context, sh shape, key string) *sample {
	s := sample{}
	c := call{id: a.ids.next(), key: key, tokens: sh.tokens, input: sh.input, patience: patient}
	a.client.do(ctx, clock{time.Now()}, &c, &s)
	return &s
}

// events is how many events an answer of so many tokens had. Where engines are not ours, work is counted in events, of
// which there are more than tokens, for the role and the end, or fewer, if the model has no more to say.
type events struct{ asked, came int }

// of is how many events an answer probably has.
func (e events) of(tokens int) float64 {
	switch {
	case e.came >= e.asked:
		return float64(tokens + e.came - e.asked)
	case e.came == 0:
		return float64(tokens)
	}
	return float64(tokens) * float64(e.came) / float64(e.asked)
}

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

// closedLoad is a number of clients that ask again as soon as they are answered.
type closedLoad struct {
	shape   requestShape
	keys    []string // of the clients, in turn
	clients int
	lasts   time.Duration
}

const refusedPause = 20 * time.Millisecond

// runClosedLoad returns for each client when it asked for each of its answers, and when the answer ended. It waits for the
// requests that are in flight at the end.
func runClosedLoad(ctx context.Context, r *runner, l closedLoad) [][]interval {
	var all sync.WaitGroup
	answers := make([][]interval, l.clients)
	clock := clock{time.Now()}
	for i := range answers {
		all.Go(func() {
			for ctx.Err() == nil && clock.now() < l.lasts {
				s := sample{}
				r.client.do(ctx, clock, l.request(r.ids, i), &s)
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

func (l *closedLoad) request(ids *idSource, client int) *request {
	return &request{id: ids.next(), key: l.keys[client%len(l.keys)], tokens: l.shape.tokens, input: l.shape.input, timeout: requestTimeout}
}

// engineCapacity measures how many requests of a shape the engines of a gateway answer per second, when as many clients as
// they have slots ask them directly. No gateway can exceed it.
func engineCapacity(ctx context.Context, r *runner, shape requestShape, lasts time.Duration) (float64, error) {
	r.engines.setTiming(shape.timing)
	rates := make([]float64, len(r.engines.all))
	errs := make([]error, len(r.engines.all))
	var all sync.WaitGroup
	for i, e := range r.engines.all {
		all.Go(func() {
			direct, err := newClient("http://"+e.address+"/v1", r.client.model)
			if errs[i] = err; err != nil {
				return
			}
			defer direct.conns.close()
			l := closedLoad{shape: shape, keys: []string{""}, clients: e.slots, lasts: lasts}
			rates[i] = separateRate(runClosedLoad(ctx, &runner{client: direct, ids: r.ids}, l))
		})
	}
	all.Wait()
	sum := 0.0
	for i := range rates {
		if errs[i] != nil {
			return 0, errs[i]
		}
		sum += rates[i]
	}
	return sum, ctx.Err()
}

// separateRate is the number of answers per second of clients that each have a slot of their own: the sum over the clients,
// each measured up to its last answer.
func separateRate(answers [][]interval) float64 {
	rate := 0.0
	for _, of := range answers {
		if n := len(of); n > 0 {
			rate += float64(n) / of[n-1].end.Seconds()
		}
	}
	return rate
}

// sharedRate is the number of answers per second, in a window, of clients that wait for each other, and the mean time of an
// answer. An answer counts with the part of it that lies in the window: clients that begin together are answered in rounds,
// and it must not matter where in a round the window ends.
func sharedRate(answers [][]interval, window interval) (rate float64, mean time.Duration) {
	n, sum := 0, time.Duration(0)
	for _, of := range answers {
		for _, a := range of {
			n++
			sum += a.duration()
			if a.duration() > 0 {
				rate += float64(a.intersect(window).duration()) / float64(a.duration())
			}
		}
	}
	return rate / window.duration().Seconds(), sum / time.Duration(max(1, n))
}

const (
	maxClients     = 512
	minGain        = 1.05 // in throughput, by twice as many clients, or it counts as none
	maxFlatSteps   = 2    // without a gain until the search ends: one may be chance
	answersPerStep = 5    // that each client gets at least
	searchSteps    = 20   // about, each as long as one measurement of the capacity
)

// searchCapacity finds the capacity of a gateway whose engines are not simulated: it doubles the number of clients until
// that brings no more throughput, and then tries the neighbours of the best number. The clients of l are ignored.
func searchCapacity(ctx context.Context, r *runner, l closedLoad) (float64, error) {
	best, at, flat := 0.0, 1, 0
	atLeast := l.lasts
	mean := time.Duration(0) // of an answer in the last step
	step := func(n int) float64 {
		r.progress(r.gateway.Name, fmt.Sprintf("searching its capacity: %d clients", n))
		l.clients, l.lasts = n, max(atLeast, answersPerStep*mean)
		if mean == 0 {
			alone := r.ask(ctx, l.request(r.ids, 0))
			l.lasts = max(atLeast, (alone.ended-alone.sent)*answersPerStep)
			r.events = streamEvents{requested: l.shape.tokens, received: alone.tokens}
		}
		rate := 0.0
		answers := runClosedLoad(ctx, r, l)
		rate, mean = sharedRate(answers, interval{l.lasts / answersPerStep, l.lasts}) // no request waits in the first round
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

// streamEvents compares the events of an answer with the tokens that were asked for. Where engines are not simulated, work is
// counted in events: there are more than tokens, for the role and the end, or fewer if the model has no more to say.
type streamEvents struct{ requested, received int }

// expected is how many events an answer of so many tokens probably has.
func (e streamEvents) expected(tokens int) float64 {
	switch {
	case e.received >= e.requested:
		return float64(tokens + e.received - e.requested)
	case e.received == 0:
		return float64(tokens)
	}
	return float64(tokens) * float64(e.received) / float64(e.requested)
}

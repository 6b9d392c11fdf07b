package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// timing is how fast engines make tokens.
type timing struct{ ttft, itl time.Duration }

// serviceTime is how long an answer of so many tokens holds a slot.
func (t timing) serviceTime(tokens int) time.Duration { return t.ttft + time.Duration(tokens-1)*t.itl }

// flow is the requests of one account that are alike.
type flow struct {
	account    string
	due        []time.Duration
	tokens     int // of an answer, mean
	input      int
	tokenBytes int // see request
	deadline   time.Duration
	behaviour  behaviour
	retry      retryPolicy
}

// retryPolicy is what a refused client does.
type retryPolicy uint8

const (
	neverRetries      retryPolicy = iota
	honoursRetryAfter             // comes back after Retry-After, or without that header as SDKs do
	ignoresRetryAfter             // comes back at once, again and again
)

const (
	requestTimeout       = 60 * time.Second
	maxAttemptsHonouring = 3
	maxAttemptsIgnoring  = 12
	ignoringDelay        = 100 * time.Millisecond // mean; "at once", over real networks
)

// engineEvent is something that is done to the engines during a trial.
type engineEvent struct {
	at time.Duration
	do func() error
}

// trial is load on one gateway.
type trial struct {
	name   string
	timing timing
	flows  []flow
	window interval      // that is measured
	cutoff time.Duration // when requests in flight are given up; 0: never
	events []engineEvent
	seed   uint64
}

// result is the outcome of a trial.
type result struct {
	trial          *trial
	samples        [][]sample     // by arrival; the attempts of each
	jobs           []job          // as engines saw them
	jobByID        map[uint64]int // index in jobs
	slots          int            // of all engines; 0: unknown
	leaked         int            // permits held when all had ended; negative: unknown
	generatorDelay float64        // how late the load generator was, p99, in ms
}

// idSource makes ids for requests. None is used twice in a process.
type idSource struct{ last atomic.Uint64 }

func (i *idSource) next() uint64 { return i.last.Add(1) }

// run sends the load of a trial and returns its result once all requests have ended.
func (r *runner) run(ctx context.Context, t *trial) (*result, error) {
	if r.engines != nil {
		r.engines.setTiming(t.timing)
		r.engines.takeJobs(time.Time{})
	}
	limited := ctx
	if t.cutoff > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, t.cutoff)
		defer cancel()
	}
	arrivals := mergeArrivals(t.flows)
	samples := make([][]sample, len(arrivals))
	clock := clock{time.Now()}
	var all sync.WaitGroup
	var failure error
	all.Go(func() { failure = runEvents(limited, t.events, clock) })
	for i, a := range arrivals {
		if !sleep(limited, a.due-clock.now()) {
			break
		}
		all.Go(func() { samples[i] = r.send(limited, clock, t, a, newRand(t.seed, uint64(i))) })
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if failure != nil {
		return nil, failure
	}
	res := &result{trial: t, samples: samples}
	res.leaked = r.awaitIdle(ctx)
	if r.engines != nil {
		res.slots = r.engines.slots()
		res.jobs = r.engines.takeJobs(clock.began)
	}
	res.prepare()
	return res, ctx.Err()
}

// runEvents runs all events, also after ctx has ended: an engine that was stopped must come back.
func runEvents(ctx context.Context, events []engineEvent, clock clock) error {
	for _, e := range events {
		sleep(ctx, e.at-clock.now())
		if err := e.do(); err != nil {
			return err
		}
	}
	return nil
}

// sleep returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// send sends the request of one arrival, and retries it if its flow does so. It returns the attempts in order.
func (r *runner) send(ctx context.Context, clock clock, t *trial, a arrival, rnd *rand.Rand) []sample {
	f := &t.flows[a.flow]
	tokens := variedTokens(rnd, f.tokens)
	attempts := make([]sample, 0, 1)
	due := a.due
	for {
		s := sample{id: r.ids.next(), flow: a.flow, attempt: len(attempts), due: due}
		q := request{id: s.id, key: r.keys[f.account], tokens: tokens, input: f.input, tokenBytes: f.tokenBytes,
			deadline: f.deadline, timeout: requestTimeout, behaviour: f.behaviour}
		r.client.do(ctx, clock, &q, &s)
		attempts = append(attempts, s)
		pause, again := f.retry.next(&s, rnd)
		if !again {
			return attempts
		}
		due = clock.now() + pause
		if !sleep(ctx, pause) {
			return attempts
		}
	}
}

// next says whether the client of s comes back, and when.
func (p retryPolicy) next(s *sample, rnd *rand.Rand) (time.Duration, bool) {
	if s.outcome != refused {
		return 0, false
	}
	switch {
	case p == honoursRetryAfter && s.attempt+1 < maxAttemptsHonouring:
		if s.retryAfter >= 0 {
			return s.retryAfter, true
		}
		return sdkDelay(s.attempt, rnd), true
	case p == ignoresRetryAfter && s.attempt+1 < maxAttemptsIgnoring:
		return time.Duration((0.5 + rnd.Float64()) * float64(ignoringDelay)), true
	}
	return 0, false
}

// sdkDelay is what the official SDKs wait without Retry-After: half a second, doubled each time up to eight seconds,
// less up to a quarter.
func sdkDelay(attempt int, rnd *rand.Rand) time.Duration {
	d := min(500*time.Millisecond<<attempt, 8*time.Second)
	return time.Duration(float64(d) * (1 - rnd.Float64()/4))
}

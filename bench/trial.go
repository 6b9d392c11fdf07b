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
func (p timing) serviceTime(tokens int) time.Duration { return p.ttft + time.Duration(tokens-1)*p.itl }

// flow is the requests of one account that are alike.
type flow struct {
	account    string
	due        []time.Duration
	tokens     int // of an answer, about
	input      int
	tokenBytes int // see call
	deadline   time.Duration
	timeout    time.Duration // 0: patient
	behaviour  behaviour
	retry      retry
}

// retry is what a client does that is refused.
type retry uint8

const (
	neverRetries      retry = iota
	honoursRetryAfter       // comes back when it is told to; if nothing is told, as SDKs do
	ignoresRetryAfter       // comes back at once, again and again
)

const (
	requestTimeout    = 60 * time.Second
	maxTriesIgnoring  = 12                     // of a client that disobeys
	ignoringDelay     = 100 * time.Millisecond // on the average: "at once", over networks as they are
	maxTriesHonouring = 3
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
	window interval      // what is measured
	cutoff time.Duration // when whatever is still under way is given up; 0: it is waited for
	events []engineEvent
	seed   uint64
}

// result is what came of a trial.
type result struct {
	trial          *trial
	samples        [][]sample     // by shot; the attempts of each
	jobs           []job          // what the engines saw
	jobByID        map[uint64]int // where in jobs
	slots          int            // of all engines; 0: not known
	leaked         int            // permits held when all was quiet; negative: cannot be asked
	generatorDelay float64        // the generator's own, p99, in ms
}

// idSource are given to requests; they are not used twice in a process.
type idSource struct{ last atomic.Uint64 }

func (i *idSource) next() uint64 { return i.last.Add(1) }

// run sends the load of a trial and returns what came of it once all of it has ended.
func (a *runner) run(ctx context.Context, t *trial) (*result, error) {
	if a.engines != nil {
		a.engines.setTiming(t.timing)
		a.engines.takeJobs(time.Time{})
	}
	whole := ctx
	if t.cutoff > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.cutoff)
		defer cancel()
	}
	shots := mergeArrivals(t.flows)
	samples := make([][]sample, len(shots))
	clock := clock{time.Now()}
	var all sync.WaitGroup
	failure := a.runEvents(ctx, t, clock, &all)
	for i, shot := range shots {
		if !sleep(ctx, shot.due-clock.now()) {
			break
		}
		all.Go(func() { samples[i] = a.send(ctx, clock, t, shot, newRand(t.seed, uint64(i))) })
	}
	all.Wait()
	ctx = whole
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := *failure; err != nil {
		return nil, err
	}
	r := &result{trial: t, samples: samples}
	r.leaked = a.awaitIdle(ctx)
	if a.engines != nil {
		r.slots = a.engines.slots()
		r.jobs = a.engines.takeJobs(clock.began)
	}
	r.prepare()
	return r, ctx.Err()
}

// runEvents has the trial's events happen. The error that is pointed to may be read when all have ended.
func (a *runner) runEvents(ctx context.Context, t *trial, clock clock, all *sync.WaitGroup) *error {
	var failure error
	if len(t.events) == 0 {
		return &failure
	}
	all.Go(func() {
		for _, e := range t.events {
			sleep(ctx, e.at-clock.now()) // what is lost must come back whatever happens
			if err := e.do(); err != nil {
				failure = err
				return
			}
		}
	})
	return &failure
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

// send is one client: it asks, and asks again if it is of that kind. The attempts are returned in order.
func (a *runner) send(ctx context.Context, clock clock, t *trial, shot arrival, r *rand.Rand) []sample {
	f := &t.flows[shot.flow]
	tokens := variedTokens(r, f.tokens)
	attempts := make([]sample, 0, 1)
	due := shot.due
	for {
		s := sample{id: a.ids.next(), flow: shot.flow, attempt: len(attempts), due: due}
		c := request{id: s.id, key: a.keys[f.account], tokens: tokens, input: f.input, tokenBytes: f.tokenBytes, deadline: f.deadline,
			timeout: f.timeout, behaviour: f.behaviour}
		if c.timeout == 0 {
			c.timeout = requestTimeout
		}
		a.client.do(ctx, clock, &c, &s)
		attempts = append(attempts, s)
		pause, again := f.retry.after(&s, r)
		if !again {
			return attempts
		}
		due = clock.now() + pause
		if !sleep(ctx, pause) {
			return attempts
		}
	}
}

// after says when a client that had s comes back, and whether.
func (y retry) after(s *sample, r *rand.Rand) (time.Duration, bool) {
	if s.outcome != refused {
		return 0, false
	}
	switch {
	case y == honoursRetryAfter && s.attempt+1 < maxTriesHonouring:
		if s.retryAfter >= 0 {
			return s.retryAfter, true
		}
		return sdkDelay(s.attempt, r), true
	case y == ignoresRetryAfter && s.attempt+1 < maxTriesIgnoring:
		return time.Duration((0.5 + r.Float64()) * float64(ignoringDelay)), true
	}
	return 0, false
}

// sdkDelay is what the official SDKs wait where they are told nothing: half a second, doubled each time up to eight,
// less up to a quarter.
func sdkDelay(attempt int, r *rand.Rand) time.Duration {
	d := min(500*time.Millisecond<<attempt, 8*time.Second)
	return time.Duration(float64(d) * (1 - r.Float64()/4))
}

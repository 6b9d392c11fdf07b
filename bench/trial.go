package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// pace is how fast engines make tokens.
type pace struct{ ttft, itl time.Duration }

// holds is how long an answer of so many tokens holds a slot.
func (p pace) holds(tokens int) time.Duration { return p.ttft + time.Duration(tokens-1)*p.itl }

// flow is the requests of one account that are alike.
type flow struct {
	account  string
	due      []time.Duration
	tokens   int // of an answer, about
	input    int
	wide     int // see call
	deadline time.Duration
	patience time.Duration // 0: patient
	conduct  conduct
	retry    retry
}

// retry is what a client does that is refused.
type retry uint8

const (
	never    retry = iota
	obeys          // comes back when it is told to; if nothing is told, as SDKs do
	disobeys       // comes back at once, again and again
)

const (
	patient       = 60 * time.Second
	mostTries     = 12                     // of a client that disobeys
	disobeysAfter = 100 * time.Millisecond // on the average: "at once", over networks as they are
	triesObeying  = 3
)

// event is something that is done to the engines during a trial.
type event struct {
	at time.Duration
	do func() error
}

// trial is load on one gateway.
type trial struct {
	name   string
	pace   pace
	flows  []flow
	window span          // what is measured
	cut    time.Duration // when whatever is still under way is given up; 0: it is waited for
	events []event
	seed   uint64
}

// result is what came of a trial.
type result struct {
	trial   *trial
	samples [][]sample     // by shot; the attempts of each
	jobs    []job          // what the engines saw
	ofID    map[uint64]int // where in jobs
	slots   int            // of all engines; 0: not known
	leaked  int            // permits held when all was quiet; negative: cannot be asked
	late    float64        // the generator's own, p99, in ms
}

// ids are given to requests; they are not used twice in a process.
type ids struct{ last atomic.Uint64 }

func (i *ids) next() uint64 { return i.last.Add(1) }

// play sends the load of a trial and returns what came of it once all of it has ended.
func (a *arena) play(ctx context.Context, t *trial) (*result, error) {
	if a.engines != nil {
		a.engines.pace(t.pace)
		a.engines.take(time.Time{})
	}
	whole := ctx
	if t.cut > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.cut)
		defer cancel()
	}
	shots := merged(t.flows)
	samples := make([][]sample, len(shots))
	clock := clock{time.Now()}
	var all sync.WaitGroup
	failure := a.stage(ctx, t, clock, &all)
	for i, shot := range shots {
		if !sleep(ctx, shot.due-clock.now()) {
			break
		}
		all.Go(func() { samples[i] = a.shoot(ctx, clock, t, shot, seeded(t.seed, uint64(i))) })
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
	r.leaked = a.quiet(ctx)
	if a.engines != nil {
		r.slots = a.engines.slots()
		r.jobs = a.engines.take(clock.began)
	}
	r.prepare()
	return r, ctx.Err()
}

// stage has the trial's events happen. The error that is pointed to may be read when all have ended.
func (a *arena) stage(ctx context.Context, t *trial, clock clock, all *sync.WaitGroup) *error {
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

// shoot is one client: it asks, and asks again if it is of that kind. The attempts are returned in order.
func (a *arena) shoot(ctx context.Context, clock clock, t *trial, shot shot, r *rand.Rand) []sample {
	f := &t.flows[shot.flow]
	tokens := about(r, f.tokens)
	attempts := make([]sample, 0, 1)
	due := shot.due
	for {
		s := sample{id: a.ids.next(), flow: shot.flow, attempt: len(attempts), due: due}
		c := call{id: s.id, key: a.keys[f.account], tokens: tokens, input: f.input, wide: f.wide, deadline: f.deadline,
			patience: f.patience, conduct: f.conduct}
		if c.patience == 0 {
			c.patience = patient
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
	if s.fate != refused {
		return 0, false
	}
	switch {
	case y == obeys && s.attempt+1 < triesObeying:
		if s.retryAfter >= 0 {
			return s.retryAfter, true
		}
		return sdkDelay(s.attempt, r), true
	case y == disobeys && s.attempt+1 < mostTries:
		return time.Duration((0.5 + r.Float64()) * float64(disobeysAfter)), true
	}
	return 0, false
}

// sdkDelay is what the official SDKs wait where they are told nothing: half a second, doubled each time up to eight,
// less up to a quarter.
func sdkDelay(attempt int, r *rand.Rand) time.Duration {
	d := min(500*time.Millisecond<<attempt, 8*time.Second)
	return time.Duration(float64(d) * (1 - r.Float64()/4))
}

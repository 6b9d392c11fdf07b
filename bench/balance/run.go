package balance

import (
	"container/heap"
	"context"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"
	"time"

	"colonnade/balance"
	"colonnade/permits"
)

// maxWait is how long a request waits for a slot.
const maxWait = 30 * time.Second

// Config is one run.
type Config struct {
	Policy     balance.Config
	PreferWait time.Duration // see permits.Config
	Oracle     bool          // Policy goes by the caches themselves
	Blind      bool          // the index does not know how much the caches hold
	LLMD       string        // the program bench/llmd, which chooses instead of Policy; empty: none
	Scrape     time.Duration // interval at which llm-d reads the metrics of engines; 0: whenever it chooses
	Traffic    *Traffic
	Endpoints  int
	Timing     Timing
	Speed      float64 // by which the traffic's times are divided
}

// run is a run under way. One goroutine, in a bubble of synctest, is the clients and the engines. Another for each request waits for its
// permit, and runs only while the first waits, so that the run depends on nothing else.
type run struct {
	Config
	began   time.Time
	pool    *permits.Pool
	engines []*engine
	indices map[*balance.Request]int // of requests in the traffic; nil: the policy needs none
	llmd    *llmd
	ends    ends
	ended   []served // all requests, by their index in the traffic
	figures *figures

	mu      sync.Mutex // guards the fields below
	granted []grant
	wake    chan struct{}
}

// grant is the end of an Acquire.
type grant struct {
	index  int
	permit permits.Permit
	err    error
}

// served is what became of a request.
type served struct {
	job
	engine  int
	refused bool
	permit  permits.Permit
	ttft    time.Duration // from the arrival
}

// Simulate runs in a bubble of synctest.
func Simulate(c Config) Figures {
	r := &run{Config: c, began: time.Now(), ended: make([]served, len(c.Traffic.Requests)), figures: newFigures(), wake: make(chan struct{}, 1)}
	list := make([]permits.Endpoint, c.Endpoints)
	for i := range list {
		r.engines = append(r.engines, newEngine(c.Timing, c.Traffic.BlockTokens, c.Scrape))
		list[i] = permits.Endpoint{ID: strconv.Itoa(i), Concurrency: c.Timing.Slots, Weight: 1}
	}
	if c.Oracle || c.LLMD != "" {
		r.indices = map[*balance.Request]int{}
		for i := range c.Traffic.Requests {
			r.indices[&c.Traffic.Requests[i].Balance] = i
		}
	}
	switch {
	case c.Oracle:
		c.Policy.Cached = r.cached
	case c.LLMD != "":
		r.llmd = startLLMD(c.LLMD)
		defer r.llmd.stop()
		c.Policy.Pick = r.pick
	}
	r.pool = permits.New(permits.Config{
		Discipline: permits.Fair, Cost: permits.ByTokens, Limit: 10_000, PerAccount: 10_000, Bytes: 1 << 40, MaxWait: maxWait, Balance: c.Policy, PreferWait: c.PreferWait,
	})
	r.pool.SetEndpoints(list)
	for _, e := range list {
		r.pool.SetUsable(e.ID, true)
		if !c.Blind {
			r.pool.SetCacheSize(e.ID, int64(c.Timing.CacheTokens)*tokenBytes)
		}
	}
	r.live()
	return r.measure()
}

// leastShare is the part of a prompt that counts, one in so many, as for the index: less is had of the beginning that all prompts share.
const leastShare = 8

// cached is what the oracle sees: how many blocks of a prompt an engine has in its cache. It is called under the pool's mutex.
func (r *run) cached(id string, b *balance.Request) int {
	at, _ := strconv.Atoi(id)
	chain := r.Traffic.Requests[r.indices[b]].Chain
	if n := r.engines[at].has(chain); n*leastShare >= len(chain) {
		return n
	}
	return 0
}

func (r *run) now() time.Duration { return time.Since(r.began) }

// live lets all requests arrive and end.
func (r *run) live() {
	var acquiring sync.WaitGroup
	next := 0
	for next < len(r.Traffic.Requests) || len(r.ends) > 0 || r.figures.waitingAll() > 0 {
		arrives := r.arrival(next)
		switch {
		case arrives >= 0 && (len(r.ends) == 0 || arrives <= r.ends[0].at):
			if r.sleep(arrives) {
				acquiring.Go(func(i int) func() { return func() { r.acquire(i) } }(next))
				r.figures.arrive(r.now(), r.Traffic.Requests[next].Account)
				next++
			}
		case len(r.ends) > 0:
			if r.sleep(r.ends[0].at) {
				r.happen(heap.Pop(&r.ends).(end))
			}
		default:
			<-r.wake
		}
		r.settle()
	}
	acquiring.Wait()
}

// arrival is when a request arrives; negative: there is no such request.
func (r *run) arrival(i int) time.Duration {
	if i >= len(r.Traffic.Requests) {
		return -1
	}
	return time.Duration(float64(r.Traffic.Requests[i].At) / r.Speed)
}

// sleep sleeps until an instant, and reports whether it is reached: a request may get its permit before, by a timer of the pool.
func (r *run) sleep(until time.Duration) bool {
	left := until - r.now()
	if left <= 0 {
		return true
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.wake:
		return false
	}
}

// settle waits until all goroutines wait, and starts the requests that have got their permits.
func (r *run) settle() {
	synctest.Wait()
	r.mu.Lock()
	granted := r.granted
	r.granted = nil
	r.mu.Unlock()
	select {
	case <-r.wake:
	default:
	}
	slices.SortFunc(granted, func(a, b grant) int { return a.index - b.index })
	for _, g := range granted {
		r.start(&g)
	}
}

// acquire gets a permit for a request.
func (r *run) acquire(i int) {
	q := &r.Traffic.Requests[i]
	permit, err := r.pool.Acquire(context.Background(), &permits.Request{
		Account: strconv.Itoa(q.Account), MaxWait: maxWait, MaxExpected: -1, Balance: &q.Balance, Cost: float64(q.Input),
	})
	r.mu.Lock()
	r.granted = append(r.granted, grant{i, permit, err})
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// start sends a request to its engine.
func (r *run) start(g *grant) {
	q, s := &r.Traffic.Requests[g.index], &r.ended[g.index]
	if g.err != nil {
		r.figures.leave(r.now(), q.Account, 0)
		s.refused = true
		return
	}
	s.permit = g.permit
	s.engine, _ = strconv.Atoi(g.permit.Endpoint())
	if r.llmd != nil {
		r.llmd.sent(strconv.Itoa(g.index))
	}
	e := r.engines[s.engine]
	s.job = e.begin(r.now(), q)
	cost := 0.0
	if g.permit.Queued() > 0 {
		cost = s.use(q).Input + s.use(q).Output
	}
	r.figures.leave(r.now(), q.Account, cost)
	r.figures.over = max(r.figures.over, e.running-r.Timing.Slots)
	s.ttft = s.first - r.arrival(g.index)
	heap.Push(&r.ends, end{s.first, g.index, true})
	heap.Push(&r.ends, end{s.done, g.index, false})
}

// happen ends a request, or its answer begins.
func (r *run) happen(e end) {
	s, q := &r.ended[e.index], &r.Traffic.Requests[e.index]
	if e.begins {
		r.pool.ReportFirstByte(s.permit.Endpoint(), q.Balance.Input, s.ttft-s.permit.Queued())
		return
	}
	r.engines[s.engine].end(&s.job, q)
	s.permit.ReleaseUsed(s.use(q))
}

// use is what a request costs its account.
func (s *served) use(q *Request) permits.Used {
	return permits.Used{Input: float64(q.Input-s.cached) + cachedCost*float64(s.cached), Output: outputCost * float64(q.Output)}
}

// These are the costs of tokens, relative to one of a prompt that is not cached: those of models without a price.
const (
	cachedCost = 0.1
	outputCost = 2
)

// end is when a request ends, or its answer begins.
type end struct {
	at     time.Duration
	index  int
	begins bool
}

// ends is a heap of what ends next.
type ends []end

func (h ends) Len() int { return len(h) }
func (h ends) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].index < h[j].index || h[i].index == h[j].index && h[i].begins
}
func (h ends) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *ends) Push(x any)   { *h = append(*h, x.(end)) }
func (h *ends) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

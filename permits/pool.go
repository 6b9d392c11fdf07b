package permits

import (
	"math/rand/v2"
	"sync"
	"time"

	"colonnade/fairqueue"
)

// Pool grants permits on a set of endpoints. It is safe for concurrent use.
type Pool struct {
	began  time.Time                  // instants below are durations since then: cheaper to take and to compare
	accept func(*fairqueue.Item) bool // acceptLocked, bound once: binding it at each use would allocate

	mu          sync.Mutex // guards the fields below
	config      Config
	fenceOffset time.Duration // what is to be added to an instant here to compare it with one of config.Right
	blocked     bool          // free slots may be kept from those who wait: there was no right to grant
	closed      bool          // nobody waits any more
	draining    bool          // nothing is granted any more
	queue       *fairqueue.Queue
	endpoints   map[string]*endpoint // by ID; those removed too while permits are held on them
	order       []*endpoint          // those of the pool, as they were set
	nextChoice  int                  // where in order the next choice begins
	limit       int                  // slots of the usable endpoints
	free        int                  // slots that can be granted now

	leases       []*lease // all ever made, as many as were held at once: those that are held come first
	nextCharge   int      // of leases, where chargeSomeLocked goes on
	serial       uint64   // of the last permit; also how many were granted
	released     uint64   // permits released
	refused      map[Reason]uint64
	grantTimeSum float64 // the sum of the instants at which the permits held were granted, in nanoseconds

	dispatchedAt   time.Duration // of the dispatch under way, for acceptLocked
	fullTotal      time.Duration // the time with slots but none free, before fullSince
	fullSince      time.Duration // negative: not full
	holds          holds
	pendingRetries [Batch + 1]pendingRetries // by band
	rand           *rand.Rand
}

// New returns a pool without endpoints.
func New(c Config) *Pool {
	p := &Pool{
		began:     time.Now(),
		queue:     fairqueue.New(fairqueue.Config{}),
		endpoints: map[string]*endpoint{},
		refused:   map[Reason]uint64{},
		fullSince: -1,
		rand:      rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
	p.accept = p.acceptLocked
	p.Configure(c)
	return p
}

// Configure changes the bounds and the order of the queue, and how endpoints are chosen. What waits keeps waiting, and
// keeps the time it was given.
func (p *Pool) Configure(c Config) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.config.Cost != c.Cost {
		p.holds.slotCost = slotCost{} // in another unit
	}
	p.config = c
	if c.Fence != nil {
		p.fenceOffset = p.began.Sub(c.Fence.began)
	}
	p.adjustLocked(now, false)
}

// CloseQueue is the first half of an end: what waits is refused, and so is whoever would have to wait. Who comes and
// finds a free slot still gets it.
func (p *Pool) CloseQueue() { p.close(false) }

// Drain ends the pool: what waits is refused, and so is whoever comes. Permits that are held run on.
func (p *Pool) Drain() { p.close(true) }

func (p *Pool) close(whole bool) {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.draining = true, p.draining || whole
	p.rejectWaitersLocked(now, Draining, func(*waiter) bool { return true })
}

// Load returns how busy the pool is. It is cheap.
func (p *Pool) Load() Load {
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loadLocked(now)
}

func (p *Pool) loadLocked(now time.Duration) Load {
	l := Load{Limit: p.limit, Held: p.heldLocked(), Free: p.free, Queued: p.queue.Len()}
	if !p.mayGrantLocked(now) {
		l.Free = 0
	}
	if l.Free > 0 {
		l.Known = true
		return l
	}
	l.Expected, l.Known = p.expectedLocked(now, fairqueue.Claim{Band: Standard})
	return l
}

func (p *Pool) heldLocked() int { return int(p.serial - p.released) }

func (p *Pool) instant() time.Duration { return time.Since(p.began) }

// recountLocked adds up the slots after the state of an endpoint changed.
func (p *Pool) recountLocked() {
	p.limit, p.free = 0, 0
	for _, e := range p.order {
		if e.usable {
			p.limit += e.Concurrency
		}
		p.free += e.free()
	}
}

// adjustLocked brings everything in line after the configuration or the endpoints changed. lost says that an endpoint
// serves no more: somebody may wait in vain.
func (p *Pool) adjustLocked(now time.Duration, lost bool) {
	p.recountLocked()
	p.queue.Configure(fairqueue.Config{
		Discipline:   p.config.Discipline,
		Limit:        p.config.Limit,
		PerAccount:   p.config.PerAccount,
		Bytes:        p.config.Bytes,
		PromoteAfter: p.config.PromoteAfter,
		MaxShare:     p.config.MaxShare,
		Slots:        p.limit,
		Learn:        p.config.Cost == ByTokens,
	})
	if lost {
		p.rejectWaitersLocked(now, NoEndpoint, func(w *waiter) bool { return !p.hasEndpointLocked(w.avoid) })
	}
	p.dispatchLocked(now)
}

// trackFullLocked follows the time that the pool is full; it ends whatever changed the number of free slots.
func (p *Pool) trackFullLocked(now time.Duration) {
	full := p.limit > 0 && p.free == 0
	if full == (p.fullSince >= 0) {
		return
	}
	if full {
		p.fullSince = now
		return
	}
	p.fullTotal += max(0, now-p.fullSince) // instants are taken before the mutex is
	p.fullSince = -1
}

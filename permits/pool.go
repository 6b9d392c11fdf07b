package permits

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/balance"
	"colonnade/fairqueue"
)

// Pool grants permits on a set of endpoints. It is safe for concurrent use.
type Pool struct {
	began  time.Time                  // instants below are durations since then, which are cheaper to take and to compare
	accept func(*fairqueue.Item) bool // acceptLocked, bound once: each binding would allocate

	latencies atomic.Bool // the balancer goes by them

	mu           sync.Mutex // guards the fields below
	config       Config
	fenceOffset  time.Duration // added to an instant here, it is one of config.Fence
	blocked      bool          // waiters may be beside free slots, since the fence has passed
	closed       bool          // no request may wait any more
	draining     bool          // no permit is granted any more
	away         bool          // another server is the home: only stand-ins wait
	standIns     int           // requests waiting that are stand-ins; 0 unless away
	epoch        uint64        // of config.Fence, read before the fence was last compared
	queue        *fairqueue.Queue
	endpoints    map[string]*endpoint // by ID; also those removed, while permits are held on them
	order        []*endpoint          // the endpoints of the pool, in the order of SetEndpoints
	balancer     *balance.Balancer    // has the endpoints of order, by their indexes
	barred       barred               // of order
	declined     int                  // requests that declined in the dispatch under way
	noDecline    bool                 // see dispatchToAllLocked
	declineTimer *time.Timer          // see wakeForDeclinedLocked; nil: none runs
	declineEnds  time.Duration        // when declineTimer ends
	limit        int                  // slots of the usable endpoints
	responsive   int                  // of these, the slots of endpoints that are not doubtful
	free         int                  // slots that can be granted now

	states       []*permitState // as many as were ever held at once; those that are held come first
	nextCharge   int            // index in states where chargeSomeLocked goes on
	serial       uint64         // of the last permit; also the number of permits granted
	released     uint64         // permits released
	refused      map[Reason]uint64
	choices      choices       // of the endpoints of all grants
	grantTimeSum time.Duration // sum of the instants of grant of the permits held, modulo 2^64

	dispatchedAt   time.Duration // instant of the dispatch under way, for acceptLocked
	fullTotal      time.Duration // with slots but none free, before fullSince
	fullSince      time.Duration // negative: not full
	holds          holds
	pendingRetries [Batch + 1]pendingRetries // by band
	restricted     map[uint64]*restricted    // by the key of the exclusions
	rand           *rand.Rand
}

// New returns a pool without endpoints.
func New(c Config) *Pool {
	p := &Pool{
		began:     time.Now(),
		queue:     fairqueue.New(fairqueue.Config{}),
		balancer:  balance.New(c.Balance),
		endpoints: map[string]*endpoint{},
		refused:   map[Reason]uint64{},
		choices:   newChoices(),
		fullSince: -1,
		rand:      rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
	p.accept = p.acceptLocked
	p.Configure(c)
	return p
}

// Configure changes the bounds and the order of the queue, and the choice of endpoints. A request that waits goes on
// waiting, for as long as it was allowed on its arrival.
func (p *Pool) Configure(c Config) {
	p.offerRing(nil, &c.Balance)
	now := p.instant()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.config.Cost != c.Cost {
		p.holds.slotCost = slotCost{} // costs have another unit from now on
	}
	p.config = c
	p.balancer.Configure(c.Balance)
	p.latencies.Store(c.Balance.UsesLatency())
	if c.Fence != nil {
		p.fenceOffset = p.began.Sub(c.Fence.began)
	}
	p.adjustLocked(now, false)
}

// CloseQueue is the first half of a drain: all waiters are refused, and so is every request that would have to wait. A
// newcomer that finds a free slot still gets it.
func (p *Pool) CloseQueue() { p.close(false) }

// Drain ends the pool: all waiters and all newcomers are refused. Permits that are held stay valid.
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
	l.Expected, l.Known = p.expectedLocked(now, fairqueue.Claim{Band: Standard}, &Exclusions{})
	return l
}

func (p *Pool) heldLocked() int { return int(p.serial - p.released) }

func (p *Pool) instant() time.Duration { return time.Since(p.began) }

// instantOr returns the instant that a caller has given, or the present one for 0.
func (p *Pool) instantOr(given time.Duration) time.Duration {
	if given != 0 {
		return given
	}
	return p.instant()
}

// presentLocked returns the present instant if waiters may be granted slots by it, else one that was the present a moment ago. So callers
// can give the time, and no slot is handed over by it after the fence has passed.
func (p *Pool) presentLocked(recent time.Duration) time.Duration {
	if p.queue.Len() == 0 {
		return recent
	}
	return p.instant()
}

// recountLocked adds up the slots after a change of endpoints.
func (p *Pool) recountLocked() {
	p.limit, p.responsive, p.free = 0, 0, 0
	for _, e := range p.order {
		p.limit += e.limit()
		if !e.doubtful {
			p.responsive += e.limit()
		}
		e.counted = 0
		p.updateLocked(e)
	}
}

// adjustLocked brings everything in line after the configuration or the endpoints changed. lost says that an endpoint was
// lost, so that a waiter may have none left.
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
		p.rejectWaitersLocked(now, NoEndpoint, func(w *waiter) bool { return !p.hasEndpointLocked(w.avoid, &w.excluded) })
	}
	p.dispatchLocked(now)
}

// trackFullLocked measures the time without a free slot. Everything that changes the number of free slots ends with it.
func (p *Pool) trackFullLocked(now time.Duration) {
	full := p.limit > 0 && p.free == 0
	if full == (p.fullSince >= 0) {
		return
	}
	if full {
		p.fullSince = now
		return
	}
	p.fullTotal += max(0, now-p.fullSince) // now can be earlier than fullSince: instants are taken before the mutex
	p.fullSince = -1
}

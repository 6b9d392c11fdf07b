package admission

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/permits"
)

// Probe checks one endpoint's health path. An error that wraps ErrNotAsked says nothing of the endpoint.
type Probe func(context.Context, *fleet.Endpoint) error

// Desk holds the pools of one colo server.
type Desk struct {
	colo   string
	probe  Probe
	logger *slog.Logger
	right  *permits.Right // to grant, of all pools

	wake chan struct{} // to Run: the endpoints have changed

	mu       sync.Mutex // guards the fields below, and the health of every endpoint
	pools    map[string]*Pool
	engines  map[string]*engine // by URL
	suspects []string           // keys of endpoints that have no lease any more
	settling bool               // an endpoint waits for slots that another pool holds
	closed   bool               // nobody waits any more
	draining bool               // nothing is granted any more
}

// engine is one URL, whatever pools and documents it stands in.
type engine struct {
	endpoint *fleet.Endpoint
	pool     *Pool // nil when it is in no pool any more
	health   health
	found    *gradient     // its limit, once a document has said concurrency: auto
	since    time.Time     // when health changed last; zero: never
	due      bool          // its document says anew how to probe it
	recheck  chan struct{} // to its monitor: it was ejected, so probe when that ends; or it is due
}

// NewDesk returns a desk without pools, to be run.
func NewDesk(colo string, probe Probe, logger *slog.Logger) *Desk {
	return &Desk{
		colo: colo, probe: probe, logger: logger, right: permits.NewRight(), wake: make(chan struct{}, 1),
		pools: map[string]*Pool{}, engines: map[string]*engine{},
	}
}

// Pool returns the pool of that name, as of the last table.
func (d *Desk) Pool(name string) (*Pool, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.pools[name]
	return p, ok
}

// Pools returns all pools, sorted by name.
func (d *Desk) Pools() []*Pool {
	d.mu.Lock()
	defer d.mu.Unlock()
	pools := make([]*Pool, 0, len(d.pools))
	for _, p := range d.pools {
		pools = append(pools, p)
	}
	slices.SortFunc(pools, func(a, b *Pool) int { return strings.Compare(a.name, b.name) })
	return pools
}

// Apply brings the pools in line with t. Running permits and waiting requests are not disturbed.
func (d *Desk) Apply(t *fleet.Table) {
	d.mu.Lock()
	defer d.mu.Unlock()
	named := map[string]bool{}
	for _, doc := range t.Pools() {
		named[doc.Name] = true
		d.configureLocked(doc)
	}
	present := map[string]bool{}
	for _, e := range t.EndpointsOf(d.colo) {
		if p := d.pools[e.Pool]; p != nil {
			present[e.URL] = true
			d.placeLocked(e, p)
		}
	}
	for url, e := range d.engines {
		if !present[url] {
			e.pool = nil
		}
	}
	d.suspects = t.Suspect
	d.recallLocked()
	d.settleLocked()
	for name, p := range d.pools {
		p.unnamed = !named[name]
	}
	d.forgetPoolsLocked()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// forgetPoolsLocked drops the pools that nobody speaks of any more, once nothing runs or waits there.
func (d *Desk) forgetPoolsLocked() {
	for name, p := range d.pools {
		if p.unnamed && p.idle() {
			delete(d.pools, name)
		}
	}
}

// configureLocked creates or updates the pool of doc.
func (d *Desk) configureLocked(doc *fleet.Pool) {
	config := poolConfig(doc)
	config.Right = d.right
	p, ok := d.pools[doc.Name]
	if !ok {
		p = &Pool{name: doc.Name, desk: d, permits: permits.New(config)}
		d.pools[doc.Name] = p
		if d.closed {
			p.permits.CloseQueue()
		}
		if d.draining {
			p.permits.Drain()
		}
	}
	p.permits.Configure(config)
	p.document.Store(doc)
}

// placeLocked puts e into p.
func (d *Desk) placeLocked(e *fleet.Endpoint, p *Pool) {
	known := d.engines[e.URL]
	if known == nil {
		known = &engine{recheck: make(chan struct{}, 1)}
		d.engines[e.URL] = known
	}
	if old := known.endpoint; old != nil && (old.Health != e.Health || old.Credential != e.Credential) {
		// It may have been down for nothing but how it was probed, and the old interval may be an hour.
		known.due = true
		known.wake()
	}
	wasAuto := known.endpoint != nil && known.auto()
	known.endpoint, known.pool = e, p
	known.boundLocked(time.Now(), wasAuto)
}

// wake makes the engine's monitor look when to probe next.
func (e *engine) wake() {
	select {
	case e.recheck <- struct{}{}:
	default:
	}
}

func poolConfig(doc *fleet.Pool) permits.Config {
	c := permits.Config{
		Limit:        doc.Queue.Limit,
		PerAccount:   doc.Queue.PerAccount,
		Bytes:        int64(doc.Queue.Bytes),
		MaxShare:     doc.Permits.MaxShare,
		MaxWait:      doc.Queue.MaxWait.Std(),
		PromoteAfter: doc.Queue.PromoteAfter.Std(),
	}
	if doc.Queue.Discipline == fleet.DisciplineFIFO {
		c.Discipline = permits.FIFO
	}
	if doc.Queue.Cost == fleet.CostTokens {
		c.Cost = permits.ByTokens
	}
	if doc.Balance.Policy == fleet.PolicyRoundRobin {
		c.Policy = permits.RoundRobin
	}
	return c
}

// CloseQueues tells all who wait that this node drains, and lets nobody wait any more. Who finds a free slot still gets
// it.
func (d *Desk) CloseQueues() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, p := range d.pools {
		p.permits.CloseQueue()
	}
}

// Drain refuses newcomers and tells all who wait; running permits are not disturbed.
func (d *Desk) Drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed, d.draining = true, true
	for _, p := range d.pools {
		p.permits.Drain()
	}
}

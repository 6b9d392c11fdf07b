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

// Manager holds the pools of one colo server.
type Manager struct {
	colo   string
	probe  Probe
	logger *slog.Logger
	fence  *permits.Fence // to grant, of all pools

	wake chan struct{} // to Run: the endpoints have changed

	mu               sync.Mutex // guards the fields below, and the health of every endpoint
	pools            map[string]*Pool
	engines          map[string]*engine // by URL
	suspects         []string           // keys of endpoints that have no lease any more
	reconcilePending bool               // an endpoint waits for slots that another pool holds
	closed           bool               // nobody waits any more
	draining         bool               // nothing is granted any more
}

// engine is one URL, whatever pools and documents it stands in.
type engine struct {
	endpoint *fleet.Endpoint
	pool     *Pool // nil when it is in no pool any more
	health   health
	gradient *gradient     // its limit, once a document has said concurrency: auto
	since    time.Time     // when health changed last; zero: never
	probeDue bool          // its document says anew how to probe it
	recheck  chan struct{} // to its monitor: it was ejected, so probe when that ends; or it is due
}

// NewManager returns a manager without pools, to be run.
func NewManager(colo string, probe Probe, logger *slog.Logger) *Manager {
	return &Manager{
		colo: colo, probe: probe, logger: logger, fence: permits.NewFence(), wake: make(chan struct{}, 1),
		pools: map[string]*Pool{}, engines: map[string]*engine{},
	}
}

// Pool returns the pool of that name, as of the last table.
func (m *Manager) Pool(name string) (*Pool, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.pools[name]
	return p, ok
}

// Pools returns all pools, sorted by name.
func (m *Manager) Pools() []*Pool {
	m.mu.Lock()
	defer m.mu.Unlock()
	pools := make([]*Pool, 0, len(m.pools))
	for _, p := range m.pools {
		pools = append(pools, p)
	}
	slices.SortFunc(pools, func(a, b *Pool) int { return strings.Compare(a.name, b.name) })
	return pools
}

// Apply brings the pools in line with t. Running permits and waiting requests are not disturbed.
func (m *Manager) Apply(t *fleet.Table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	named := map[string]bool{}
	for _, doc := range t.Pools() {
		named[doc.Name] = true
		m.configureLocked(doc)
	}
	present := map[string]bool{}
	for _, e := range t.EndpointsOf(m.colo) {
		if p := m.pools[e.Pool]; p != nil {
			present[e.URL] = true
			m.addEndpointLocked(e, p)
		}
	}
	for url, e := range m.engines {
		if !present[url] {
			e.pool = nil
		}
	}
	m.suspects = t.ExpiredLeases
	m.readmitLocked()
	m.reconcileLocked()
	for name, p := range m.pools {
		p.removed = !named[name]
	}
	m.forgetPoolsLocked()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// forgetPoolsLocked drops the pools that nobody speaks of any more, once nothing runs or waits there.
func (m *Manager) forgetPoolsLocked() {
	for name, p := range m.pools {
		if p.removed && p.idle() {
			delete(m.pools, name)
		}
	}
}

// configureLocked creates or updates the pool of doc.
func (m *Manager) configureLocked(doc *fleet.Pool) {
	config := poolConfig(doc)
	config.Fence = m.fence
	p, ok := m.pools[doc.Name]
	if !ok {
		p = &Pool{name: doc.Name, manager: m, permits: permits.New(config)}
		m.pools[doc.Name] = p
		if m.closed {
			p.permits.CloseQueue()
		}
		if m.draining {
			p.permits.Drain()
		}
	}
	p.permits.Configure(config)
	p.document.Store(doc)
}

// addEndpointLocked puts e into p.
func (m *Manager) addEndpointLocked(e *fleet.Endpoint, p *Pool) {
	known := m.engines[e.URL]
	if known == nil {
		known = &engine{recheck: make(chan struct{}, 1)}
		m.engines[e.URL] = known
	}
	if old := known.endpoint; old != nil && (old.Health != e.Health || old.Credential != e.Credential) {
		// It may have been down for nothing but how it was probed, and the old interval may be an hour.
		known.probeDue = true
		known.wake()
	}
	wasAuto := known.endpoint != nil && known.auto()
	known.endpoint, known.pool = e, p
	known.updateGradientLocked(time.Now(), wasAuto)
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
func (m *Manager) CloseQueues() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, p := range m.pools {
		p.permits.CloseQueue()
	}
}

// Drain refuses newcomers and tells all who wait; running permits are not disturbed.
func (m *Manager) Drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.draining = true, true
	for _, p := range m.pools {
		p.permits.Drain()
	}
}

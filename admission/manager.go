package admission

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"colonnade/balance"
	"colonnade/fleet"
	"colonnade/homes"
	"colonnade/permits"
)

// HealthCheck checks the health path of one endpoint. An error that wraps [ErrNotChecked] says nothing about the
// endpoint.
type HealthCheck func(context.Context, *fleet.Endpoint) error

// Manager has the pools of one colo server. It is safe for concurrent use.
type Manager struct {
	colo        string
	healthCheck HealthCheck
	logger      *slog.Logger
	fence       *permits.Fence // of all pools
	pathRule    PathRule
	readFigures ReadFigures // nil: no metrics of engines are read

	followEvents FollowEvents // nil: no events of engines are read

	wake chan struct{} // to Run: the set of endpoints has changed

	// published are the pools for requests, which must not wait while a table of thousands of endpoints is applied under mu.
	published atomic.Pointer[map[string]*Pool]

	mu               sync.Mutex // guards the fields below, and the health of every endpoint
	pools            map[string]*Pool
	engines          map[string]*engine        // by URL
	models           map[string][]*fleet.Model // by pool
	applied          bool                      // a table
	grants           *homes.Grants             // nil: all
	suspects         []string                  // keys of endpoints whose lease has expired
	reconcilePending bool                      // an endpoint waits for slots that another pool holds
	closed           bool                      // no request may wait any more
	draining         bool                      // no permit is granted any more
	listened         time.Time                 // when it was last looked what engines have sent
}

// engine is one URL, whichever pool and document it is in.
type engine struct {
	endpoint *fleet.Endpoint
	pool     *Pool // nil once it is in no pool
	health   health
	gradient *gradient     // nil until a document has said concurrency: auto
	since    time.Time     // when the state of health changed last; zero: never
	checkDue bool          // check its health at once: the document has changed how to
	recheck  chan struct{} // to its monitor: the time of the next check has changed
	signs    *signsOfLife
	figures  engineFigures
	prompted float64       // tokens of prompts that it has looked for in its prefix cache, as it or another server said last
	reread   chan struct{} // to the reader of its metrics: it may be asked now
	cache    engineCache
	run      workerRun // of its worker; zero: not known

	lacks  map[string]lack // what the engine has said that it lacks, by name; see [Pool.Lacks]
	listed nameSet         // models and adapters that the engine lists; nil: not known
	active nameSet         // adapters that its metrics show as running or waiting

	granted       bool        // permits may be granted; as of the grants, if a pool has it
	share         homes.Share // what other servers hold of it
	others        int         // permits that other pools held when they were counted last: no more now
	withheldSince time.Time   // when granted has become false
	began         time.Time   // when a table put it into its pool, or said that its worker has started it again; zero: the first table did

	received   *EngineLearned // from the server that could grant permits before, until this one may; nil: nothing
	receivedAt time.Time
}

// NewManager returns a manager without pools. The caller runs it.
func NewManager(colo string, probe HealthCheck, logger *slog.Logger) *Manager {
	m := &Manager{
		colo: colo, healthCheck: probe, logger: logger, fence: permits.NewFence(), wake: make(chan struct{}, 1),
		pools: map[string]*Pool{}, engines: map[string]*engine{},
	}
	m.publishLocked()
	return m
}

// publishLocked makes the pools those that requests find.
func (m *Manager) publishLocked() {
	if old := m.published.Load(); old == nil || !maps.Equal(*old, m.pools) {
		pools := maps.Clone(m.pools)
		m.published.Store(&pools)
	}
}

// Pool returns the pool of that name, as of the last table.
func (m *Manager) Pool(name string) (*Pool, bool) {
	p, ok := (*m.published.Load())[name]
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

// Apply brings the pools in line with t. Permits that are held and requests that wait are not disturbed.
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
			e.moveTo(nil, url)
		}
	}
	m.applyModelsLocked(t)
	m.noteRestartsLocked(t)
	m.applied, m.suspects = true, t.ExpiredLeases
	m.followGrantsLocked(time.Now())
	m.readmitLocked()
	m.reconcileLocked()
	m.fitCachesLocked()
	for name, p := range m.pools {
		p.removed = !named[name]
	}
	m.forgetPoolsLocked()
	m.publishLocked()
	m.wakeRun()
}

// wakeRun makes Run start and end monitors.
func (m *Manager) wakeRun() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// forgetPoolsLocked drops the pools that the table does not have, once no request runs or waits there.
func (m *Manager) forgetPoolsLocked() {
	before := len(m.pools)
	for name, p := range m.pools {
		if p.removed && p.idle() {
			delete(m.pools, name)
		}
	}
	if len(m.pools) < before {
		m.publishLocked()
	}
}

// configureLocked creates or updates the pool of doc.
func (m *Manager) configureLocked(doc *fleet.Pool) {
	config := poolConfig(doc)
	config.Fence = m.fence
	p, ok := m.pools[doc.Name]
	if !ok {
		p = &Pool{name: doc.Name, manager: m, permits: permits.New(config), members: map[string]*engine{}}
		m.pools[doc.Name] = p
		p.permits.SetHome(m.isHomeLocked(doc.Name))
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

// addEndpointLocked adds e to p.
func (m *Manager) addEndpointLocked(e *fleet.Endpoint, p *Pool) {
	known := m.engines[e.URL]
	if known == nil {
		known = &engine{recheck: make(chan struct{}, 1), reread: make(chan struct{}, 1), signs: new(signsOfLife)}
		m.engines[e.URL] = known
	}
	if old := known.endpoint; old != nil && (old.Health != e.Health || old.Credential != e.Credential) {
		// It may have been down only because of how it was probed, and the old interval may be an hour.
		known.checkDue = true
		known.wake()
	}
	if old := known.endpoint; old != nil && (old.Health != e.Health || old.Credential != e.Credential || old.Metrics != e.Metrics) {
		known.readAgain()
	}
	if known.pool != p && m.applied {
		known.began = time.Now()
	}
	known.moveTo(p, e.URL)
	if known.endpoint != e {
		known.lacks, p.membersChanged = nil, true // the document says now how the engine is asked
	}
	wasAdapting := known.endpoint != nil && known.adapts()
	known.endpoint = e
	known.updateGradientLocked(time.Now(), wasAdapting)
}

// moveTo puts the engine at url into a pool; nil: into none.
func (e *engine) moveTo(p *Pool, url string) {
	if e.pool == p {
		return
	}
	if e.pool != nil {
		delete(e.pool.members, url)
		e.pool.membersChanged = true
		e.lacks, e.listed, e.active = nil, nil, nil
		e.cache.size = 0 // the next pool does not know it
	}
	if e.pool = p; p != nil {
		p.members[url] = e
		p.membersChanged = true
	}
}

// wake makes the engine's monitor compute anew when to probe next.
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
	c.Balance, c.PreferWait = balanceConfig(&doc.Balance), doc.Balance.Wait.Std()
	return c
}

var policies = map[string]balance.Policy{
	fleet.PolicyLeastLoaded:        balance.LeastLoaded,
	fleet.PolicyRoundRobin:         balance.RoundRobin,
	fleet.PolicyWeightedRoundRobin: balance.WeightedRoundRobin,
	fleet.PolicyLeastLatency:       balance.LeastLatency,
	fleet.PolicyConsistentHash:     balance.ConsistentHash,
	fleet.PolicyPrefixAffinity:     balance.PrefixAffinity,
	fleet.PolicyAdapterAffinity:    balance.AdapterAffinity,
	fleet.PolicyScore:              balance.Score,
}

func balanceConfig(doc *fleet.Balance) balance.Config {
	return balance.Config{
		Policy:         policies[doc.Policy],
		LoadFactor:     doc.LoadFactor,
		ByRing:         doc.Prefix.By == fleet.PrefixByRing,
		IndexBytes:     int64(doc.Prefix.Memory),
		MaxAge:         doc.Prefix.MaxAge.Std(),
		AdapterPending: doc.AdapterPending,
		Weights:        balance.Weights{Prefix: doc.Score.Prefix, Load: doc.Score.Load, Latency: doc.Score.Latency},
	}
}

// CloseQueues refuses all waiters, reason draining, and every later request that would have to wait. A request that finds
// a free slot still gets it.
func (m *Manager) CloseQueues() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for _, p := range m.pools {
		p.permits.CloseQueue()
	}
}

// Drain refuses all waiters and all later requests, reason draining. Permits that are held are not disturbed.
func (m *Manager) Drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed, m.draining = true, true
	for _, p := range m.pools {
		p.permits.Drain()
		if free := p.free.Load(); free != nil {
			free.Drain()
		}
	}
	m.wakeRun()
}

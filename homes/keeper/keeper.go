package keeper

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"colonnade/fleet"
	"colonnade/homes"
)

// Config has the settings and dependencies of a keeper. Everything but Ended is required; the functions are called by several goroutines.
type Config struct {
	Self   homes.Process
	Colo   string
	Ended  []string      // boot ids of earlier processes of this node that have certainly ended
	TTL    time.Duration // of registrations
	Logger *slog.Logger

	SetGrants func(*homes.Grants)   // puts grants in force; when it returns, no permit is granted beyond them
	MayGrant  func() bool           // whether the right to grant has not lapsed
	Drains    func() bool           // whether requests that would have to wait here are refused
	Held      func() map[string]int // permits in hand, by engine URL
	Limits    func() map[string]int // limits that were found, by engine URL
	StandIns  func(pool string) int // number of requests that wait here because the pool's home did not answer
	Return    func(pool string)     // sends a pool's stand-ins to its home, which has answered
	Confirmed func() time.Time      // when the store last confirmed the registration
	MarkDead  func(keys ...string)  // removes documents whose lease has expired from the table

	// Put puts the record of a process that has registered at a revision; see [etcd.Records.Put].
	Put     func(ctx context.Context, registered int64, owns, held map[string]int) (revision int64, err error)
	Replace func(ctx context.Context, old homes.Record, next *homes.Record) (done bool, err error)
	Forget  func() // makes the process register again

	// Ask asks a process at an address, within a second.
	Ask func(ctx context.Context, to Target, about string) (homes.Answer, error)
	// Refused reports whether an error of Ask means that the address refuses connections.
	Refused func(error) bool
}

// Target is a process to ask.
type Target struct {
	homes.Process
	Address  string
	Protocol int // the newest that it speaks; 0 = not known
}

// Keeper keeps the ownership of one colo server. It is safe for concurrent use.
type Keeper struct {
	config Config
	began  time.Time
	wake   chan struct{} // to the goroutine that puts; capacity 1
	look   chan struct{} // to the goroutine that asks about orphaned records; capacity 1

	placed       atomic.Pointer[placement]
	vouchedUntil atomic.Pointer[time.Time]
	alone        atomic.Bool
	writtenOff   atomic.Int64

	mu             sync.Mutex // guards the fields below; no function of Config that takes the mutex of a lease is called under it
	ownership      *homes.Ownership
	orphans        *homes.Orphans
	vouchers       *homes.Vouchers
	registered     int64          // revision of the last registration
	replaced       bool           // the siblings may have taken over this server's pools: requests are sent to them
	lapsed         time.Time      // when the right to grant was found to have lapsed; zero = it has not
	atRegistration map[string]int // permits in hand at the last StopGrants
	unknown        map[homes.Process]UnknownEngines
}

// placement is the home of each pool of one table.
type placement struct {
	table *fleet.Table
	homes map[string]*fleet.Server // by pool; without the pools whose home is this server
	nodes map[string]string        // the nodes of homes, by pool
	old   *fleet.Server            // a server of a version that cannot share its colo; nil = there is none
}

// New returns a keeper that owns nothing; the caller runs it.
func New(c Config) *Keeper {
	k := &Keeper{
		config: c, began: time.Now(), wake: make(chan struct{}, 1), look: make(chan struct{}, 1),
		ownership: homes.NewOwnership(c.Self, c.TTL), orphans: homes.NewOrphans(), vouchers: homes.NewVouchers(c.TTL * 9 / 10),
	}
	k.placed.Store(&placement{table: fleet.NewTable(fleet.Contents{}), homes: map[string]*fleet.Server{}})
	k.vouchedUntil.Store(new(time.Time))
	k.alone.Store(true)
	k.config.SetGrants(&homes.Grants{})
	return k
}

// Run keeps the record until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { k.runPuts(ctx); return nil })
	group.Go(func() error { k.runOrphans(ctx); return nil })
	group.Go(func() error { k.runSiblings(ctx); return nil })
	group.Go(func() error { k.runExpired(ctx); return nil })
	return group.Wait()
}

// Apply puts a table in force. The caller has made the pools of the table before.
func (k *Keeper) Apply(t *fleet.Table) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := place(t, k.config.Colo, k.config.Self.Node)
	engines := map[string]bool{}
	for _, e := range t.EndpointsOf(k.config.Colo) {
		_, elsewhere := p.homes[e.Pool]
		// An old server that drains is no home, and has requests that no record counts.
		engines[e.URL] = !elsewhere && e.Concurrency > 0 && p.old == nil
	}
	if n, before := p.active(k.config.Colo), k.placed.Load().active(k.config.Colo); n > fleet.MaxServers && before <= fleet.MaxServers {
		k.config.Logger.Warn("the colo has more active servers than are supported: stop the others", "active", n, "supported", fleet.MaxServers)
	}
	k.placeLocked(p)
	k.ownership.Want(engines, time.Now())
	k.updateOrphansLocked()
	k.grantLocked()
}

// placeLocked puts a placement in force. If the siblings may have taken over, only those that may reach the store can be homes: not this
// server, and not those that do not reach the store either, since two such servers would send requests to each other.
func (k *Keeper) placeLocked(p *placement) {
	if k.replaced {
		now := time.Now()
		reaching := slices.DeleteFunc(p.siblings(k.config.Colo, k.config.Self.Node), func(s *fleet.Server) bool {
			return k.vouchers.Holds(homes.Process{Node: s.Node, Boot: s.Boot}.String(), now)
		})
		p = placeAmong(p.table, k.config.Self.Node, reaching)
	}
	k.placed.Store(p)
	k.updateAloneLocked()
}

// setReplacedLocked sets whether the siblings may have taken over, so that requests must go to them: a sibling has found this server not
// registered, or the right to grant has lapsed for lapseLimit.
func (k *Keeper) setReplacedLocked(replaced bool) {
	if k.replaced != replaced {
		k.replaced = replaced
		k.placeLocked(place(k.placed.Load().table, k.config.Colo, k.config.Self.Node))
	}
}

// place computes the placement of a table for the server node of a colo.
func place(t *fleet.Table, colo, node string) *placement {
	return placeAmong(t, node, t.Registered(colo))
}

// placeAmong computes the placement of a table for the server node, with homes among servers only.
func placeAmong(t *fleet.Table, node string, servers []*fleet.Server) *placement {
	p := &placement{table: t, homes: map[string]*fleet.Server{}, nodes: map[string]string{}}
	for _, s := range servers {
		if s.Node != node && s.Protocol.Max < homes.SharingProtocol {
			p.old = s
		}
	}
	for _, pool := range t.Pools() {
		if owner := homes.Owner(pool.Name, servers); owner != nil && owner.Node != node {
			p.homes[pool.Name], p.nodes[pool.Name] = owner, owner.Node
		}
	}
	return p
}

// active returns how many servers of the colo are active.
func (p *placement) active(colo string) (n int) {
	for _, s := range p.table.Registered(colo) {
		if s.State == fleet.StateActive {
			n++
		}
	}
	return n
}

// siblings returns the other servers of the colo, with those whose lease has expired.
func (p *placement) siblings(colo, node string) []*fleet.Server {
	var others []*fleet.Server
	for _, s := range p.table.Servers(colo) {
		if s.Node != node {
			others = append(others, s)
		}
	}
	return others
}

// updateAloneLocked updates whether this server knows another one, from the table or by a record. If it does, rights that were assumed
// without the store end.
func (k *Keeper) updateAloneLocked() {
	alone := len(k.othersLocked()) == 0
	k.alone.Store(alone)
	if !alone && k.ownership.EndAssumption() {
		k.signal(k.wake)
	}
}

// othersLocked returns all other processes that may be running: those of the servers in the table, and those that have records. It leaves
// out the earlier processes of this node, but not an unknown process with this node's name.
func (k *Keeper) othersLocked() []Target {
	t := k.placed.Load().table
	var others []Target
	add := func(to Target, known bool) {
		earlier := to.Node == k.config.Self.Node && (to.Boot == k.config.Self.Boot || slices.Contains(k.config.Ended, to.Boot) || !known)
		if !earlier && !slices.ContainsFunc(others, func(c Target) bool { return c.Process == to.Process }) {
			others = append(others, to)
		}
	}
	for _, s := range t.Servers(k.config.Colo) {
		// A process of an older version kept no list of the boot ids of its node.
		add(targetOf(s), s.Protocol.Max >= homes.SharingProtocol)
	}
	for _, r := range k.ownership.Records() {
		if r.Boot != "" { // a record that was put by hand has no process
			add(Target{Process: r.Process, Address: r.Address}, true)
		}
	}
	return others
}

// Assume makes the server own the engines of all pools that it is the home of, while the store is away and no other server is known.
func (k *Keeper) Assume() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ownership.Assume()
	k.grantLocked()
}

// Alone reports whether no other server of the colo is known.
func (k *Keeper) Alone() bool { return k.alone.Load() }

// Vouched returns the time until which all other servers of the colo have said that they do not reach the store either; zero if one has
// not.
func (k *Keeper) Vouched() time.Time { return *k.vouchedUntil.Load() }

// StopGrants ends all grants before the process registers, and returns how many permits it has in hand, by engine URL.
func (k *Keeper) StopGrants() map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ownership.Lose()
	k.grantLocked()
	k.atRegistration = k.config.Held()
	return maps.Clone(k.atRegistration)
}

// Registered notes that the process has registered at a revision, with a record that owns nothing and holds the permits that StopGrants has
// returned.
func (k *Keeper) Registered(revision int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.registered = revision
	k.setReplacedLocked(false)
	k.ownership.Registered(k.atRegistration)
	k.grantLocked()
}

// Observe applies a change of the colo's records.
func (k *Keeper) Observe(c homes.Change) {
	if !k.observe(c) {
		k.config.Logger.Warn("the record of this server does not stand as it was put; registering again", "revision", c.Revision, "restored", c.Restored)
		k.config.Forget()
	}
	k.signal(k.wake)
}

func (k *Keeper) observe(c homes.Change) (stands bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	alone := k.alone.Load()
	stands = k.ownership.Observe(c, alone, now)
	k.updateAloneLocked()
	k.updateOrphansLocked()
	k.grantLocked()
	return stands
}

// Restored notes that the store was restored to an older revision, before Observe gets the records of that revision.
func (k *Keeper) Restored() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ownership.Restored(k.alone.Load(), time.Now())
	k.grantLocked()
}

// Look makes Run check the orphaned records now: one of their processes may have died, or come back. Each process is still asked only every
// half second.
func (k *Keeper) Look() { k.signal(k.look) }

// grantLocked puts the grants in force.
func (k *Keeper) grantLocked() {
	k.config.SetGrants(&homes.Grants{Engines: k.ownership.Shares(), Homes: k.placed.Load().nodes})
	k.signal(k.wake)
}

func (k *Keeper) updateOrphansLocked() {
	table := k.placed.Load().table
	registered := map[homes.Process]bool{}
	for _, s := range table.Registered(k.config.Colo) {
		registered[homes.Process{Node: s.Node, Boot: s.Boot}] = true
	}
	k.orphans.Update(k.ownership.Records(), func(p homes.Process) bool { return registered[p] }, time.Now())
	k.updateUnknownLocked(table, func(p homes.Process) bool { return !registered[p] })
	for _, boot := range k.config.Ended {
		k.orphans.Ended(homes.Process{Node: k.config.Self.Node, Boot: boot}, k.began)
	}
	k.signal(k.look)
}

func (k *Keeper) signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

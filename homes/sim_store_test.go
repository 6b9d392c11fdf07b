package homes_test

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"colonnade/homes"
)

const (
	ttl         = 5 * time.Second
	callTimeout = ttl / 5
)

// registration is what stands under servers/<colo>/<node>.
type registration struct {
	homes.Process
	address  string
	draining bool
	lease    int
	revision int64 // at which it was put
}

// storeState is what a snapshot of the store has.
type storeState struct {
	revision int64
	servers  map[string]registration // by node
	records  map[homes.Process]homes.Record
	fleet    documents
}

// storeEvent is one revision, as watches report it.
type storeEvent struct {
	revision int64
	put      []homes.Record
	deleted  []homes.Process
	table    bool // a registration or a document has changed
}

// store is a model of etcd: every transaction is one revision, and watches see them in their order.
type store struct {
	sim *simulation
	storeState
	leases   map[int]time.Duration // when they expire
	renewals map[int]int           // of each lease
	lastID   int
	away     bool // it answers nothing
	restores int
	log      []storeEvent // since the last restore
	watchers []*watcher
}

func newStore(s *simulation) *store {
	return &store{
		sim: s, leases: map[int]time.Duration{}, renewals: map[int]int{},
		storeState: storeState{revision: 1, servers: map[string]registration{}, records: map[homes.Process]homes.Record{}},
	}
}

// transaction gathers the changes of one revision.
type transaction struct {
	*store
	event storeEvent
}

// commit applies a transaction. do makes its changes; without any there is no new revision.
func (st *store) commit(do func(*transaction)) {
	t := &transaction{store: st, event: storeEvent{revision: st.revision + 1}}
	do(t)
	if len(t.event.put)+len(t.event.deleted) == 0 && !t.event.table {
		return
	}
	st.revision++
	st.log = append(st.log, t.event)
	for _, w := range st.watchers {
		w.notify()
	}
}

func (t *transaction) putRecord(r homes.Record) homes.Record {
	r.Revision = t.event.revision
	r.Owns, r.Held = maps.Clone(r.Owns), maps.Clone(r.Held)
	t.records[r.Process] = r
	t.event.put = append(t.event.put, r)
	return r
}

func (t *transaction) deleteRecord(p homes.Process) {
	if _, ok := t.records[p]; ok {
		delete(t.records, p)
		t.event.deleted = append(t.event.deleted, p)
	}
}

func (t *transaction) putServer(r registration) {
	r.revision = t.event.revision
	t.servers[r.Node] = r
	t.event.table = true
}

func (t *transaction) deleteServer(node string) {
	if _, ok := t.servers[node]; ok {
		delete(t.servers, node)
		t.event.table = true
	}
}

// registered reports whether this process stands in the store.
func (st *store) registered(p homes.Process) bool {
	r, ok := st.servers[p.Node]
	return ok && r.Boot == p.Boot
}

// renewLease sets the time of a lease anew. The store ends a lease a little late.
func (st *store) renewLease(id int) {
	s := st.sim
	expires := s.now + ttl + s.between(0, 500*time.Millisecond)
	st.leases[id] = expires
	s.after(expires-s.now, func() { st.expire(id) })
}

func (st *store) expire(id int) {
	if at, ok := st.leases[id]; ok && at <= st.sim.now && !st.away {
		st.revoke(id)
	}
}

// revoke ends a lease, and deletes what stands under it.
func (st *store) revoke(id int) {
	delete(st.leases, id)
	st.commit(func(t *transaction) {
		for _, node := range sortedKeys(t.servers) {
			if t.servers[node].lease == id {
				st.sim.tracef("store: lease of %s ends", t.servers[node].Process)
				t.deleteServer(node)
			}
		}
	})
}

// setAway takes the store away, or brings it back. Its leases then begin anew, as with a new leader.
func (st *store) setAway(away bool) {
	st.away = away
	if away {
		return
	}
	for _, id := range sortedKeys(st.leases) {
		st.renewLease(id)
	}
	for _, w := range st.watchers {
		w.notify()
	}
}

func (st storeState) clone() storeState {
	st.servers, st.records = maps.Clone(st.servers), maps.Clone(st.records)
	return st
}

// restore replaces the state by that of a snapshot. Watches are not cut: they miss what the new history has up to the revision that
// they wait for, until they are listed again.
func (st *store) restore(snapshot storeState) {
	st.storeState = snapshot.clone()
	st.restores++
	st.log, st.leases = nil, map[int]time.Duration{}
	for _, node := range sortedKeys(st.servers) {
		st.renewLease(st.servers[node].lease)
	}
	for _, w := range st.watchers {
		w.storeRestored()
	}
}

// sortedRecords returns all records, in the order of their processes.
func (st storeState) sortedRecords() []homes.Record {
	return slices.SortedFunc(maps.Values(st.records), func(a, b homes.Record) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Boot, b.Boot))
	})
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

package homes_test

import (
	"time"

	"colonnade/fleet"
	"colonnade/homes"
)

// documents has the engines of the colo, by URL. It is not modified after it was made.
type documents map[string]engineDocument

type engineDocument struct {
	pool  string
	limit int
}

// tableOfColo is what a process knows of its colo beside the records. It is not modified after it was made.
type tableOfColo struct {
	servers []*fleet.Server // those registered, by node
	fleet   documents
}

func (st *store) table() *tableOfColo {
	t := &tableOfColo{fleet: st.fleet}
	for _, node := range sortedKeys(st.servers) {
		r := st.servers[node]
		state := fleet.StateActive
		if r.draining {
			state = fleet.StateDraining
		}
		t.servers = append(t.servers, &fleet.Server{
			Node: node, Boot: r.Boot, Address: r.address, State: state, Protocol: fleet.ProtocolRange{Min: 1, Max: 3},
		})
	}
	return t
}

// registered reports whether the table has this process.
func (t *tableOfColo) registered(p homes.Process) bool {
	for _, s := range t.servers {
		if s.Node == p.Node {
			return s.Boot == p.Boot
		}
	}
	return false
}

// watcher follows the store for one process: the records in their order, or the table as it is.
type watcher struct {
	p        *process
	records  bool
	revision int64 // the next event that it gets is newer
	restores int   // of the store, when it was listed
	started  bool  // it was listed once
	listing  bool
	round    int // number of the list
	pumping  bool
	lateTill time.Duration // nothing arrives before
	suspect  bool          // the store was restored, or may have been
}

func (p *process) watch(records bool) *watcher {
	w := &watcher{p: p, records: records}
	p.sim.store.watchers = append(p.sim.store.watchers, w)
	w.list(0)
	return w
}

// list reads everything, and watches from there on.
func (w *watcher) list(wait time.Duration) {
	p := w.p
	w.listing = true
	w.round++
	round := w.round
	p.after(wait, func() {
		if round != w.round {
			return
		}
		var (
			state    []homes.Record
			table    *tableOfColo
			revision int64
			restores int
		)
		p.call(func(st *store) {
			state, table, revision, restores = st.sortedRecords(), st.table(), st.revision, st.restores
		}, func(answered bool) {
			if round != w.round {
				return
			}
			if !answered {
				w.list(p.sim.between(100*time.Millisecond, time.Second))
				return
			}
			w.listed(homes.Change{Revision: revision, Listed: true, Restored: w.suspect || w.started && revision < w.revision, Put: state}, table, restores)
		})
	})
}

func (w *watcher) listed(c homes.Change, table *tableOfColo, restores int) {
	w.suspect = false
	w.started, w.listing, w.revision, w.restores = true, false, c.Revision, restores
	if w.records {
		w.p.observe(c)
	} else {
		w.p.setTable(table)
	}
	w.notify()
}

// restored lists the records again: the store was restored, or may have been.
func (w *watcher) restored() {
	w.suspect = true
	w.list(max(0, w.lateTill-w.p.sim.now))
}

// storeRestored makes the watcher notice by its own clock, some time later.
func (w *watcher) storeRestored() {
	if !w.listing && !w.p.dead {
		w.list(max(w.p.sim.between(200*time.Millisecond, 5*time.Second), w.lateTill-w.p.sim.now))
	}
}

// notify lets events arrive, a moment after they took place.
func (w *watcher) notify() {
	if w.listing || w.pumping || w.p.dead {
		return
	}
	w.pumping = true
	w.schedule(w.p.sim.hopTime())
}

func (w *watcher) schedule(d time.Duration) { w.p.sim.after(d, w.pump) }

func (w *watcher) pump() {
	s := w.p.sim
	switch {
	case w.p.dead:
		return
	case s.store.away || w.p.host.storeCut.holds || w.p.host.lost:
		w.schedule(s.between(100*time.Millisecond, 2*time.Second))
		return
	case s.now < w.lateTill:
		w.schedule(min(w.lateTill-s.now, time.Second))
		return
	}
	w.pumping = false
	if w.listing {
		return
	}
	if !w.records {
		w.pumpTable()
		return
	}
	for _, e := range s.store.log {
		if e.revision <= w.revision {
			continue
		}
		if s.likely(0.2) { // the rest comes later
			w.notify()
			return
		}
		w.revision = e.revision
		w.p.newest = max(w.p.newest, e.revision)
		if len(e.put)+len(e.deleted) > 0 {
			c := homes.Change{Revision: e.revision, Put: e.put, Deleted: e.deleted}
			restores := w.restores
			w.p.run(func() {
				if restores == w.restores {
					w.p.observe(c)
				}
			})
		}
	}
}

func (w *watcher) pumpTable() {
	st := w.p.sim.store
	if st.revision <= w.revision {
		return
	}
	w.revision = st.revision
	table := st.table()
	w.p.run(func() { w.p.setTable(table) })
}

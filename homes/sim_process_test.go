package homes_test

import (
	"fmt"
	"slices"
	"time"

	"colonnade/homes"
)

// process is one process of a colo server: its clock, and the rules that it runs. The rest of the file is what a node does with them.
type process struct {
	homes.Process
	sim  *simulation
	host *host

	// The clock runs up to 1 % fast or slow. It goes on while the process is stopped by a signal, and stands still while its machine is
	// suspended.
	rate      float64
	began     time.Duration
	offset    time.Duration
	frozenAt  time.Duration // when the machine was suspended; negative = it runs
	frozenFor time.Duration
	suspended bool // its machine was suspended once

	stopped    bool
	resumed    time.Duration // when it went on after its last stop
	dead       bool
	draining   bool
	writtenOff bool     // its record was deleted because it was silent
	pending    []func() // what happens as soon as it goes on

	newest int64 // revision of the store that was seen

	table         *tableOfColo
	ownership     *homes.Ownership
	orphans       *homes.Orphans
	vouchers      *homes.Vouchers
	records       *watcher
	tables        *watcher
	fence         fence
	lease         leaseOfProcess
	put           putState
	shares        map[string]homes.Share // where it may grant
	dropped       map[string]homes.Share // where it could, and gave up since: see laterPut
	permits       map[string][]*request  // by engine
	leaving       bool
	lostByRecords bool                   // the rules have ended its rights since it registered last
	replacing     map[homes.Process]bool // records that it is changing

	heardFrom     map[homes.Process]time.Duration // when it heard from a process last, or missed it in the table
	asking        int                             // questions under way, about records
	askedSiblings time.Duration
	started       time.Time // by its clock
}

// start starts a process at a host.
func (s *simulation) start(node string, h *host) *process {
	boot := fmt.Sprintf("B%d", len(s.processes)+1)
	p := &process{
		Process: homes.Process{Node: node, Boot: boot}, sim: s, host: h,
		rate: 0.99 + 0.02*s.rng.Float64(), began: s.now, offset: s.between(0, time.Hour), frozenAt: -1,
		table: &tableOfColo{}, orphans: homes.NewOrphans(), vouchers: homes.NewVouchers(validity), permits: map[string][]*request{},
		dropped: map[string]homes.Share{}, replacing: map[homes.Process]bool{}, heardFrom: map[homes.Process]time.Duration{},
	}
	p.ownership, p.started = homes.NewOwnership(p.Process, ttl), p.orphanInstant()
	s.tracef("%s starts at %s", p, h.name)
	s.restored.excepted = s.restored.excepted || s.restoring()
	s.processes = append(s.processes, p)
	p.lease.saved, h.boots, h.runs = slices.Clone(h.boots), append(h.boots, boot), p
	p.records, p.tables = p.watch(true), p.watch(false)
	if h.saved != nil {
		p.setTable(h.saved)
	}
	p.register()
	p.renewLater()
	p.heartbeat()
	p.tick()
	return p
}

// clock returns the time by the clock of the process.
func (p *process) clock() time.Duration {
	running := p.sim.now - p.began - p.frozenFor
	if p.frozenAt >= 0 {
		running -= p.sim.now - p.frozenAt
	}
	return p.offset + time.Duration(float64(running)*p.rate)
}

func (p *process) instant() time.Time { return instant(p.clock()) }

// instant returns a clock's time as the rules take it.
func instant(clock time.Duration) time.Time { return time.Unix(1_000_000_000, 0).Add(clock) }

// after does something when d has passed by the clock of the process.
func (p *process) after(d time.Duration, do func()) {
	due := p.clock() + d
	p.sim.after(time.Duration(float64(d)/p.rate), func() { p.run(func() { p.runDue(due, do) }) })
}

// runDue does something if the clock says so; while the machine was suspended, the clock stood still.
func (p *process) runDue(due time.Duration, do func()) {
	if left := due - p.clock(); left > time.Microsecond {
		p.after(left, do)
		return
	}
	do()
}

// run does something in the process: as soon as it goes on, if it is stopped; never, if it is dead.
func (p *process) run(do func()) {
	switch {
	case p.dead:
	case p.stopped:
		p.pending = append(p.pending, do)
	default:
		do()
	}
}

// stop stops the process; suspend says that its clock stands still.
func (p *process) stop(suspend bool) {
	p.sim.tracef("%s stops, suspended %v", p, suspend)
	p.stopped = true
	if suspend && p.frozenAt < 0 {
		p.frozenAt, p.suspended = p.sim.now, true
	}
}

// resume lets a stopped process go on. Events of the meantime follow in their order.
func (p *process) resume() {
	if p.dead || !p.stopped {
		return
	}
	p.sim.tracef("%s resumes", p)
	if p.frozenAt >= 0 {
		p.frozenFor += p.sim.now - p.frozenAt
		p.frozenAt = -1
	}
	p.stopped, p.resumed = false, p.sim.now
	pending := p.pending
	p.pending = nil
	for _, do := range pending {
		p.run(do)
	}
}

// kill ends the process. Engines notice within 250 ms; if the host is lost, not at all.
func (p *process) kill() {
	if p.dead {
		return
	}
	s := p.sim
	s.tracef("%s is dead", p)
	p.dead, p.pending = true, nil
	if p.host.runs == p {
		p.host.runs = nil
	}
	s.store.watchers = slices.DeleteFunc(s.store.watchers, func(w *watcher) bool { return w.p == p })
	for _, url := range sortedKeys(p.permits) {
		for _, r := range p.permits[url] {
			if !p.host.lost {
				s.after(s.between(0, engineNotices), r.vanish)
			}
		}
	}
}

// tick runs the rules every now and then.
func (p *process) tick() {
	p.after(tickInterval, func() {
		if p.ownership.Resume(p.instant()) {
			p.applyShares()
		}
		p.putNext()
		p.settle()
		p.vouch()
		p.leaveIfDone()
		p.tick()
	})
}

// setTable takes a new table.
func (p *process) setTable(t *tableOfColo) {
	for _, s := range p.table.servers {
		if missed := (homes.Process{Node: s.Node, Boot: s.Boot}); !t.registered(missed) {
			p.heardFrom[missed] = p.sim.now
		}
	}
	p.table, p.host.saved = t, t
	p.ownership.Want(p.wanted(), p.instant())
	p.updateOrphans()
	p.applyShares()
	p.putNext()
}

// observe takes a change of the records.
func (p *process) observe(c homes.Change) {
	if p.sim.without(cautionAfterRestore) {
		c.Restored = false
	}
	if p.sim.without(othersOwn) {
		c.Put = withoutOwns(c.Put, p.Process)
	}
	if !p.ownership.Observe(c, p.alone(), p.instant()) {
		p.sim.tracef("%s has lost its rights by the records", p)
		p.lostByRecords = true
		p.loseRights()
	}
	p.updateOrphans()
	p.applyShares()
	p.putNext()
}

// withoutOwns returns the records as they would be if other processes owned nothing.
func withoutOwns(records []homes.Record, self homes.Process) []homes.Record {
	records = slices.Clone(records)
	for i := range records {
		if records[i].Process != self {
			records[i].Owns = nil
		}
	}
	return records
}

// siblings returns the other nodes of the last table.
func (p *process) siblings() []string {
	var nodes []string
	for _, s := range p.table.servers {
		if s.Node != p.Node {
			nodes = append(nodes, s.Node)
		}
	}
	return nodes
}

// alone reports whether the process knows of no other server of its colo.
func (p *process) alone() bool {
	return len(p.siblings()) == 0 && !slices.ContainsFunc(p.ownership.Records(), func(r homes.Record) bool { return r.Node != p.Node })
}

// orphanInstant returns the time for the rules of orphaned records.
func (p *process) orphanInstant() time.Time {
	if p.sim.without(silentHold) {
		return instant(4 * p.clock())
	}
	return p.instant()
}

// updateOrphans takes the records and the table as they are.
func (p *process) updateOrphans() {
	p.orphans.Update(p.ownership.Records(), p.table.registered, p.orphanInstant())
	for _, boot := range p.lease.saved {
		p.orphans.Ended(homes.Process{Node: p.Node, Boot: boot}, p.started)
	}
}

// wanted returns the engines of the colo, and whether the home of each is here.
func (p *process) wanted() map[string]bool {
	engines, here := map[string]bool{}, map[string]bool{}
	for _, pool := range p.sim.pools {
		owner := homes.Owner(pool, p.table.servers)
		here[pool] = owner != nil && owner.Node == p.Node
	}
	for url, e := range p.table.fleet {
		engines[url] = here[e.pool]
	}
	return engines
}

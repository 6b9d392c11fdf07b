package homes_test

import (
	"slices"
	"time"

	"colonnade/homes"
)

const (
	validity       = ttl - ttl/10
	renewInterval  = ttl / 5
	heartbeatEvery = ttl / 20
	lapsedAlone    = 20 * time.Second
)

// fence is the model of the fence of package permits and of what sets it in package etcd.
type fence struct {
	until     time.Duration // by the clock of the process
	epoch     uint64
	confirmed bool          // by the store, and not extended since
	lapsedAt  time.Duration // when the lapse was noticed; 0 = it has not lapsed
	awaySince time.Duration // since when the store does not answer; 0 = it does

	confirmedAt time.Duration // when the last confirmation was asked for
}

func (f *fence) valid(clock time.Duration) bool { return clock < f.until }

func (f *fence) suspend() { f.until, f.confirmed = 0, false }

// checkLapse notices that the fence has passed.
func (f *fence) checkLapse(clock time.Duration) {
	if f.lapsedAt == 0 && clock >= f.until {
		f.lapsedAt, f.confirmed = clock, false
	}
}

// leaseOfProcess is the registration of a process, as it knows it.
type leaseOfProcess struct {
	saved      []string // boots before it in its directory: they have ended
	ids        []int    // of its leases, the newest last
	registered bool
	lost       bool // its record is not as it was put, or it has answered that it grants nothing: it must register again
	busy       bool
	served     bool
	rival      rival // that has the name
}

// rival is another registration under the name of a process. It is that of a living process if it is renewed.
type rival struct{ lease, renewals int }

func (p *process) renewLater() {
	p.after(renewInterval, func() {
		p.renew()
		p.renewLater()
	})
}

// renewal is the answer of the store to a renewal.
type renewal int

const (
	confirmed renewal = iota
	lost
	taken
)

// renew renews the lease, and verifies the registration and the record.
func (p *process) renew() {
	if !p.lease.registered || p.lease.lost {
		p.register()
		return
	}
	asked, id, standing := p.clock(), p.lease.ids[len(p.lease.ids)-1], p.put.standing
	var answer renewal
	p.call(func(st *store) { answer = st.renew(p, id, standing) }, func(answered bool) {
		switch {
		case !answered:
			p.unanswered(asked)
		case answer == taken:
			p.sim.tracef("%s finds its name taken", p)
			p.kill()
		case answer == lost:
			p.sim.tracef("%s finds its registration lost", p)
			p.lease.registered = false
			p.register()
		case p.lease.registered && !p.lease.lost && p.lease.ids[len(p.lease.ids)-1] == id:
			p.confirm(asked)
		}
	})
}

func (st *store) renew(p *process, id int, standing uint64) renewal {
	server, found := st.servers[p.Node]
	switch {
	case found && server.Boot != p.Boot && st.leases[id] > 0:
		return taken
	case !found || server.lease != id:
		return lost
	}
	if own, ok := st.records[p.Process]; (!ok || own.Put < standing) && !st.sim.without(verifiedRecord) {
		return lost
	}
	st.renewLease(id)
	st.renewals[id]++
	return confirmed
}

// confirm takes the store's word that the process is registered, in the answer to a call that began at asked.
func (p *process) confirm(asked time.Duration) {
	p.fence.checkLapse(p.clock())
	p.fence.awaySince = 0
	p.fence.confirmedAt = asked
	p.vouchers.Confirm(instant(asked))
	if until := asked + validity; p.clock() < until {
		p.fence.until, p.fence.confirmed, p.fence.lapsedAt = until, true, 0
	}
	p.fillAll()
}

// unanswered notes that the store did not answer a call that began at asked.
func (p *process) unanswered(asked time.Duration) {
	p.fence.checkLapse(p.clock())
	if p.fence.awaySince == 0 {
		p.fence.awaySince = asked
	}
}

// heartbeat extends the fence while the store is away.
func (p *process) heartbeat() {
	f := &p.fence
	f.checkLapse(p.clock())
	switch {
	case f.awaySince == 0 || p.lease.lost:
	case p.alone() && (f.lapsedAt == 0 || f.awaySince-f.lapsedAt >= lapsedAlone):
		f.until, f.confirmed, f.lapsedAt = p.clock()+validity, false, 0
	case f.lapsedAt == 0 || p.sim.without(lapseEndsWithStore):
		f.extend(p.vouchedUntil())
	}
	p.fillAll()
	p.after(heartbeatEvery, p.heartbeat)
}

// extend moves the fence to the words of the siblings.
func (f *fence) extend(until time.Duration) {
	if until > f.until {
		f.until, f.confirmed = until, false
	}
}

// loseRights ends all rights of the process until it has registered again.
func (p *process) loseRights() {
	p.lease.lost = true
	p.fence.suspend()
	if !p.sim.without(emptyRecordAtRegistration) {
		p.ownership.Lose()
	}
	p.applyShares()
}

// register puts the registration, and in the same transaction a record that owns nothing and holds everything.
func (p *process) register() {
	if p.lease.busy {
		return
	}
	p.lease.busy = true
	p.loseRights()
	p.fence.epoch++
	p.put.number++
	st := p.sim.store
	st.lastID++
	asked, earlier, id := p.clock(), slices.Clone(p.lease.ids), st.lastID
	p.lease.ids = append(p.lease.ids, id)
	record := p.firstRecord()
	var (
		created homes.Record
		other   rival
	)
	granted := p.sim.now
	p.call(func(st *store) {
		if st.sim.now < granted+ttl { // else the lease has expired
			created, other = st.register(p, record, id, earlier)
		}
	}, func(answered bool) {
		p.lease.busy = false
		switch {
		case !answered:
			p.unanswered(asked)
		case created.Revision > 0:
			p.registered(created, asked)
		case p.lease.served && other.lease > 0 && other.lease == p.lease.rival.lease && other.renewals > p.lease.rival.renewals:
			p.sim.tracef("%s finds its name taken", p)
			p.kill()
		default:
			p.lease.rival = other
		}
	})
}

func (p *process) firstRecord() homes.Record {
	r := homes.Record{Process: p.Process, Put: p.put.number, Address: p.host.name, Held: p.held()}
	if p.sim.without(heldAtRegistration) {
		r.Held = nil
	}
	if p.sim.without(emptyRecordAtRegistration) {
		r.Owns = map[string]int{}
		for url, wanted := range p.wanted() {
			if wanted {
				r.Owns[url] = 0
			}
		}
	}
	return r
}

// register creates a registration if the name is free. Of its own earlier leases, and those of dead processes of its directory, it ends
// the one that has the name.
func (st *store) register(p *process, record homes.Record, id int, earlier []int) (created homes.Record, other rival) {
	if server, found := st.servers[p.Node]; found {
		if !slices.Contains(earlier, server.lease) && !slices.Contains(p.lease.saved, server.Boot) {
			return homes.Record{}, rival{server.lease, st.renewals[server.lease]}
		}
		st.revoke(server.lease)
	}
	st.renewLease(id)
	st.commit(func(t *transaction) {
		t.putServer(registration{Process: p.Process, address: p.host.name, draining: p.draining, lease: id})
		created = t.putRecord(record)
	})
	return created, rival{}
}

func (p *process) registered(record homes.Record, asked time.Duration) {
	p.sim.tracef("%s is registered at revision %d, holding %v", p, record.Revision, record.Held)
	keeps := p.lease.served && !p.lostByRecords && p.sim.without(emptyRecordAtRegistration)
	p.lease.registered, p.lease.lost, p.lease.served, p.writtenOff = true, false, true, false
	p.put.standing, p.put.revision, p.put.busy = record.Put, record.Revision, false
	p.put.generation++
	p.lostByRecords = false
	if !keeps {
		p.ownership.Registered(record.Held)
	}
	p.confirm(asked)
}

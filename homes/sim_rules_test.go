package homes_test

import (
	"time"

	"colonnade/homes"
)

const (
	tickInterval = 100 * time.Millisecond
	askTimeout   = time.Second
	askAfter     = 2 * time.Second
	askEvery     = 500 * time.Millisecond
	heldInterval = 200 * time.Millisecond
)

// putState is what the process knows of its own record in the store.
type putState struct {
	number     uint64         // of the last put that was tried
	standing   uint64         // of the last put that is known to stand
	revision   int64          // at which it stands; 0 = another one may have taken place since
	owns       map[string]int // what it owns
	generation int            // of registrations
	busy       bool
	last       time.Duration
}

// putNext puts what the rules say, one put at a time.
func (p *process) putNext() {
	if p.put.busy || !p.lease.registered || p.lease.lost {
		return
	}
	next, required, ok := p.ownership.Next(p.held(), nil)
	if !ok || !required && p.clock()-p.put.last < heldInterval {
		return
	}
	if p.sim.without(heldAtHandover) {
		next.Held = nil
	}
	p.put.busy, p.put.last = true, p.clock()
	p.put.number++
	record := homes.Record{Process: p.Process, Put: p.put.number, Address: p.host.name, Owns: next.Owns, Held: next.Held}
	generation := p.put.generation
	if p.put.revision > 0 {
		p.putRecord(next, record, p.put.revision)
		return
	}
	var found homes.Record
	p.call(func(st *store) { found = st.records[p.Process] }, func(answered bool) {
		switch {
		case generation != p.put.generation:
		case !answered:
			p.retryPut()
		case found.Put < p.put.standing:
			p.recordLost()
		default:
			p.putRecord(next, record, found.Revision)
		}
	})
}

// putRecord puts a record if the own registration stands, and the record is the one of that revision.
func (p *process) putRecord(next homes.Put, record homes.Record, revision int64) {
	id, generation := p.lease.ids[len(p.lease.ids)-1], p.put.generation
	var stands int64
	p.call(func(st *store) { stands = st.putRecord(p, record, id, revision) }, func(answered bool) {
		switch {
		case generation != p.put.generation:
		case !answered:
			p.sim.tracef("%s has no answer to put %d", p, record.Put)
			p.put.revision = 0
			p.ownership.PutUnanswered()
			p.retryPut()
		case stands == 0:
			p.recordLost()
		default:
			p.sim.tracef("%s: put %d stands at %d: owns %v, holds %v", p, record.Put, stands, sortedKeys(record.Owns), record.Held)
			p.put.busy, p.put.standing, p.put.revision, p.put.owns = false, record.Put, stands, next.Owns
			p.ownership.PutStands(next, stands, p.instant())
			p.applyShares()
			p.putNext()
		}
	})
}

func (st *store) putRecord(p *process, record homes.Record, id int, revision int64) (stands int64) {
	server := st.servers[p.Node]
	if server.Boot != p.Boot || server.lease != id {
		return 0
	}
	if !st.sim.without(putsInOrder) && st.records[p.Process].Revision != revision {
		return 0
	}
	st.commit(func(t *transaction) { stands = t.putRecord(record).Revision })
	return stands
}

func (p *process) retryPut() {
	p.after(p.sim.between(100*time.Millisecond, 500*time.Millisecond), func() { p.put.busy = false })
}

// recordLost says that the own record, or the registration, is not as it was put.
func (p *process) recordLost() {
	p.sim.tracef("%s: its record is not as it was put", p)
	p.records.restored()
	p.put.busy = false
	p.register()
}

// settle asks the processes that are not registered, and changes their records when the rules say so.
func (p *process) settle() {
	if p.asking > 0 {
		return
	}
	due := p.orphans.Due(p.orphanInstant())
	p.asking = len(due)
	for _, r := range due {
		p.askOrphan(r)
	}
	if p.asking == 0 {
		p.settleRecords()
	}
}

func (p *process) settleRecords() {
	for _, settlement := range p.orphans.Settle(p.orphanInstant()) {
		p.replace(settlement)
	}
}

// askOrphan asks a process that is not registered about its own record.
func (p *process) askOrphan(r homes.Record) {
	var a homes.Answer
	p.ask(p.sim.host(r.Address), func(other *process) { a = other.answer(p.Process, r.Boot) }, func(how result) {
		p.sim.tracef("%s asked %s: %d %+v", p, r.Process, how, a)
		switch how {
		case answered:
			if a.Boot == r.Boot {
				p.heardFrom[r.Process] = p.sim.now
			}
			p.orphans.Answered(r.Process, p.orphanInstant(), a)
		case refused:
			at := p.orphanInstant()
			if p.sim.without(linger) {
				at = at.Add(-time.Second)
			}
			p.orphans.Ended(r.Process, at)
		}
		if p.asking--; p.asking == 0 {
			p.settleRecords()
		}
	})
}

// answer is what the process reports about itself to another one, which lives then. Asked about its own record, it loses all rights unless
// its fence is valid: then only another registration gives it rights again.
func (p *process) answer(asker homes.Process, about string) homes.Answer {
	p.heardFrom[asker] = p.sim.now
	p.orphans.Alive(asker, p.orphanInstant())
	mayGrant := p.fence.valid(p.clock())
	if about == p.Boot && !p.sim.without(questionEndsVouching) {
		p.vouchers.Questioned(p.instant())
	}
	if about == p.Boot && !mayGrant && !p.sim.without(answerEndsGrants) {
		p.loseRights()
	}
	return homes.Answer{Boot: p.Boot, MayGrant: mayGrant && !p.sim.without(answerEndsGrants), Ended: p.lease.saved, Held: p.held(), Reaches: p.clock()-p.fence.confirmedAt < askAfter}
}

// replace changes the record of a process, if that is still not registered and its record as it was.
func (p *process) replace(settlement homes.Settlement) {
	if p.replacing[settlement.Old.Process] {
		return
	}
	p.replacing[settlement.Old.Process] = true
	if settlement.WrittenOff {
		p.sim.checkSilent(settlement.Old.Process, p)
	}
	done := false
	p.call(func(st *store) { done = st.replace(p, settlement) }, func(answered bool) {
		delete(p.replacing, settlement.Old.Process)
		if answered && !done { // it is registered, or its record has changed
			p.orphans.Alive(settlement.Old.Process, p.orphanInstant())
		}
	})
}

func (st *store) replace(by *process, settlement homes.Settlement) (done bool) {
	s, old := st.sim, settlement.Old
	if st.records[old.Process].Revision != old.Revision || st.registered(old.Process) && !s.without(replacedOnlyUnregistered) {
		return false
	}
	s.tracef("%s settles %s: %s", by, old.Process, settlement.Why)
	st.commit(func(t *transaction) {
		if settlement.New == nil {
			t.deleteRecord(old.Process)
		} else {
			t.putRecord(*settlement.New)
		}
	})
	if settlement.WrittenOff {
		s.writeOff(old.Process)
	}
	return true
}

// vouch asks the siblings, while the store does not answer, whether they reach it.
func (p *process) vouch() {
	if p.clock()-p.fence.confirmedAt < askAfter || p.clock()-p.askedSiblings < askEvery {
		return
	}
	p.askedSiblings = p.clock()
	for _, sibling := range p.table.servers {
		if sibling.Node != p.Node {
			p.askSibling(sibling.Node, sibling.Address)
		}
	}
}

func (p *process) askSibling(node, address string) {
	asked := p.instant()
	var a homes.Answer
	p.ask(p.sim.host(address), func(other *process) { a = other.answer(p.Process, "") }, func(how result) {
		switch {
		case how == refused || how == answered && !a.Reaches:
			p.vouchers.Vouch(node, asked)
		case how == answered:
			p.vouchers.Deny(node)
		}
	})
}

// vouchedUntil returns up to when the words of all siblings hold, by the clock of the process.
func (p *process) vouchedUntil() time.Duration {
	nodes := p.siblings()
	if p.sim.without(vouchedByAll) && len(nodes) > 0 {
		nodes = nodes[:1]
	}
	if until := p.vouchers.Until(nodes); !until.IsZero() {
		return until.Sub(instant(0))
	}
	return 0
}

// leaveIfDone takes a server that drains out of the store, when nothing is left of it.
func (p *process) leaveIfDone() {
	if !p.draining || p.leaving || !p.lease.registered || p.lease.lost || p.put.busy || len(p.shares)+len(p.held()) > 0 {
		return
	}
	if next, _, ok := p.ownership.Next(nil, nil); ok || len(next.Owns) > 0 {
		return
	}
	p.leaving = true
	id := p.lease.ids[len(p.lease.ids)-1]
	p.call(func(st *store) {
		if st.servers[p.Node].lease == id {
			st.leave(p)
		}
	}, func(bool) { p.kill() })
}

func (st *store) leave(p *process) {
	st.commit(func(t *transaction) {
		t.deleteServer(p.Node)
		t.deleteRecord(p.Process)
	})
}

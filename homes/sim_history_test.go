package homes_test

import (
	"slices"
	"testing"
	"time"

	"colonnade/homes"
	"colonnade/internal/testkit"
)

// TestHistories runs random histories with up to eight faults each.
func TestHistories(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	for i := range uint64(testkit.AtScale(300, 20_000)) {
		if s := runHistory(seed+i, nothing); len(s.problems) > 0 {
			t.Fatalf("COLONNADE_SEED=%d:\n%s", seed+i, replay(seed+i, nothing))
		}
	}
}

// replay runs a history again, and returns what happened.
func replay(seed uint64, broken rule) string {
	s := newSimulation(seed, broken)
	s.verbose = true
	s.history(s.randomFaults)
	return s.report()
}

func runHistory(seed uint64, broken rule) *simulation {
	s := newSimulation(seed, broken)
	s.history(s.randomFaults)
	return s
}

// history lets faults happen, heals all of them, and checks that everything works again and ends.
func (s *simulation) history(begin func()) {
	s.beginHistory()
	begin()
	s.runUntil(settleTime + faultTime)
	s.heal()
	s.runUntil(s.now + healTime)
	s.checkGranted()
	s.quiet = true
	s.runUntil(s.now + quietTime)
	s.checkQuiet()
}

// beginHistory starts the first servers, and waits until they have what they want.
func (s *simulation) beginHistory() {
	for range s.servers {
		s.join()
	}
	s.runUntil(settleTime)
}

// randomFaults lets up to eight faults begin at random times.
func (s *simulation) randomFaults() {
	kinds := faults()
	for range 1 + s.rng.IntN(8) {
		f := pick(s, kinds)
		s.after(s.between(0, faultTime), func() {
			if alive := s.living(); len(alive) > 0 {
				p := pick(s, alive)
				s.tracef("fault: %s (%s)", f.name, p)
				s.restored.excepted = s.restored.excepted || s.restoring()
				f.do(s, p)
			}
		})
	}
}

// heal ends all faults.
func (s *simulation) heal() {
	s.tracef("everything heals")
	s.healed = true
	s.store.setAway(false)
	s.net.cuts, s.slowCalls = nil, 0
	for _, h := range s.hosts {
		h.storeCut, h.netCut = cut{ended: s.now}, cut{ended: s.now}
	}
	for _, p := range s.processes {
		p.records.lateTill, p.tables.lateTill = 0, 0
		p.resume()
	}
	s.keepAlive()
}

// keepAlive starts a server whenever none is left that does not drain.
func (s *simulation) keepAlive() {
	if !slices.ContainsFunc(s.living(), func(p *process) bool { return !p.draining }) {
		s.join()
	}
	if !s.quiet {
		s.after(time.Second, s.keepAlive)
	}
}

// checkGranted checks that every engine is granted on by the home of its pool.
func (s *simulation) checkGranted() {
	if len(s.problems) > 0 {
		return
	}
	table := s.store.table()
	for _, url := range sortedKeys(table.fleet) {
		home := homes.Owner(table.fleet[url].pool, table.servers)
		if home == nil {
			s.problemf("no server is registered")
			return
		}
		for _, p := range s.living() {
			if p.Boot == home.Boot && !p.mayGrant(url) {
				s.problemf("%s may not grant on %s: %+v", p, url, p.ownership.State(url))
			}
		}
	}
}

// checkQuiet checks that every request has ended, and that the records say so.
func (s *simulation) checkQuiet() {
	if len(s.problems) > 0 {
		return
	}
	for _, e := range s.engines {
		if e.inflight != 0 {
			s.problemf("%s has %d requests in flight that never end", e.url, e.inflight)
		}
	}
	for _, r := range s.store.sortedRecords() {
		if !s.store.registered(r.Process) || len(r.Held) > 0 {
			s.problemf("the record of %s remains: %+v", r.Process, r)
		}
	}
}

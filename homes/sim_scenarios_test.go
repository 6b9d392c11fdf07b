package homes_test

import (
	"testing"
	"time"

	"colonnade/internal/testkit"
)

// scenario is a kind of history that is the worst for a rule, or was a failure once.
type scenario struct {
	name  string
	rule  rule // a promise breaks without it; nothing = the scenario stands for itself
	begin func(*simulation)
}

// randomly lets random faults happen: the rule is needed so often that no scenario has to be made up.
func randomly(s *simulation) { s.randomFaults() }

func scenarios() []scenario {
	return []scenario{
		{"random faults", grantsEndBeforePut, randomly},
		{"random faults", heldAtHandover, randomly},
		{"random faults", takenByOthers, randomly},
		{"random faults", othersOwn, randomly},
		{"random faults", comparisonAtGrant, randomly},
		{"random faults", heldAtRegistration, randomly},
		{"random faults", emptyRecordAtRegistration, randomly},
		{"engines that move back and forth", laterPut, flapping},
		{"puts that take place late", putsInOrder, latePuts},
		{"taken over from a store that forgets", verifiedRecord, forgottenTakeover},
		{"joined before the store forgets", cautionAfterRestore, forgottenJoin},
		{"registered again, and cut from servers that do not see it", replacedOnlyUnregistered, registeredUnseen},
		{"vouched for, and asked by a server that joined meanwhile", answerEndsGrants, askedByNewcomer},
		{"vouched for, and asked by a server that joined meanwhile", questionEndsVouching, askedByNewcomer},
		{"dies while it is asked", linger, diesWhileAsked},
		{"cut from all", silentHold, func(s *simulation) { s.cutFromAll(s.processes[0], 8*time.Second) }},
		{"stopped between a grant and the send", comparisonBeforeSending, stoppedBeforeSending},
		{"stopped, and back when the store is away", lapseEndsWithStore, backWithoutStore},
		{"vouched for by one of two", vouchedByAll, vouchedByOne},
		{"asked by a server that stood still", nothing, askerStoodStill},
		{"answered before its last registration", nothing, answeredBefore},
	}
}

func flapping(s *simulation) {
	s.pools = []string{"llama", "qwen", "bge"}
	s.latency = 50 * time.Millisecond
	url := sortedKeys(s.store.fleet)[0]
	var at time.Duration
	for range 60 {
		at += s.between(20*time.Millisecond, 400*time.Millisecond)
		s.at(at, func() {
			s.putDocument(url, engineDocument{pool: pick(s, s.pools), limit: 2})
		})
	}
}

func latePuts(s *simulation) {
	s.slowFor(30 * time.Second)
	for i := range 6 {
		s.at(time.Duration(i)*4*time.Second, func() { s.changeDocuments() })
	}
}

func forgottenTakeover(s *simulation) {
	dead, heir := s.processes[0], s.processes[1]
	s.restoreAfter(9 * time.Second)
	s.at(9*time.Second, func() {
		for range 30 { // then the revision of the store does not show that it was restored
			s.putFleet(s.store.fleet)
		}
	})
	s.at(500*time.Millisecond, dead.kill)
	s.at(7*time.Second, func() {
		heir.records.lateTill, heir.tables.lateTill = s.now+25*time.Second, s.now+25*time.Second
	})
	s.at(9500*time.Millisecond, func() { s.startAgain(dead) })
}

func forgottenJoin(s *simulation) {
	s.restoreAfter(s.between(4*time.Second, 8*time.Second))
	s.at(time.Second, func() { s.join() })
	s.at(2*time.Second, func() { s.join() })
}

func registeredUnseen(s *simulation) {
	if len(s.processes) < 3 {
		s.join()
	}
	p, observer := s.processes[0], s.processes[2]
	s.latency = 50 * time.Millisecond
	s.cutFromStore(p.host, 7*time.Second)
	s.at(6500*time.Millisecond, func() {
		s.cutFrom(p.host, observer.host, 30*time.Second)
		observer.tables.lateTill = s.now + 30*time.Second
	})
	s.at(9*time.Second, func() { p.records.lateTill = s.now + 25*time.Second })
}

func askedByNewcomer(s *simulation) {
	for _, p := range s.processes {
		s.cutFromStore(p.host, 35*time.Second)
	}
	s.at(time.Second, func() { s.join() })
	s.at(30*time.Second, s.checkGranted)
}

func diesWhileAsked(s *simulation) {
	p := s.processes[0]
	s.slowFor(20 * time.Second)
	s.cutFromStore(p.host, 25*time.Second)
	s.at(s.between(5*time.Second, 8*time.Second), p.kill)
}

func stoppedBeforeSending(s *simulation) {
	s.sendLater = 1
	s.stopFor(s.processes[0], 20*time.Second, false)
}

func backWithoutStore(s *simulation) {
	p := s.processes[0]
	s.stopFor(p, 18*time.Second, false)
	p.records.lateTill, p.tables.lateTill = s.now+40*time.Second, s.now+40*time.Second
	for _, other := range s.processes[1:] {
		s.cutFrom(p.host, other.host, 17*time.Second)
	}
	s.at(17*time.Second, func() { s.storeAway(20 * time.Second) })
}

func vouchedByOne(s *simulation) {
	if len(s.processes) < 3 {
		s.join()
	}
	s.at(time.Second, func() {
		voucher, reaching, p := s.processes[0], s.processes[1], s.processes[2]
		s.cutFromStore(voucher.host, 35*time.Second)
		s.cutFromStore(p.host, 35*time.Second)
		s.cutFrom(p.host, reaching.host, 35*time.Second)
	})
}

func askerStoodStill(s *simulation) {
	s.cutFromStore(s.processes[0].host, 30*time.Second)
	s.at(s.between(6*time.Second, 8*time.Second), func() {
		for _, p := range s.processes[1:] {
			s.stopFor(p, 12*time.Second, false)
		}
	})
}

func answeredBefore(s *simulation) {
	p := s.processes[0]
	s.cutFromStore(p.host, 7*time.Second)
	s.at(6500*time.Millisecond, func() {
		for _, other := range s.processes[1:] {
			s.cutFrom(p.host, other.host, 25*time.Second)
			other.tables.lateTill = s.now + 25*time.Second
		}
	})
	s.at(12*time.Second, func() { s.cutFromStore(p.host, 20*time.Second) })
}

// at does something some time after the first fault.
func (s *simulation) at(d time.Duration, do func()) { s.after(settleTime+d-s.now, do) }

// runScenario runs a history of the scenario.
func (c scenario) run(seed uint64, broken rule, verbose bool) *simulation {
	s := newSimulation(seed, broken)
	s.verbose = verbose
	s.history(func() { c.begin(s) })
	return s
}

// TestScenarios runs histories that are the worst for the rules. With all rules, every promise holds in each. Without one rule, a promise
// breaks in one of them.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, c := range scenarios() {
		t.Run(c.name+"/"+string(c.rule), func(t *testing.T) {
			t.Parallel()
			const seeds = 80 // in which each rule is needed at least once
			for seed := range uint64(testkit.AtScale(5, seeds)) {
				if s := c.run(seed, nothing, false); len(s.problems) > 0 {
					t.Fatalf("history %d:\n%s", seed, c.run(seed, nothing, true).report())
				}
			}
			for seed := range uint64(seeds) {
				if s := c.run(seed, c.rule, false); c.rule == nothing || len(s.problems) > 0 {
					return
				}
			}
			t.Errorf("no promise breaks without the rule in %d histories", seeds)
		})
	}
}

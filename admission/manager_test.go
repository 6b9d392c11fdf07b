package admission_test

import (
	"errors"
	"testing"
	"time"

	"colonnade/admission"
	"colonnade/permits"
)

func TestPoolsFollowTheTable(t *testing.T) {
	play(t, func(s *scenario) {
		s.put("key: pools/a\nqueue: {limit: 1}\n---\n" + endpoints("a", 2, "one"))
		a := s.pool("a")
		s.wantLoad("a", 2, 2, "with one endpoint")
		g := s.take("a")
		if g.Endpoint.ID != "one" {
			t.Fatalf("granted %+v", g)
		}
		s.put(endpoints("a", 3, "one", "two"))
		s.wantLoad("a", 6, 5, "after an endpoint came and one grew")
		if s.pool("a") != a {
			t.Error("the pool was replaced by another")
		}
		g.Release()
	})
}

// An endpoint that moves to another pool brings only the slots that its running requests leave.
func TestEndpointMovesBetweenPools(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 3, "one"))
		a, running := s.pool("a"), []admission.Grant{s.take("a"), s.take("a")}
		s.put(endpoints("b", 3, "one"))
		s.wantLoad("b", 3, 1, "while 2 of 3 slots are held in the old pool")
		if _, err := tryTake(a); err == nil {
			t.Error("the old pool still grants permits")
		}
		running[0].Release()
		running[1].Release()
		time.Sleep(2 * admission.ReconcileInterval)
		s.wantLoad("b", 3, 3, "after the old requests ended")
	})
}

// An engine is its URL, whatever its document is called.
func TestRenamedEndpointKeepsItsSlots(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 2, "one"))
		g := s.take("a")
		s.documents.Delete("endpoints/ams/one", 2)
		s.put("key: endpoints/ams/renamed\nurl: http://one:8000\npool: a\nconcurrency: 2\n")
		s.wantLoad("a", 2, 1, "after the endpoint was renamed")
		g.Release()
	})
}

// A pool that no document names is forgotten when its last request has ended.
func TestPoolIsForgotten(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one"))
		g := s.take("a")
		s.remove("endpoints/ams/one")
		if len(s.Pools()) != 1 {
			t.Error("the pool was forgotten before its request ended")
		}
		g.Release()
		time.Sleep(2 * admission.ReconcileInterval)
		if n := len(s.Pools()); n != 0 {
			t.Errorf("%d pools are left", n)
		}
	})
}

func TestCloseQueues(t *testing.T) {
	play(t, func(s *scenario) {
		s.CloseQueues()
		s.put(endpoints("a", 1, "one"))
		g := s.take("a") // a free slot is granted
		wantDraining(t, s.pool("a"))
		g.Release()
	})
}

func TestDrainRefusesEverywhere(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one"))
		s.Drain()
		wantDraining(t, s.pool("a"))
		s.put(endpoints("b", 1, "two"))
		wantDraining(t, s.pool("b")) // also a pool that comes later
	})
}

func wantDraining(t *testing.T, p *admission.Pool) {
	t.Helper()
	var refused *permits.Refusal
	if _, err := tryTake(p); !errors.As(err, &refused) || refused.Reason != permits.Draining {
		t.Errorf("pool %s: got %v, want refused as draining", p.Name(), err)
	}
}

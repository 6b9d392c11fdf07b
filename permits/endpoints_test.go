package permits_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/permits"
)

func (s *scene) wantHeld(held, free int) {
	s.Helper()
	synctest.Wait()
	check(s.T, s.pool)
	if load := s.pool.Load(); load.Held != held || load.Free != free {
		s.Errorf("%d held and %d free, want %d and %d", load.Held, load.Free, held, free)
	}
}

func TestEndpointAdded(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		s.ask("one", patient("a"))
		s.ask("two", patient("a"))
		s.pool.SetEndpoints(fleet(2, 1))
		s.wantGranted("one")
		s.wantHeld(2, 0)
		s.pool.SetEndpoints(fleet(2, 2))
		s.wantGranted("two")
		s.wantHeld(3, 1)
		s.release()
		time.Sleep(time.Second)
		s.wantHeld(0, 4)
	})
}

// An endpoint with fewer slots than permits gets no request until enough permits were released.
func TestEndpointShrinks(t *testing.T) {
	play(t, config(), fleet(1, 4), func(s *scene) {
		s.pool.SetEndpoints(fleet(1, 2))
		s.ask("waits", patient("a"))
		s.wantHeld(4, 0)
		s.held[0].Release()
		s.held[1].Release()
		s.wantHeld(2, 0)
		s.wantGranted()
		s.held[2].Release()
		s.wantGranted("waits")
		s.wantHeld(2, 0)
		time.Sleep(time.Second)
		s.wantHeld(1, 1)
		s.held[3].Release()
	})
}

// Slots that another pool has taken are not granted, but requests wait for them.
func TestSlotsTakenByAnotherPool(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		other := permits.Endpoint{ID: "e1", Concurrency: 2, Taken: 2}
		s.pool.SetEndpoints([]permits.Endpoint{other})
		s.ask("one", patient("a"))
		s.ask("two", patient("a"))
		s.wantGranted()
		s.wantHeld(1, 0)
		other.Taken = 1
		s.pool.SetEndpoints([]permits.Endpoint{other})
		s.wantGranted("one")
		other.Taken = 0
		s.pool.SetEndpoints([]permits.Endpoint{other})
		s.wantGranted("two")
		s.release()
		time.Sleep(time.Second)
		s.wantHeld(0, 2)
	})
}

// Permits on an endpoint that is removed and added again are still held.
func TestEndpointComesBack(t *testing.T) {
	play(t, config(), fleet(2, 2), func(s *scene) {
		s.pool.SetUsable("e0", false)
		s.pool.SetEndpoints(fleet(2, 2)[1:])
		s.wantHeld(4, 0)
		s.pool.SetEndpoints(fleet(2, 2))
		s.wantHeld(4, 0)
		for i, permit := range s.held {
			permit.Release()
			s.wantHeld(3-i, i+1) // e0 is usable again, like a new endpoint
		}
	})
}

func TestEndpointIsRemoved(t *testing.T) {
	play(t, config(), fleet(2, 2), func(s *scene) {
		waits := s.ask("waits", patient("a"))
		s.pool.SetEndpoints(nil)
		wantRefusal(t, <-waits, permits.NoEndpoint)
		s.wantHeld(4, 0)
		s.pool.SetUsable("e0", true) // too late
		s.pool.MarkFull("e0", time.Now().Add(time.Hour))
		s.release()
		s.wantHeld(0, 0)
		if s := s.pool.Stats(); len(s.Endpoints) != 0 {
			t.Errorf("left: %+v", s.Endpoints)
		}
	})
}

func TestSetUsable(t *testing.T) {
	play(t, config(), fleet(2, 1), func(s *scene) {
		only0 := patient("a")
		only0.Avoid = []string{"e1"}
		waits := s.ask("only e0", only0)
		s.ask("either", patient("a"))
		s.pool.SetUsable("e0", false)
		wantRefusal(t, <-waits, permits.NoEndpoint)
		for _, permit := range s.held {
			permit.Release()
		}
		s.wantGranted("either")
		s.wantHeld(1, 0)
		s.ask("later", patient("a"))
		s.pool.SetUsable("e0", true)
		s.pool.SetUsable("unknown", true)
		s.wantGranted("later")
		time.Sleep(time.Second)
		s.wantHeld(0, 2)
	})
}

func TestMarkFull(t *testing.T) {
	play(t, config(), fleet(1, 2), func(s *scene) {
		s.pool.MarkFull("e0", time.Now().Add(3*time.Second))
		s.pool.MarkFull("e0", time.Now().Add(2*time.Second)) // the longer one counts
		s.release()
		s.wantHeld(0, 0)
		began := time.Now()
		done := s.ask("waits", patient("a"))
		time.Sleep(2500 * time.Millisecond)
		s.wantGranted()
		if err := <-done; err != nil || time.Since(began) != 4*time.Second {
			t.Errorf("%v after %v, want to be granted after 3s and done after 4s", err, time.Since(began))
		}
		s.wantGranted("waits")

		s.pool.MarkFull("e0", time.Now().Add(1*time.Second))
		s.pool.MarkFull("e0", time.Now().Add(2*time.Second))
		s.ask("again", patient("a"))
		time.Sleep(1500 * time.Millisecond)
		s.wantGranted()
		time.Sleep(500 * time.Millisecond)
		s.wantGranted("again")
		s.pool.MarkFull("e0", time.Now()) // without effect
		s.wantHeld(1, 1)
		time.Sleep(time.Second)
	})
}

// A mark is removed with its endpoint, and its timer does not end a later mark.
func TestMarkFullAndRemove(t *testing.T) {
	play(t, config(), fleet(1, 2), func(s *scene) {
		s.pool.MarkFull("e0", time.Now().Add(2*time.Second))
		s.pool.SetEndpoints(nil)
		s.pool.SetEndpoints(fleet(1, 3))
		s.wantHeld(2, 1)
		s.pool.MarkFull("e0", time.Now().Add(5*time.Second))
		time.Sleep(3 * time.Second)
		s.wantHeld(2, 0)
		s.release()
		time.Sleep(2 * time.Second)
		s.wantHeld(0, 3)
	})
}

// The choice of endpoints goes on where there are fewer than it had come to.
func TestChoiceAfterFewerEndpoints(t *testing.T) {
	for n := range 5 {
		p := newPool(t, config(), fleet(9, 1)...)
		takeAll(t, p, permits.Request{})
		p.SetEndpoints(append(fleet(9+n, 1)[9:], permits.Endpoint{ID: "last", Concurrency: 1}))
		if taken, _ := takeAll(t, p, permits.Request{}); len(taken) != n+1 {
			t.Errorf("%d of %d taken", len(taken), n+1)
		}
	}
}

func TestConfigureLive(t *testing.T) {
	c := config()
	play(t, c, fleet(1, 1), func(s *scene) {
		for i := range 3 {
			s.ask(fmt.Sprint("a", i), patient("a"))
		}
		s.ask("b", patient("b"))
		c.Discipline, c.Limit = permits.FIFO, 1
		s.pool.Configure(c)
		refuse(t, s.pool, patient("a"), permits.QueueFull)
		s.wantHeld(1, 0)
		s.release()
		time.Sleep(4 * time.Second)
		s.wantGranted("a0", "a1", "a2", "b")
	})
}

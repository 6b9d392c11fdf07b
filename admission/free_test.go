package admission_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
	"colonnade/permits"
)

// free asks for places for requests without slots, until a refusal or so many are there. It returns the reason of the refusal.
func (s *scenario) free(most int) (got []admission.Grant, reason permits.Reason) {
	s.Helper()
	for len(got) < most {
		g, err := s.pool("a").AcquireFree(s.Context(), &permits.Request{Account: "acme", MaxWait: time.Hour, Concurrent: 1})
		var refused *permits.Refusal
		if errors.As(err, &refused) {
			return got, refused.Reason
		} else if err != nil {
			s.Fatal(err)
		}
		got = append(got, g)
	}
	return got, ""
}

// Requests that take no slot are served while all slots are taken, on a server that is not the home, and after the fence has passed. Their number
// at one endpoint is bounded, and none waits.
func TestFreeRequests(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two"))
		synctest.Wait()
		for range 2 {
			g, err := s.pool("a").Acquire(s.Context(), &permits.Request{Account: "acme"})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Release()
		}
		s.SetFence(time.Now().Add(-time.Second))
		all, reason := s.free(1000)
		at := map[string]int{}
		for _, g := range all {
			if at[g.Endpoint.ID]++; !s.pool("a").MayUse(g) {
				t.Fatal("a place may not be used")
			}
		}
		if reason != permits.Busy || at["one"] != admission.MaxFree || at["two"] != admission.MaxFree {
			t.Errorf("%v at once, then %q", at, reason)
		}
		if l := s.pool("a").Load(); l.Held != 2 || l.Queued != 0 {
			t.Errorf("of the slots, %d are held, and %d requests wait", l.Held, l.Queued)
		}
		all[0].Release()
		again, _ := s.free(1)
		if len(again) != 1 || again[0].Endpoint.ID != all[0].Endpoint.ID {
			t.Errorf("after one has ended: %d", len(again))
		}
		for _, g := range append(all[1:], again...) {
			g.Release()
		}
	})
}

// Requests that take no slot go only to endpoints that are up, in the pool, not draining and not said to be full.
func TestFreeRequestsGoWhereOthersGo(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two"))
		synctest.Wait()
		want := func(when string, reason permits.Reason, ids ...string) {
			t.Helper()
			all, got := s.free(2)
			at := map[string]bool{}
			for _, g := range all {
				at[g.Endpoint.ID] = true
				g.Release()
			}
			if len(at) != len(ids) || got != reason {
				t.Errorf("%s: at %v, %q, want %v, %q", when, at, got, ids, reason)
			}
			for _, id := range ids {
				if !at[id] {
					t.Errorf("%s: none at %s", when, id)
				}
			}
		}
		want("at first", "", "one", "two")
		s.setHealth("one", errors.New("refused"))
		time.Sleep(time.Minute)
		want("with one down", "", "two")
		all, _ := s.free(1)
		s.pool("a").Full(all[0])
		all[0].Release()
		want("with the other full", permits.Busy)
		s.setHealth("one", nil)
		time.Sleep(time.Minute)
		want("when both are up again", "", "one", "two")
		s.put("key: endpoints/ams/one\nurl: http://one:8000\npool: a\nstate: draining\nconcurrency: 1\n")
		synctest.Wait()
		want("with one draining", "", "two")
		s.put("key: endpoints/ams/two\nurl: http://two:8000\npool: b\nconcurrency: 1\n")
		synctest.Wait()
		want("with the other in another pool", permits.NoEndpoint)
		s.put(endpoints("a", 1, "three"))
		synctest.Wait()
		want("with a new one", "", "three")
		s.Drain()
		want("while the server drains", permits.Draining)
	})
}

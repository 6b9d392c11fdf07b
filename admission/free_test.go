package admission_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
	"colonnade/permits"
)

// free asks for places for requests without slots, of many accounts, until a refusal or so many are there. It returns the reason of the refusal.
func (s *scenario) free(most int) (got []admission.Grant, reason permits.Reason) {
	s.Helper()
	return s.freeOf(most, permits.Exclusions{}, "a", "b", "c", "d", "e", "f", "g", "h")
}

// freeOf is free for accounts that take turns, and for requests that must not go to some endpoints.
func (s *scenario) freeOf(most int, excluded permits.Exclusions, accounts ...string) (got []admission.Grant, reason permits.Reason) {
	s.Helper()
	for len(got) < most {
		account := accounts[len(got)%len(accounts)]
		g, err := s.pool("a").AcquireFree(s.Context(), &permits.Request{Account: account, MaxWait: time.Hour, Concurrent: 1, Excluded: excluded})
		var refused *permits.Refusal
		if errors.As(err, &refused) {
			if refused.MayWait || refused.RetryAfter < time.Second {
				s.Errorf("the refusal: %+v", refused)
			}
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

// Requests that take no slot count among those of an engine that gets no more requests, also once it has no document, so that it is not stopped
// before they have ended. On other engines they do not: they would count as slots that another server must not grant.
func TestFreeRequestsOfAnEngineThatIsTakenOut(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two"))
		synctest.Wait()
		all, _ := s.free(3)
		held := func(want int) {
			t.Helper()
			if got := s.Held(); got["http://one:8000"] != want || got["http://two:8000"] != 0 {
				t.Errorf("held: %v, want %d on one", got, want)
			}
		}
		on := 0
		for _, g := range all {
			if g.Endpoint.ID == "one" {
				on++
			}
		}
		held(0)
		s.put("key: endpoints/ams/one\nurl: http://one:8000\npool: a\nconcurrency: 0\nstate: draining\n")
		held(on)
		s.remove("endpoints/ams/one")
		held(on)
		for _, g := range all {
			g.Release()
		}
		if held(0); on == 0 {
			t.Error("no request went to the engine")
		}
	})
}

// An account has at most a quarter of the places for requests without slots, of those endpoints that its requests may go to; others have the rest. Pages
// count what was granted and refused, and whose the requests are.
func TestFreeRequestsOfOneAccount(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one", "two"))
		synctest.Wait()
		if n := s.pool("a").Stats().NoSlot; n != nil {
			t.Errorf("before the first: %+v", n)
		}
		const places = 2 * admission.MaxFree
		greedy, reason := s.freeOf(1000, permits.Exclusions{}, "greedy")
		if len(greedy) != places/4 || reason != permits.AccountLimit {
			t.Errorf("one account: %d at once, then %q", len(greedy), reason)
		}
		others, reason := s.freeOf(3, permits.Exclusions{}, "x", "y")
		if len(others) != 3 {
			t.Errorf("others: %d, then %q", len(others), reason)
		}
		n := s.pool("a").DetailedStats(2).NoSlot
		if n == nil || n.Limit != places || n.PerAccount != places/4 || n.Held != places/4+3 || n.Granted != places/4+3 || n.Refused[permits.AccountLimit] != 1 {
			t.Fatalf("the page says %+v", n)
		}
		if len(n.Accounts) != 2 || n.Accounts[0] != (permits.NoSlotAccount{Account: "greedy", Held: places / 4}) || n.OtherAccounts != 1 {
			t.Errorf("the page has the accounts %+v and %d others", n.Accounts, n.OtherAccounts)
		}
		greedy[0].Release()
		if again, _ := s.freeOf(2, permits.Exclusions{}, "greedy"); len(again) != 1 {
			t.Errorf("after one has ended: %d", len(again))
		} else {
			greedy[0] = again[0]
		}
		for _, g := range append(greedy, others...) {
			g.Release()
		}
		onlyTwo := permits.Exclusions{permits.NewExclusion([]string{"http://one:8000"})}
		there, reason := s.freeOf(1000, onlyTwo, "greedy")
		if len(there) != admission.MaxFree/4 || reason != permits.AccountLimit {
			t.Errorf("at one of the endpoints: %d at once, then %q", len(there), reason)
		}
		for _, g := range there {
			g.Release()
		}
		if n := s.pool("a").Stats().NoSlot; n.Held != 0 || len(n.Accounts) != 0 {
			t.Errorf("in the end: %+v", n)
		}
	})
}

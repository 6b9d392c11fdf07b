package admission_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/admission"
	"colonnade/fleet"
	"colonnade/fleet/document"
	"colonnade/homes"
	"colonnade/internal/testkit"
	"colonnade/permits"
)

// grants returns grants for engines by their ID, of which other servers hold nothing.
func grants(ids ...string) *homes.Grants {
	g := &homes.Grants{Engines: map[string]homes.Share{}, Homes: map[string]string{}}
	for _, id := range ids {
		g.Engines["http://"+id+":8000"] = homes.Share{}
	}
	return g
}

func wantReason(t *testing.T, err error, reason permits.Reason) *permits.Refusal {
	t.Helper()
	var refused *permits.Refusal
	if !errors.As(err, &refused) || refused.Reason != reason {
		t.Fatalf("got %v, want a refusal: %s", err, reason)
	}
	return refused
}

// Permits are granted on the engines in the grants only, and only as many as other servers leave; requests wait for the others.
func TestGrantsLimitWhatIsGranted(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 2, "one", "two"))
		held := s.take("a")
		s.SetGrants(grants())
		s.wantLoad("a", 0, 0, "without grants")
		if got := s.Held(); !maps.Equal(got, map[string]int{held.Endpoint.URL: 1}) {
			t.Errorf("held: %v", got)
		}
		_, err := tryTake(s.pool("a"))
		wantReason(t, err, permits.Busy)
		waited := make(chan admission.Grant, 1)
		go func() {
			g, err := acquire(s.pool("a"), context.Background(), waiting(time.Minute))
			if err != nil {
				t.Error(err)
			}
			waited <- g
		}()
		time.Sleep(time.Second)
		g := grants(held.Endpoint.ID)
		g.Engines[held.Endpoint.URL] = homes.Share{Taken: 5}
		s.SetGrants(g)
		s.wantLoad("a", 2, 0, "while other servers hold more than there is")
		synctest.Wait()
		g = grants(held.Endpoint.ID)
		g.Engines[held.Endpoint.URL] = homes.Share{Taken: 1}
		s.SetGrants(g)
		s.wantLoad("a", 2, 0, "while another server and a request here hold the slots")
		held.Release()
		if granted := <-waited; granted.Endpoint.ID != held.Endpoint.ID || granted.Queued() != time.Second {
			t.Errorf("granted %s after %v", granted.Endpoint.ID, granted.Queued())
		} else {
			granted.Release()
		}
		s.SetGrants(nil)
		s.wantLoad("a", 4, 4, "with all grants")
		if got := s.Held(); len(got) > 0 {
			t.Errorf("held in the end: %v", got)
		}
	})
}

// Grants hold for engines and pools that a later table brings.
func TestGrantsBeforeTheTable(t *testing.T) {
	play(t, func(s *scenario) {
		g := grants("one")
		g.Engines["http://one:8000"] = homes.Share{Taken: 1}
		g.Homes["b"] = "ams-2"
		s.SetGrants(g)
		s.put(endpoints("a", 2, "one", "two") + "---\n" + endpoints("b", 2, "three"))
		s.wantLoad("a", 2, 1, "with one of two engines granted")
		_, err := acquire(s.pool("b"), context.Background(), waiting(time.Minute))
		wantReason(t, err, permits.Moved)
		s.put(endpoints("a", 2, "four"))
		s.put(endpoints("a", 3, "two"))
		s.wantLoad("a", 2, 1, "after an engine came")
		s.SetGrants(grants("one", "three", "four"))
		s.wantLoad("a", 4, 4, "after the grants have changed")
		s.wantLoad("b", 2, 2, "with its home here")
	})
}

// Slots that another pool of this server and other servers hold add up, in whichever order the table and the grants come.
func TestTakenByPoolsAndServers(t *testing.T) {
	for _, first := range []string{"table", "grants"} {
		play(t, func(s *scenario) {
			s.put(endpoints("a", 4, "one"))
			held := s.take("a")
			g := grants("one")
			g.Engines["http://one:8000"] = homes.Share{Taken: 2}
			if first == "grants" {
				s.SetGrants(g)
			}
			s.put(endpoints("b", 4, "one"))
			if first == "table" {
				s.SetGrants(g)
			}
			s.wantLoad("b", 4, 1, first+" first")
			s.SetGrants(grants())
			s.SetGrants(g)
			s.wantLoad("b", 4, 1, "after grants have ended and begun")
			held.Release()
			time.Sleep(2 * admission.ReconcileInterval)
			s.wantLoad("b", 4, 2, "after the request in the old pool has ended")
		})
	}
}

// A permit of before the process has registered again is not used, neither by Acquire nor later.
func TestPermitsOfAnEarlierEpoch(t *testing.T) {
	oneProcessor(t)
	play(t, func(s *scenario) {
		s.put(endpoints("a", 2, "one"))
		p, early := s.pool("a"), s.take("a")
		second := s.take("a")
		ended := make(chan admission.Grant, 1)
		go func() {
			g, err := acquire(p, context.Background(), waiting(time.Minute))
			if err != nil {
				t.Error(err)
			}
			ended <- g
		}()
		synctest.Wait()
		if !p.MayUse(early) {
			t.Error("a permit may not be used in its epoch")
		}
		second.Release() // grants a permit to the request, which has not run since
		s.SetGrants(grants())
		s.Renew()
		s.SetFence(time.Now().Add(time.Hour))
		synctest.Wait()
		if p.MayUse(early) {
			t.Error("a permit of an earlier epoch may be used")
		}
		if l := p.Load(); l.Held != 1 || l.Queued != 1 {
			t.Errorf("%+v, want the request to wait again", l)
		}
		s.SetGrants(grants("one"))
		late := <-ended
		if !p.MayUse(late) {
			t.Error("a permit of this epoch may not be used")
		}
		s.SetFence(time.Now())
		if p.MayUse(late) {
			t.Error("a permit may be used after the fence")
		}
		late.Release()
		early.Release()
	})
}

func TestStandInsOfAPool(t *testing.T) {
	play(t, func(s *scenario) {
		s.put(endpoints("a", 1, "one"))
		g := grants()
		g.Homes["a"] = "ams-2"
		s.SetGrants(g)
		ended := make(chan error, 1)
		go func() {
			r := waiting(time.Minute)
			r.StandIn = true
			_, err := acquire(s.pool("a"), context.Background(), r)
			ended <- err
		}()
		synctest.Wait()
		if n := s.StandIns("a"); n != 1 {
			t.Errorf("%d stand in", n)
		}
		s.RefuseStandIns("a")
		if r := wantReason(t, <-ended, permits.Moved); !r.Waited {
			t.Error("it had no place in the queue")
		}
		s.RefuseStandIns("none")
		if n := s.StandIns("a") + s.StandIns("none"); n != 0 {
			t.Errorf("%d stand in", n)
		}
	})
}

// The limit that another server has found is in force as soon as permits are granted here, and is reported to the next one.
func TestFoundLimitMovesWithTheEngine(t *testing.T) {
	play(t, func(s *scenario) {
		s.SetGrants(grants())
		s.put("key: endpoints/ams/one\nurl: http://one:8000\npool: a\nconcurrency: auto\nauto: {min: 4, max: 64}\n")
		if got := s.Limits(); len(got) > 0 {
			t.Errorf("limits of engines of other servers: %v", got)
		}
		g := grants("one")
		s.SetGrants(g)
		s.wantLoad("a", 8, 8, "with an engine of which nothing is known")
		if got := s.Limits(); len(got) > 0 {
			t.Errorf("limits of which nothing was learned: %v", got)
		}
		s.SetGrants(grants())
		g.Engines["http://one:8000"] = homes.Share{Limit: 17}
		s.SetGrants(g)
		s.wantLoad("a", 17, 17, "with the limit of the last owner")
		held := s.take("a")
		s.pool("a").ObserveFirstByte(held, admission.FirstByte{After: time.Second, Token: true})
		if got := s.Limits(); !maps.Equal(got, map[string]int{"http://one:8000": 17}) {
			t.Errorf("limits found: %v", got)
		}
		s.SetGrants(grants())
		if got := s.Limits(); len(got) > 0 {
			t.Errorf("limits of engines of other servers: %v", got)
		}
		s.pool("a").Full(held) // of no effect on a limit that another server finds
		held.Release()
		time.Sleep(time.Minute)
		s.SetGrants(grants("one"))
		s.wantLoad("a", 17, 17, "after a time without grants, in which no limit was found")
	})
}

// Only engines in the grants are checked: at once when they come into them, and not any more when they leave them.
func TestOnlyGrantedEnginesAreChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		checks := map[string]int{}
		m := admission.NewManager("ams", func(_ context.Context, e *fleet.Endpoint) error {
			mu.Lock()
			defer mu.Unlock()
			checks[e.ID]++
			return nil
		}, slog.New(slog.DiscardHandler))
		checked := func() map[string]int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer clear(checks)
			return maps.Clone(checks)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = m.Run(ctx)
		}()
		var ids []string
		for i := range 100 {
			ids = append(ids, fmt.Sprint("e", i))
		}
		s := &scenario{TB: t, Manager: m, documents: document.NewSet()}
		m.SetGrants(grants())
		synctest.Wait()
		before := runtime.NumGoroutine()
		s.put(endpoints("a", 1, ids...))
		time.Sleep(time.Minute)
		if got := checked(); len(got) > 0 || runtime.NumGoroutine() > before {
			t.Errorf("without grants, %d engines were checked, by %d goroutines", len(got), runtime.NumGoroutine()-before)
		}
		m.SetGrants(grants("e7"))
		if got := checked(); !maps.Equal(got, map[string]int{"e7": 1}) {
			t.Errorf("checked at once: %v", got)
		}
		time.Sleep(time.Minute)
		if got := checked(); len(got) != 1 || got["e7"] < 2 {
			t.Errorf("checked in a minute: %v", got)
		}
		m.SetGrants(grants())
		time.Sleep(time.Minute)
		if got := checked(); len(got) > 0 || runtime.NumGoroutine() > before {
			t.Errorf("after the grants have ended: %v were checked, by %d goroutines", got, runtime.NumGoroutine()-before)
		}
		cancel()
		<-done
	})
}

// An engine that its document takes out is granted by no server, so each says so, and why.
func TestStateOfAnEngineThatIsTakenOut(t *testing.T) {
	play(t, func(s *scenario) {
		s.SetGrants(grants())
		s.put("key: endpoints/ams/one\nurl: http://one\npool: a\nconcurrency: 0\nstate: draining\nstate_reason: it has ended\n")
		if e := s.pool("a").Stats().Endpoints[0]; e.State != "draining" || e.Reason != "it has ended" {
			t.Errorf("%+v", e)
		}
		s.put("key: endpoints/ams/one\nurl: http://one\npool: a\nconcurrency: 1\nstate: draining\n")
		if e := s.pool("a").Stats().Endpoints[0]; e.State != "withheld" {
			t.Errorf("%+v", e)
		}
	})
}

// Requests wait for an engine that another server may grant on, whatever its health was here. That is forgotten unless the engine comes
// back soon.
func TestHealthOfAnEngineThatComesBack(t *testing.T) {
	play(t, func(s *scenario) {
		s.setHealth("one", errors.New("it does not answer"))
		s.put(endpoints("a", 1, "one"))
		time.Sleep(time.Second)
		_, err := acquire(s.pool("a"), context.Background(), waiting(time.Second))
		wantReason(t, err, permits.NoEndpoint)
		s.SetGrants(grants())
		_, err = acquire(s.pool("a"), context.Background(), waiting(time.Second))
		wantReason(t, err, permits.QueueTimeout)
		if e := s.pool("a").Stats().Endpoints[0]; e.State != "withheld" || e.Reason != "" || *e.StateSeconds != 1 {
			t.Errorf("%+v", e)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := acquire(s.pool("a"), context.Background(), waiting(time.Second))
			ended <- err
		}()
		synctest.Wait()
		s.SetGrants(grants("one"))
		wantReason(t, <-ended, permits.NoEndpoint)
		s.SetGrants(grants())
		time.Sleep(time.Hour)
		s.setHealth("one", nil)
		s.SetGrants(grants("one"))
		s.take("a").Release()
	})
}

// Never more than half of the engines in the grants are ejected, also after grants have ended.
func TestEjectionsAmongGrantedEngines(t *testing.T) {
	play(t, func(s *scenario) {
		s.SetGrants(grants("one", "two"))
		s.put(endpoints("a", 1, "one", "two", "three", "four"))
		s.fail("a", "one")
		s.fail("a", "two")
		s.wantLoad("a", 1, 1, "with one of two ejected")
		s.SetGrants(nil)
		s.fail("a", "two")
		s.wantLoad("a", 2, 2, "with two of four ejected")
		s.SetGrants(grants("one", "two"))
		s.wantLoad("a", 1, 1, "with one of two readmitted")
		time.Sleep(2 * admission.MinEjection)
		s.SetGrants(grants("two", "three"))
		s.fail("a", "one") // another server judges it
		s.SetGrants(grants("one", "two", "three"))
		s.wantLoad("a", 3, 3, "in the end")
	})
}

// A server that takes over engines while they work on requests of the last one does not take them down because they answer its health
// checks late.
func TestBusyWithRequestsOfOtherServers(t *testing.T) {
	play(t, func(s *scenario) {
		s.setHealth("one", context.DeadlineExceeded)
		g := grants("one")
		g.Engines["http://one:8000"] = homes.Share{Taken: 1}
		s.SetGrants(g)
		s.put(endpoints("a", 2, "one"))
		time.Sleep(time.Minute)
		s.wantLoad("a", 2, 1, "while other servers have requests there")
	})
}

// Whatever tables and grants come, and in which order: once SetGrants has returned, permits on engines outside the grants only become
// fewer, and no invariant is broken.
func TestNothingIsGrantedOutsideTheGrants(t *testing.T) {
	s := newScenario(t)
	ids := []string{"one", "two", "three"}
	var tables []*fleet.Table
	for i := range 6 {
		pools := "key: pools/a\n---\nkey: pools/b\n---\n"
		tables = append(tables, s.table(pools+endpoints("a", 1+i, ids[i%3])+"---\n"+endpoints("b", 1+i%2, ids[(i+1)%3])))
	}
	s.Apply(tables[0])
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	var served atomic.Int64
	for n := range 12 {
		p := s.pool([]string{"a", "b"}[n%2])
		clients.Go(func() {
			r := waiting(time.Second)
			for r.StandIn = n%3 == 0; ctx.Err() == nil; time.Sleep(20 * time.Microsecond) {
				if g, err := acquire(p, ctx, r); err == nil {
					time.Sleep(rand.N(200 * time.Microsecond))
					served.Add(1)
					g.Release()
				}
			}
		})
	}
	for range testkit.AtScale(300, 30_000) {
		g := grants()
		for _, id := range ids {
			if rand.IntN(2) == 0 {
				g.Engines["http://"+id+":8000"] = homes.Share{Taken: rand.IntN(3)}
			}
		}
		for _, pool := range []string{"a", "b"} {
			if rand.IntN(3) == 0 {
				g.Homes[pool] = "ams-2"
			}
		}
		s.SetGrants(g)
		before := s.Held()
		s.Apply(tables[rand.IntN(len(tables))])
		time.Sleep(rand.N(200 * time.Microsecond))
		for url, n := range s.Held() {
			if _, granted := g.Engines[url]; !granted && n > before[url] {
				t.Fatalf("%s holds %d permits, and %d when its grants ended", url, n, before[url])
			}
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		if rand.IntN(10) == 0 {
			s.SetGrants(nil)
		}
	}
	cancel()
	clients.Wait()
	if served.Load() == 0 {
		t.Error("no request was served")
	}
}

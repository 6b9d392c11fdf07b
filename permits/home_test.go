package permits_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/internal/testkit"
	"colonnade/permits"
)

// withheld returns endpoints of which no slot may be granted.
func withheld(es []permits.Endpoint) []permits.Endpoint {
	es = slices.Clone(es)
	for i := range es {
		es[i].Withheld = true
	}
	return es
}

// standIn is a patient request whose home did not answer.
func standIn(account string) permits.Request {
	r := patient(account)
	r.StandIn = true
	return r
}

// wantMoved expects that a request was refused with the reason moved.
func wantMoved(t *testing.T, err error, waited bool) {
	t.Helper()
	if r := wantRefusal(t, err, permits.Moved); r.Waited != waited || r.MayWait {
		t.Errorf("%+v, want Waited %v, and no MayWait", r, waited)
	}
}

// Requests wait for endpoints that are withheld, within the bounds of the queue, and none of their slots counts.
func TestWithheldEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Limit = 2
		p := newPool(t, c, withheld(fleet(2, 2))...)
		if l := p.Load(); l != (permits.Load{}) {
			t.Errorf("%+v with withheld endpoints only", l)
		}
		first := start(t.Context(), p, patient("a"))
		synctest.Wait()
		second := start(t.Context(), p, patient("b"))
		synctest.Wait()
		spill := patient("c")
		spill.MaxExpected = 0
		refuse(t, p, spill, permits.Busy)
		refuse(t, p, permits.Request{MaxExpected: -1}, permits.Busy)
		refuse(t, p, patient("c"), permits.QueueFull)
		refuse(t, p, permits.Request{MaxWait: time.Hour, MaxExpected: -1, Avoid: []string{"e0", "e1"}}, permits.NoEndpoint)
		if s := p.Stats(); s.FullSeconds != 0 || !s.Endpoints[0].Withheld || s.Queued != 2 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Second)
		p.SetEndpoints(append(fleet(1, 1), withheld(fleet(2, 2))[1]))
		r := <-first
		if r.err != nil || r.permit.Endpoint() != "e0" {
			t.Fatalf("%+v", r)
		}
		if l := p.Load(); l.Limit != 1 || l.Free != 0 || l.Held != 1 || l.Queued != 1 {
			t.Errorf("%+v with one endpoint of two withheld", l)
		}
		p.SetEndpoints(withheld(fleet(2, 2)))
		r.permit.Release()
		began := time.Now()
		wantRefusal(t, (<-second).err, permits.QueueTimeout)
		if took := time.Since(began); took != c.MaxWait-time.Second {
			t.Errorf("a request waited %v for a withheld endpoint", took)
		}
		if s := p.Stats(); s.FullSeconds != 0 {
			t.Errorf("full for %v s, with all endpoints withheld", s.FullSeconds)
		}
	})
}

// More slots may be taken than there are.
func TestMoreTakenThanSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fleet(1, 2)
		e[0].Taken = 5
		p := newPool(t, config(), e...)
		waiting := start(t.Context(), p, patient("a"))
		for taken := 5; taken >= 2; taken-- {
			e[0].Taken = taken
			p.SetEndpoints(e)
			synctest.Wait()
			if l := p.Load(); l.Queued != 1 || l.Free != 0 || l.Limit != 2 {
				t.Fatalf("%+v with %d of 2 taken", l, taken)
			}
		}
		e[0].Taken = 1
		p.SetEndpoints(e)
		permit := (<-waiting).permit
		if permit.Held() != 2 {
			t.Errorf("granted as the %dth", permit.Held())
		}
		permit.Release()
	})
}

// A pool that has its home elsewhere refuses what waits and what comes, with the reason moved, and nothing of it is expected back.
func TestPoolWithItsHomeElsewhere(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		waits := s.ask("waits", patient("a"))
		s.pool.SetHome(false)
		wantMoved(t, <-waits, true)
		wantMoved(t, <-s.ask("newcomer", patient("a")), false)
		again := patient("a")
		again.Rejoin = true
		wantMoved(t, <-s.ask("again", again), true)
		s.release()
		wantMoved(t, <-s.ask("beside a free slot", permits.Request{}), false)
		stats := s.pool.Stats()
		if stats.PendingRetries != 0 || stats.Refused[permits.Moved] != 4 {
			t.Errorf("%d retries are pending after %v", stats.PendingRetries, stats.Refused)
		}
		s.pool.SetHome(true)
		s.ask("home", patient("a"))
		s.wantGranted("home")
		time.Sleep(time.Second)
		s.pool.CloseQueue()
		s.pool.SetEndpoints(withheld(fleet(1, 1)))
		s.pool.SetHome(false)
		wantMoved(t, <-s.ask("to the home", patient("a")), false)
		wantRefusal(t, <-s.ask("nowhere else", standIn("a")), permits.Draining)
	})
}

// Stand-ins wait until the pool has its home here, or until the home answers again.
func TestStandIns(t *testing.T) {
	play(t, config(), fleet(1, 1), func(s *scene) {
		s.pool.SetHome(false)
		s.pool.SetEndpoints(withheld(fleet(1, 1)))
		stats := func() [2]int { return [2]int{s.pool.Stats().Queued, s.pool.StandIns()} }
		first := s.ask("first", standIn("a"))
		if got := stats(); got != [2]int{1, 1} {
			t.Errorf("%v wait, and stand in", got)
		}
		s.pool.RefuseStandIns()
		wantMoved(t, <-first, true)
		s.release()
		second := s.ask("second", standIn("a"))
		s.wantGranted()
		s.pool.SetHome(true)
		if got := stats(); got != [2]int{1, 0} {
			t.Errorf("%v wait, and stand in, at the home", got)
		}
		s.pool.RefuseStandIns() // there are none any more
		s.pool.SetHome(false)
		wantMoved(t, <-second, true)
		third := s.ask("third", standIn("a"))
		s.pool.SetHome(false) // it was not
		s.pool.SetHome(true)
		s.pool.SetEndpoints(fleet(1, 1))
		if s.wantGranted("third"); <-third != nil {
			t.Error("a stand-in was not served by the new home")
		}
		s.ask("fourth", standIn("a"))
		if s.wantGranted("fourth"); s.pool.StandIns() != 0 {
			t.Error("a request stands in at the home")
		}
		time.Sleep(time.Second)
	})
}

// Waiters that move are served by the new home in the order in which the old one would have served them, whichever comes first, and
// though its queue has no room.
func TestMovedWaitersKeepTheirOrder(t *testing.T) {
	for _, discipline := range []permits.Discipline{permits.Fair, permits.FIFO} {
		order := func(move bool) (names []string) {
			synctest.Test(t, func(t *testing.T) { names = servedInOrder(t, discipline, move) })
			return names
		}
		if want, got := order(false), order(true); !slices.Equal(got, want) {
			t.Errorf("discipline %v: served %q after the move, want %q", discipline, got, want)
		}
	}
}

// servedInOrder lets twelve requests wait, moves them to a pool whose queue is full, or not, and returns the order of grants.
func servedInOrder(t *testing.T, d permits.Discipline, move bool) []string {
	c := config()
	c.Discipline = d
	old, next := newPool(t, c, fleet(1, 1)...), newPool(t, func() permits.Config { c.Limit, c.PerAccount = 1, 1; return c }(), fleet(1, 1)...)
	blocked := []permits.Permit{take(t, old, permits.Request{Account: "z"}), take(t, next, permits.Request{Account: "z"})}
	var done sync.WaitGroup
	if move {
		late := patient("late")
		late.Arrived = time.Now().Add(time.Hour)
		done.Go(func() {
			permit, err := acquire(next, t.Context(), late)
			if err != nil {
				t.Error(err)
				return
			}
			permit.Release()
		})
		synctest.Wait()
	}
	log := make(chan string, 100)
	for i := range 12 {
		r := patient(string(rune('a' + (i*i)%5)))
		r.Band = permits.Band(i % 2)
		r.Arrived = time.Now()
		done.Go(func() {
			permit, err := acquire(old, t.Context(), r)
			if err != nil {
				wantMoved(t, err, true)
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond) // on its way
				r.Rejoin = true
				permit, err = acquire(next, t.Context(), r)
			}
			if err != nil {
				t.Error(err)
				return
			}
			log <- fmt.Sprint(i)
			permit.Release()
		})
		synctest.Wait()
		time.Sleep(time.Millisecond)
	}
	if move {
		old.SetHome(false)
		time.Sleep(time.Millisecond)
		synctest.Wait()
	}
	for _, permit := range blocked {
		permit.Release()
	}
	done.Wait()
	close(log)
	var names []string
	for name := range log {
		names = append(names, name)
	}
	return names
}

// A permit has the epoch in which it was granted, and not that in which its request arrived.
func TestEpochOfPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, fence := fencedPool(t, fleet(1, 1)...)
		first := take(t, p, patient("a"))
		waiting := start(t.Context(), p, patient("a"))
		synctest.Wait()
		fence.Renew()
		if first.Epoch() == fence.Epoch() {
			t.Error("a permit of before is of the new epoch")
		}
		first.Release()
		second := (<-waiting).permit
		if second.Epoch() != fence.Epoch() {
			t.Error("a permit granted in the new epoch is of another")
		}
		second.Release()
	})
}

// sharedPool is the pool of one of several servers that share an engine, as package admission uses the pool of each.
type sharedPool struct {
	*permits.Pool
	endpoint permits.Endpoint
}

func (s *sharedPool) set(withheld bool, taken int) {
	s.endpoint.Withheld, s.endpoint.Taken = withheld, taken
	s.SetEndpoints([]permits.Endpoint{s.endpoint})
}

func (s *sharedPool) held() int {
	total := map[string]int{}
	s.AddHeld(total)
	return total[s.endpoint.ID]
}

// A pool moves between two servers all the time, under many requests. The engine never has more in flight than its limit, and every
// request is served: no waiter is lost, and none is refused for anything but the move.
func TestMovesUnderLoad(t *testing.T) {
	const limit = 4
	var servers [2]*sharedPool
	for i := range servers {
		servers[i] = &sharedPool{newPool(t, config()), fleet(1, limit)[0]}
		servers[i].set(i != 0, 0)
		servers[i].SetHome(i == 0)
	}
	e := &engines{t: t, limit: limit}
	var clients sync.WaitGroup
	for i := range 24 {
		clients.Go(func() {
			for range testkit.AtScale(200, 20_000) {
				visitHome(t, servers, e, fmt.Sprint(i%5))
			}
		})
	}
	stop, moved := make(chan struct{}), make(chan int)
	go func() { moved <- moveBackAndForth(servers, stop) }()
	clients.Wait()
	close(stop)
	t.Logf("moved %d times", <-moved)
	for _, s := range servers {
		check(t, s.Pool)
		if l := s.Load(); l.Held != 0 || l.Queued != 0 {
			t.Errorf("left: %+v", l)
		}
	}
}

// visitHome makes one request, which follows the pool to its home.
func visitHome(t *testing.T, servers [2]*sharedPool, e *engines, account string) {
	r := patient(account)
	r.Arrived = time.Now()
	for at := 0; ; at = 1 - at {
		permit, err := acquire(servers[at].Pool, t.Context(), r)
		var refusal *permits.Refusal
		switch {
		case err == nil:
			e.serve(permit, runtime.Gosched)
			return
		case !errors.As(err, &refusal) || refusal.Reason != permits.Moved:
			t.Errorf("%v", err)
			return
		}
		r.Rejoin = refusal.Waited
	}
}

// moveBackAndForth moves the pool until stop is closed, and returns how often.
func moveBackAndForth(servers [2]*sharedPool, stop <-chan struct{}) (moves int) {
	for home := 0; ; home = 1 - home {
		old, next := servers[home], servers[1-home]
		old.SetHome(false)
		old.set(true, 0)
		next.SetHome(true)
		for held := old.held(); ; held = old.held() { // falls only
			next.set(false, held)
			if held == 0 {
				break
			}
			runtime.Gosched()
		}
		moves++
		select {
		case <-stop:
			return moves
		case <-time.After(50 * time.Microsecond):
		}
	}
}

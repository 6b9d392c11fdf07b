package permits_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/balance"
	"colonnade/permits"
)

const preferWait = 100 * time.Millisecond

// ringConfig is that of a pool whose requests prefer the endpoint of their key, whatever its load.
func ringConfig() permits.Config {
	c := config()
	c.Balance = balance.Config{Policy: balance.ConsistentHash, LoadFactor: 100}
	c.PreferWait = preferWait
	return c
}

// keys has a key for each endpoint, whose requests prefer it.
func keys(t *testing.T, es []permits.Endpoint) []balance.Request {
	p := newPool(t, ringConfig(), es...)
	keys := make([]balance.Request, len(es))
	for key, left := uint64(1), len(es); left > 0; key++ {
		permit := take(t, p, permits.Request{Balance: &balance.Request{Key: key}})
		for i, e := range es {
			if e.ID == permit.Endpoint() && keys[i].Key == 0 {
				keys[i].Key = key
				left--
			}
		}
		permit.Release()
	}
	return keys
}

// preferring is a pool of two endpoints, one slot each, in a bubble of synthetic time. The slot of the first is taken.
type preferring struct {
	*scene
	keys []balance.Request
	held permits.Permit // of the first endpoint
}

func playPreferring(t *testing.T, f func(s *preferring)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		es := fleet(2, 1)
		s := &preferring{scene: &scene{T: t, pool: newPool(t, ringConfig(), es...), log: make(chan string, 100)}, keys: keys(t, es)}
		s.held = take(t, s.pool, s.to(0, patient("holder")))
		f(s)
		synctest.Wait()
		check(t, s.pool)
	})
}

// to returns a request that prefers an endpoint.
func (s *preferring) to(at int, r permits.Request) permits.Request {
	r.Balance = &s.keys[at]
	return r
}

func (s *preferring) start(r permits.Request) <-chan result {
	done := start(s.Context(), s.pool, r)
	synctest.Wait()
	check(s.T, s.pool)
	return done
}

// wantGrant expects that a request has got a slot of an endpoint after a wait.
func wantGrant(t *testing.T, done <-chan result, endpoint string, queued time.Duration) permits.Permit {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-done:
		if got.err != nil || got.permit.Endpoint() != endpoint || got.permit.Queued() != queued {
			t.Fatalf("got %s after %v (%v), want %s after %v", got.permit.Endpoint(), got.permit.Queued(), got.err, endpoint, queued)
		}
		return got.permit
	default:
		t.Fatalf("the request still waits, want %s after %v", endpoint, queued)
	}
	return permits.Permit{}
}

func wantWaiting(t *testing.T, done <-chan result) {
	t.Helper()
	synctest.Wait()
	select {
	case got := <-done:
		t.Fatalf("got %s (%v), want a request that waits", got.permit.Endpoint(), got.err)
	default:
	}
}

func TestDeclineUntilPreferredIsFree(t *testing.T) {
	playPreferring(t, func(s *preferring) {
		done := s.start(s.to(0, patient("a")))
		time.Sleep(preferWait / 2)
		wantWaiting(t, done)
		s.held.Release()
		wantGrant(t, done, "e0", preferWait/2).Release()
	})
}

// Nothing but the timer ends the wait.
func TestDeclineEndsByTime(t *testing.T) {
	playPreferring(t, func(s *preferring) {
		first := s.start(s.to(0, patient("a")))
		time.Sleep(preferWait / 4)
		second := s.start(s.to(0, patient("a")))
		time.Sleep(preferWait/4*3 - 1)
		wantWaiting(t, first)
		time.Sleep(time.Nanosecond)
		permit := wantGrant(t, first, "e1", preferWait)
		wantWaiting(t, second)
		permit.Release()
		wantWaiting(t, second) // it declines for its own time
		time.Sleep(preferWait / 4)
		wantGrant(t, second, "e1", preferWait).Release()
		s.held.Release()
	})
}

// A request that declined takes the first slot that it is offered afterwards, also while all were taken at the end of its time.
func TestDeclineOnce(t *testing.T) {
	playPreferring(t, func(s *preferring) {
		done := s.start(s.to(0, patient("a")))
		other := wantGrant(t, s.start(s.to(1, patient("b"))), "e1", 0)
		time.Sleep(2 * preferWait)
		wantWaiting(t, done)
		other.Release()
		wantGrant(t, done, "e1", 2*preferWait).Release()
		s.held.Release()
	})
}

// A request with less time left declines for half of it, and so gets a slot that is free: it is not refused beside it.
func TestDeclineForHalfOfTheTimeLeft(t *testing.T) {
	const most, left = 2 * preferWait, preferWait / 2
	for name, bound := range map[string]func(r *permits.Request){
		"longest wait": func(r *permits.Request) { r.MaxWait = most },
		"deadline":     func(r *permits.Request) { r.Deadline = time.Now().Add(most) },
		"again":        func(r *permits.Request) { r.MaxWait, r.Rejoin, r.Arrived = most, true, time.Now() },
	} {
		t.Run(name, func(t *testing.T) {
			playPreferring(t, func(s *preferring) {
				other := take(t, s.pool, s.to(1, patient("holder")))
				r := s.to(0, patient("a"))
				bound(&r)
				done := s.start(r)
				time.Sleep(most - left)
				other.Release()
				time.Sleep(left/2 - 1)
				wantWaiting(t, done)
				time.Sleep(time.Nanosecond)
				wantGrant(t, done, "e1", most-left/2).Release()
				s.held.Release()
			})
		})
	}
}

// The request that declines for the shortest time gets the slot at the end of that time, though another began to decline before it.
func TestDeclineEndsInOrderOfTime(t *testing.T) {
	playPreferring(t, func(s *preferring) {
		other := take(t, s.pool, s.to(1, patient("holder")))
		long, hurried := s.to(0, patient("a")), s.to(0, patient("b"))
		hurried.MaxWait = preferWait
		first, second := s.start(long), s.start(hurried)
		other.Release()
		time.Sleep(preferWait / 2)
		permit := wantGrant(t, second, "e1", preferWait/2)
		wantWaiting(t, first)
		permit.Release()
		time.Sleep(preferWait / 2)
		wantGrant(t, first, "e1", preferWait).Release()
		s.held.Release()
	})
}

// The slot that a request declines goes to the next in fair order: another request of its account, whose turn it is, or else another
// account. The request keeps its place, and is the first to get the slot that it prefers.
func TestDeclinedSlotGoesOnInOrder(t *testing.T) {
	playPreferring(t, func(s *preferring) {
		other := take(t, s.pool, s.to(1, patient("holder")))
		a1, a2 := s.start(s.to(0, patient("a"))), s.start(s.to(1, patient("a")))
		b1, b2 := s.start(s.to(1, patient("b"))), s.start(s.to(0, patient("b")))
		c1 := s.start(s.to(1, patient("c")))
		other.Release()
		wantGrant(t, a2, "e1", 0).Release()
		wantGrant(t, b1, "e1", 0).Release()
		permit := wantGrant(t, c1, "e1", 0)
		wantWaiting(t, b2)
		s.held.Release()
		wantGrant(t, a1, "e0", 0).Release()
		wantGrant(t, b2, "e0", 0).Release()
		permit.Release()
	})
}

func TestRequestsThatMayNotWaitDoNotDecline(t *testing.T) {
	for name, change := range map[string]func(s *preferring, r *permits.Request){
		"no wait":           func(_ *preferring, r *permits.Request) { r.MaxWait = 0 },
		"short wait":        func(_ *preferring, r *permits.Request) { r.MaxWait = preferWait },
		"expected at once":  func(_ *preferring, r *permits.Request) { r.MaxExpected = 0 },
		"short expected":    func(_ *preferring, r *permits.Request) { r.MaxExpected = preferWait - 1 },
		"deadline":          func(_ *preferring, r *permits.Request) { r.Deadline = time.Now().Add(preferWait) },
		"again":             func(_ *preferring, r *permits.Request) { r.Rejoin, r.Arrived = true, time.Now() },
		"closed":            func(s *preferring, _ *permits.Request) { s.pool.CloseQueue() },
		"avoids the first":  func(_ *preferring, r *permits.Request) { r.Avoid = []string{"e0"} },
		"prefers the other": func(s *preferring, r *permits.Request) { *r = s.to(1, *r) },
		"without a wait": func(s *preferring, _ *permits.Request) {
			c := ringConfig()
			c.PreferWait = 0
			s.pool.Configure(c)
		},
		"without room to wait": func(s *preferring, _ *permits.Request) {
			c := ringConfig()
			c.Limit = 0
			s.pool.Configure(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			playPreferring(t, func(s *preferring) {
				r := s.to(0, patient("a"))
				change(s, &r)
				wantGrant(t, s.start(r), "e1", 0).Release()
				s.held.Release()
			})
		})
	}
}

// Requests that arrive beside a free slot decline it until so many do, and the next takes it.
func TestArrivalsThatDeclineAreBounded(t *testing.T) {
	playPreferring(t, func(s *preferring) {
		var waiting []<-chan result
		for range permits.MaxDeclined {
			waiting = append(waiting, s.start(s.to(0, patient("a"))))
		}
		wantGrant(t, s.start(s.to(0, patient("b"))), "e1", 0).Release()
		s.releaseAll(waiting)
	})
}

// A request that could run at once does not wait for the slot that it prefers if another would lose its place in the queue for that.
func TestDeclineNeedsRoom(t *testing.T) {
	for name, change := range map[string]func(c *permits.Config, r *permits.Request){
		"requests": func(c *permits.Config, _ *permits.Request) { c.Limit = 2 },
		"bytes":    func(c *permits.Config, r *permits.Request) { c.Bytes, r.Bytes = 100, 50 },
	} {
		t.Run(name, func(t *testing.T) {
			playPreferring(t, func(s *preferring) {
				c, other := ringConfig(), s.to(0, patient("b"))
				change(&c, &other)
				s.pool.Configure(c)
				other.Avoid = []string{"e1"}
				b1, b2 := s.start(other), s.start(other)
				r := s.to(0, patient("a"))
				r.Bytes = other.Bytes
				permit := wantGrant(t, s.start(r), "e1", 0)
				wantWaiting(t, b1)
				wantWaiting(t, b2)
				permit.Release()
				s.releaseAll([]<-chan result{b1, b2})
			})
		})
	}
}

// Requests that decline a slot take it, before one of them loses its place in the queue to a request that cannot use it.
func TestDeclinedSlotMakesRoom(t *testing.T) {
	playPreferring(t, func(s *preferring) {
		c := ringConfig()
		c.Limit = 2
		s.pool.Configure(c)
		a1, a2 := s.start(s.to(0, patient("a"))), s.start(s.to(0, patient("a")))
		other := s.to(0, patient("b"))
		other.Avoid = []string{"e1"}
		b := s.start(other)
		permit := wantGrant(t, a1, "e1", 0)
		wantWaiting(t, a2)
		wantWaiting(t, b)
		permit.Release()
		s.releaseAll([]<-chan result{a2, b})
	})
}

// A slot that is released is declined by so many requests, and the next takes it.
func TestWaitersThatDeclineAreBounded(t *testing.T) {
	playPreferring(t, func(s *preferring) {
		other := take(t, s.pool, s.to(1, patient("holder")))
		var waiting []<-chan result
		for i := range permits.MaxDeclined + 2 {
			waiting = append(waiting, s.start(s.to(0, patient(fmt.Sprint("account", i)))))
		}
		other.Release()
		permit := wantGrant(t, waiting[permits.MaxDeclined], "e1", 0)
		check(t, s.pool)
		waiting = append(waiting[:permits.MaxDeclined], waiting[permits.MaxDeclined+1])
		permit.Release()
		s.releaseAll(waiting)
	})
}

// releaseAll releases the first endpoint, and lets all requests run.
func (s *preferring) releaseAll(waiting []<-chan result) {
	s.Helper()
	s.held.Release()
	for i, done := range waiting {
		got := <-done
		if got.err != nil {
			s.Fatalf("request %d: %v", i, got.err)
		}
		check(s.T, s.pool)
		got.permit.Release()
	}
}

// A request that leaves while it declines, and a pool that drains then, leave nothing behind.
func TestLeaveWhileDeclining(t *testing.T) {
	playPreferring(t, func(s *preferring) {
		ctx, cancel := context.WithCancel(s.Context())
		done := start(ctx, s.pool, s.to(0, patient("a")))
		synctest.Wait()
		cancel()
		if got := <-done; got.err == nil {
			t.Error("a request got a permit whose client had left")
		}
		done = s.start(s.to(0, patient("a")))
		s.pool.Drain()
		wantRefusal(t, (<-done).err, permits.Draining)
		time.Sleep(2 * preferWait)
		s.held.Release()
	})
}

// A request that declined a slot waits until its timer ends, also once it would not prefer another endpoint any more. Checks look at that, and
// offer it nothing.
func TestCheckOffersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Balance = balance.Config{Policy: balance.PrefixAffinity, LoadFactor: 100, IndexBytes: 64 << 10, MaxAge: time.Hour}
		c.PreferWait = preferWait
		p := newPool(t, c, fleet(2, 1)...)
		r := patient("a")
		r.Balance = &balance.Request{Input: 4 << 10, Blocks: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}
		held := take(t, p, r)
		done := start(t.Context(), p, r)
		for range 4 {
			wantWaiting(t, done)
			check(t, p)
			p.ForgetCache(held.Endpoint())
			time.Sleep(preferWait / 4)
		}
		synctest.Wait()
		got := <-done
		if got.permit.Endpoint() == held.Endpoint() || got.permit.Queued() != preferWait {
			t.Errorf("got %s after %v", got.permit.Endpoint(), got.permit.Queued())
		}
		got.permit.Release()
		held.Release()
	})
}

// An engine that lies about its cache changes where requests go, and nothing else.
func TestCacheReportsBreakNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := config()
		c.Balance = balance.Config{Policy: balance.PrefixAffinity, LoadFactor: 1.25, IndexBytes: 64 << 10, MaxAge: time.Hour}
		c.PreferWait = preferWait
		p := newPool(t, c, fleet(4, 2)...)
		var running []permits.Permit
		for i := range 2000 {
			id := fmt.Sprintf("e%d", i%5) // e4 is not there
			switch i % 7 {
			case 0:
				p.SetCacheSize(id, 1<<62)
			case 1:
				p.SetCacheSize(id, -1)
			case 2:
				p.SetCacheSize(id, 1)
			case 3:
				p.ForgetCache(id)
			}
			r := permits.Request{Account: "a", Balance: &balance.Request{Input: 4 << 10, Blocks: []uint64{1, 2, uint64(i % 9), uint64(i)}}}
			running = append(running, take(t, p, r))
			if len(running) == 8 {
				check(t, p)
				refuse(t, p, r, permits.Busy)
				for _, permit := range running {
					permit.Release()
				}
				running = running[:0]
			}
		}
		for _, permit := range running {
			permit.Release()
		}
	})
}

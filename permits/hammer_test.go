package permits_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"colonnade/internal/testkit"
	"colonnade/permits"
)

// engines counts the requests in flight at each endpoint, as the engines behind them would.
type engines struct {
	t        *testing.T
	limit    int64
	inFlight sync.Map // by endpoint: *atomic.Int64
}

// serve works on a request at the permit's endpoint, and fails if that has more in flight than its limit.
func (e *engines) serve(permit permits.Permit, work func()) {
	counter, _ := e.inFlight.LoadOrStore(permit.Endpoint(), new(atomic.Int64))
	n := counter.(*atomic.Int64)
	if now := n.Add(1); now > e.limit {
		e.t.Errorf("%q has %d in flight, %d at most", permit.Endpoint(), now, e.limit)
	}
	work()
	n.Add(-1)
	permit.Release()
}

// wantIdle expects that no permit is held, no request waits, and every slot is free.
func wantIdle(t *testing.T, p *permits.Pool) {
	t.Helper()
	check(t, p)
	s := p.Stats()
	if s.Held != 0 || s.Queued != 0 || s.Free != s.Limit || s.Granted != s.Released {
		t.Fatalf("after all requests have ended: %+v", s)
	}
}

// The only slot is released at the moment when the client of the only waiter leaves. Whichever comes first, the slot is free
// in the end.
func TestGrantRacesCancel(t *testing.T) {
	p := newPool(t, config(), fleet(1, 1)...)
	granted, rounds := 0, testkit.AtScale(5000, 1_000_000)
	for i := range rounds {
		held := take(t, p, permits.Request{})
		ctx, cancel := context.WithCancel(context.Background())
		done := start(ctx, p, patient("a"))
		for p.Load().Queued == 0 {
			runtime.Gosched()
		}
		race(held.Release, cancel, i)
		switch r := <-done; r.err {
		case nil:
			granted++
			r.permit.Release()
		case context.Canceled:
		default:
			t.Fatal(r.err)
		}
		take(t, p, permits.Request{}).Release()
	}
	both := int(p.Stats().Granted) - 2*rounds - granted
	t.Logf("of %d rounds %d were granted, %d cancelled, and %d granted and cancelled", rounds, granted, rounds-granted-both, both)
	wantIdle(t, p)
}

// race runs both at about the same time; which one begins earlier, and by how much, depends on the round.
func race(a, b func(), round int) {
	if round%2 == 0 {
		a, b = b, a
	}
	done := make(chan struct{})
	go func() {
		a()
		close(done)
	}()
	for range round % 128 {
		runtime.Gosched()
	}
	b()
	<-done
}

// Many clients come, wait, leave and fail in every way, on a pool whose endpoints and bounds change all the time. No engine
// ever has more in flight than its limit, and no slot is lost.
func TestHammer(t *testing.T) {
	const limit = 4
	c := config()
	c.Limit, c.PerAccount, c.Fence = 30, 10, permits.NewFence()
	p := newPool(t, c, fleet(3, limit)...)
	e := &engines{t: t, limit: limit}
	stop := make(chan struct{})
	var clients, operator sync.WaitGroup
	operator.Go(func() { change(p, c, limit, stop) })
	for i := range 16 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 6))
			for range testkit.AtScale(1000, 100_000) {
				visit(t, p, e, r)
			}
		})
	}
	clients.Wait()
	close(stop)
	operator.Wait()
	p.SetEndpoints(fleet(3, limit))
	for i := range 3 {
		p.SetUsable(fmt.Sprint("e", i), true)
	}
	time.Sleep(5 * time.Millisecond) // the last MarkFull
	wantIdle(t, p)
}

// visit is one request of a client that may leave at any time.
func visit(t *testing.T, p *permits.Pool, e *engines, r *rand.Rand) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.IntN(2) == 0 {
		timer := time.AfterFunc(time.Duration(r.IntN(200))*time.Microsecond, cancel)
		defer timer.Stop()
	}
	request := permits.Request{
		Account:     fmt.Sprint(r.IntN(5)),
		Band:        permits.Band(r.IntN(3)),
		Weight:      float64(1 + r.IntN(3)),
		Concurrent:  r.IntN(5),
		MaxWait:     time.Duration(r.IntN(500)) * time.Microsecond,
		MaxExpected: time.Duration(r.IntN(3)-1) * time.Millisecond,
		Rejoin:      r.IntN(5) == 0,
		StandIn:     r.IntN(5) == 0,
	}
	if r.IntN(4) == 0 {
		request.Avoid = []string{fmt.Sprint("e", r.IntN(3))}
	}
	if r.IntN(4) == 0 {
		request.Excluded[r.IntN(2)] = permits.NewExclusion([]string{fmt.Sprint("e", r.IntN(3))})
	}
	if r.IntN(4) == 0 {
		request.Deadline = time.Now().Add(time.Duration(r.IntN(400)-50) * time.Microsecond)
	}
	permit, err := acquire(p, ctx, request)
	var refusal *permits.Refusal
	switch {
	case err == nil:
		e.serve(permit, func() { time.Sleep(time.Duration(r.IntN(30)) * time.Microsecond) })
	case errors.As(err, &refusal):
		if refusal.RetryAfter < time.Second || refusal.RetryAfter > 32*time.Second {
			t.Errorf("%s: come back in %v", refusal.Reason, refusal.RetryAfter)
		}
	case err != context.Canceled:
		t.Error(err)
	}
}

// change acts as an operator and a health checker without a pause.
func change(p *permits.Pool, c permits.Config, limit int, stop <-chan struct{}) {
	r := rand.New(rand.NewPCG(7, 7))
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(r.IntN(200)) * time.Microsecond):
		}
		id := fmt.Sprint("e", r.IntN(3))
		switch r.IntN(9) {
		case 0:
			es := fleet(3, 1+r.IntN(limit))
			es[0].Withheld, es[1].Taken, es[2].Draining = r.IntN(2) == 0, r.IntN(limit), r.IntN(3) == 0
			p.SetEndpoints(es[r.IntN(2):])
		case 1:
			p.SetUsable(id, r.IntN(3) > 0)
		case 2:
			p.MarkFull(id, time.Now().Add(time.Duration(r.IntN(2000))*time.Microsecond))
		case 3:
			c.Limit, c.Discipline = r.IntN(30), permits.Discipline(r.IntN(2))
			c.MaxShare = float64(r.IntN(4)+1) / 4
			p.Configure(c)
		case 4:
			_, _, _ = p.Stats(), p.Load(), p.DetailedStats(3)
		case 5:
			p.Resize(id, r.IntN(limit+1))
		case 6:
			p.SetHome(r.IntN(3) > 0)
		case 7:
			p.RefuseStandIns()
		case 8:
			c.Fence.Renew()
		}
	}
}

package permits_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"colonnade/balance"
	"colonnade/internal/testkit"
	"colonnade/permits"
)

// pair drives a pool and the model through the same operations, in a bubble of synthetic time, and compares after each.
type pair struct {
	t     *testing.T
	pick  func(n int) int // the script: a number in [0, n)
	pool  *permits.Pool
	fence *permits.Fence
	m     *model
	open  []*call // not finished: waiting, or holding a permit
	tick  int     // makes all times different
	log   []string
}

// call is one request, on both sides.
type call struct {
	*modelRequest
	cancel context.CancelFunc
	done   <-chan result
	permit permits.Permit
}

func newPair(t *testing.T, pick func(n int) int) *pair {
	p := &pair{t: t, pick: pick, fence: permits.NewFence()}
	c := p.config()
	p.pool = permits.New(c)
	p.m = &model{c: c, now: time.Now(), held: map[string]int{}, running: map[string]int{}}
	p.note("New(%+v)", c)
	p.setEndpoints()
	return p
}

func (p *pair) note(format string, args ...any) { p.log = append(p.log, fmt.Sprintf(format, args...)) }

func (p *pair) fail(format string, args ...any) {
	p.t.Helper()
	for _, c := range p.open {
		c.cancel() // so that the bubble can end
	}
	p.t.Fatalf("after\n%q\n%s", p.log[max(0, len(p.log)-30):], fmt.Sprintf(format, args...))
}

// in returns a time so far away, and different from every other.
func (p *pair) in(steps int) time.Time {
	p.tick++
	return p.m.now.Add(time.Duration(steps)*10*time.Millisecond + time.Duration(p.tick))
}

func (p *pair) config() permits.Config {
	return permits.Config{
		Discipline: permits.FIFO,
		Balance:    balance.Config{Policy: balance.Policy(p.pick(2))},
		Limit:      []int{6, 2, 20, 0}[p.pick(4)],
		PerAccount: []int{3, 20, 1}[p.pick(3)],
		Bytes:      1,
		MaxShare:   []float64{1, 1, 0.5}[p.pick(3)],
		MaxWait:    time.Hour,
		Fence:      p.fence,
	}
}

func (p *pair) step() {
	p.in(0)
	switch op := p.pick(24); {
	case op < 8:
		p.acquire()
	case op < 13 && len(p.open) > 0:
		p.end(p.open[p.pick(len(p.open))])
	case op < 16:
		d := p.in(p.pick(4)).Sub(p.m.now)
		p.note("advance %v", d)
		p.m.advance(d)
		time.Sleep(d)
	case op == 16:
		p.setEndpoints()
	case op == 17:
		p.setUsable()
	case op == 18:
		p.markFull()
	case op == 19 && p.pick(3) == 0:
		c := p.config()
		p.note("Configure(%+v)", c)
		p.m.c = c
		p.m.dispatch()
		p.pool.Configure(c)
	case op == 20:
		p.resize()
	case op == 21:
		p.setHome()
	case op == 22:
		p.note("RefuseStandIns")
		p.m.move(func(q *modelRequest) bool { return q.standIn })
		p.pool.RefuseStandIns()
	case op == 23:
		p.note("Renew")
		p.m.epoch++
		p.fence.Renew()
	}
	p.compare()
}

func (p *pair) request() permits.Request {
	account := p.pick(4)
	r := permits.Request{
		Account:     string(rune('a' + account)),
		Band:        permits.Band(p.pick(3)),
		Concurrent:  []int{0, 0, 2, 1}[account],
		MaxExpected: -1,
		Arrived:     p.in(0),
		MaxWait:     time.Hour,
	}
	if p.pick(8) == 0 {
		r.Rejoin = true
		r.Arrived = p.in(-1 - p.pick(10))
	}
	r.StandIn = p.pick(3) == 0
	for i := range p.pick(6) / 3 {
		r.Avoid = append(r.Avoid, fmt.Sprint("e", (i+p.pick(3))%4))
	}
	if p.m.completions >= 16 {
		return r // from here on the expected wait counts too, and the model knows nothing of that
	}
	switch p.pick(4) {
	case 0:
		r.MaxWait = p.in(p.pick(3)).Sub(p.m.now)
	case 1:
		r.Deadline = p.in(p.pick(4) - 1)
	case 2:
		r.MaxWait = 0
	}
	return r
}

func (p *pair) acquire() {
	r := p.request()
	p.note("Acquire(%+v)", r)
	ctx, cancel := context.WithCancel(context.Background())
	c := &call{modelRequest: &modelRequest{Request: r}, cancel: cancel}
	p.m.acquire(c.modelRequest)
	c.done = start(ctx, p.pool, r)
	p.open = append(p.open, c)
}

// end releases a permit, or has a waiter leave.
func (p *pair) end(c *call) {
	if c.endpoint == "" {
		p.note("cancel %s", c.Account)
		p.m.cancel(c.modelRequest)
		c.cancel()
		return
	}
	p.note("Release %s of %s", c.endpoint, c.Account)
	p.m.release(c.modelRequest)
	p.open = slices.DeleteFunc(p.open, func(other *call) bool { return other == c })
	c.permit.Release()
	c.cancel()
}

func (p *pair) setEndpoints() {
	var es []permits.Endpoint
	for i := range 4 {
		if p.pick(4) > 0 {
			e := permits.Endpoint{ID: fmt.Sprint("e", i), Concurrency: p.pick(4), Weight: p.pick(3)}
			if p.pick(4) == 0 {
				e.Taken = p.pick(5)
			}
			e.Withheld, e.Draining = p.pick(3) == 0, p.pick(5) == 0
			es = append(es, e)
		}
	}
	p.note("SetEndpoints(%+v)", es)
	p.m.setEndpoints(es)
	p.pool.SetEndpoints(es)
}

func (p *pair) resize() {
	id, n := fmt.Sprint("e", p.pick(4)), p.pick(6)
	p.note("Resize(%s, %d)", id, n)
	p.m.resize(id, n)
	p.pool.Resize(id, n)
}

func (p *pair) setHome() {
	home := p.pick(3) > 0
	p.note("SetHome(%v)", home)
	p.m.setHome(home)
	p.pool.SetHome(home)
}

func (p *pair) setUsable() {
	id, usable := fmt.Sprint("e", p.pick(4)), p.pick(2) == 0
	p.note("SetUsable(%s, %v)", id, usable)
	for _, e := range p.m.order {
		if e.ID == id && e.usable != usable {
			e.usable = usable
			p.m.adjust()
		}
	}
	p.pool.SetUsable(id, usable)
}

func (p *pair) markFull() {
	id, until := fmt.Sprint("e", p.pick(4)), p.in(p.pick(5)-1)
	p.note("MarkFull(%s, %v)", id, until.Sub(p.m.now))
	for _, e := range p.m.order {
		if e.ID == id && until.After(e.fullUntil) {
			e.fullUntil = until
		}
	}
	p.pool.MarkFull(id, until)
}

func (p *pair) compare() {
	synctest.Wait()
	if err := p.pool.Check(); err != nil {
		p.fail("%v", err)
	}
	load := p.pool.Load()
	load.Expected, load.Known = 0, false
	if want := p.m.load(); load != want {
		p.fail("load is %+v, want %+v", load, want)
	}
	named := []int{0, 1, 2, 100}[p.pick(4)]
	s := p.pool.DetailedStats(named)
	if want := p.m.standIns(); s.StandIns != want || p.pool.StandIns() != want {
		p.fail("%d stand-ins, want %d", s.StandIns, want)
	}
	held := map[string]int{}
	p.pool.AddHeld(held)
	for _, e := range s.Endpoints {
		if held[e.URL] != e.Held {
			p.fail("%q holds %d by AddHeld, want %d", e.URL, held[e.URL], e.Held)
		}
		if e.Held != p.m.held[e.URL] {
			p.fail("%q holds %d, want %d", e.URL, e.Held, p.m.held[e.URL])
		}
	}
	if got, want := usersOf(s), p.m.users(named); got != want {
		p.fail("DetailedStats(%d) names %s, want %s", named, got, want)
	}
	p.open = slices.DeleteFunc(p.open, p.settled)
}

// usersOf writes the accounts that a pool names, and how many others there are.
func usersOf(s permits.Stats) string {
	var names []string
	for _, a := range s.Accounts {
		names = append(names, fmt.Sprintf("%s: %d+%d", a.Account, a.Held, a.Queued))
	}
	return fmt.Sprint(names, s.OtherAccounts)
}

// settled compares how a call stands, and says whether it is over.
func (p *pair) settled(c *call) bool {
	select {
	case r := <-c.done:
		c.permit = r.permit
		var refusal *permits.Refusal
		switch {
		case r.err == nil && c.endpoint == r.permit.Endpoint():
			if r.permit.Held() != c.held {
				p.fail("%+v: granted as the %dth, want %d", c.Request, r.permit.Held(), c.held)
			}
			if r.permit.Epoch() != c.epoch {
				p.fail("%+v: granted in epoch %d, want %d", c.Request, r.permit.Epoch(), c.epoch)
			}
			return false
		case errors.As(r.err, &refusal) && c.reason == refusal.Reason, errors.Is(r.err, context.Canceled) && c.gone:
			if refusal != nil && refusal.Waited != c.waited {
				p.fail("%+v: refused, had waited: %v", c.Request, refusal.Waited)
			}
			c.cancel()
			return true
		}
		p.fail("%+v: got %q, %v; want %q, %q, gone: %v",
			c.Request, r.permit.Endpoint(), r.err, c.endpoint, c.reason, c.gone)
	default:
		if c.endpoint != "" && c.permit == (permits.Permit{}) || c.reason != "" || c.gone {
			p.fail("%+v: waits; want %q, %q, gone: %v", c.Request, c.endpoint, c.reason, c.gone)
		}
	}
	return false
}

func (p *pair) finish() {
	if p.pick(2) == 0 {
		p.note("CloseQueue")
		p.m.closeQueue()
		p.pool.CloseQueue()
		p.compare()
		for range p.pick(20) {
			p.step()
		}
	}
	if p.pick(2) == 0 {
		p.note("Drain")
		p.m.drain()
		p.pool.Drain()
		p.compare()
	}
	for len(p.open) > 0 {
		p.end(p.open[0])
		p.compare()
	}
	if load := p.pool.Load(); load.Held != 0 || load.Queued != 0 {
		p.fail("in the end %+v", load)
	}
	time.Sleep(time.Hour) // timers of MarkFull
	p.m.now = time.Now()
	p.compare()
}

// TestAgainstModel runs random sequences of everything that can happen to a pool, on the pool and on the model: who is
// granted which endpoint and who is refused why, what is held and what is free, and every invariant, after each step.
func TestAgainstModel(t *testing.T) {
	for seed := range testkit.AtScale(300, 100_000) {
		r := rand.New(rand.NewPCG(uint64(seed), 4))
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, r.IntN)
			for range 100 {
				p.step()
			}
			p.finish()
		})
	}
}

func FuzzPool(f *testing.F) {
	for seed := range 4 {
		f.Add(testkit.RandomBytes(uint64(seed), 5, 300))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		at := 0
		pick := func(n int) int {
			at++
			if at > len(data) {
				return 0
			}
			return int(data[at-1]) % n
		}
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, pick)
			for steps := 0; at < len(data) && steps < 300; steps++ {
				p.step()
			}
			p.finish()
		})
	})
}

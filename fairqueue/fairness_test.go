package fairqueue_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"colonnade/fairqueue"
)

var roomy = fairqueue.Config{Limit: 1 << 20, PerAccount: 1 << 20, Bytes: 1 << 40}

// client is one account's behaviour in a scenario, and what is expected of it.
type client struct {
	claim   fairqueue.Claim
	backlog int     // items waiting whenever a slot is free; 0: see every
	every   int     // without a backlog: one request after so many grants
	hold    int     // for how many grants of the pool one of its requests runs; 0: 1
	used    float64 // actual cost of a request; 0: the estimate

	share float64 // of all that is granted, expected
	wait  int     // the most that any of its requests may wait, in grants; 0: not checked
}

// scenario is a pool and its clients.
type scenario struct {
	config  fairqueue.Config
	slots   int
	grants  int
	clients []client
}

type outcome struct{ granted, longest []int }

// run plays the scenario: in each tick of one second, free slots are granted one by one.
func (s scenario) run(t *testing.T) outcome {
	t.Helper()
	q := fairqueue.New(s.config)
	out := outcome{make([]int, len(s.clients)), make([]int, len(s.clients))}
	type running struct {
		run   fairqueue.Running
		used  float64
		until int
	}
	var slots []running
	born := map[*fairqueue.Item]int{}
	for grants, tick := 0, 0; grants < s.grants; tick++ {
		now := time.Unix(int64(tick), 0)
		kept := slots[:0]
		for _, r := range slots {
			if r.until > tick {
				kept = append(kept, r)
				continue
			}
			q.Finish(&r.run, r.used)
		}
		slots = kept
		for len(slots) < max(1, s.slots) {
			s.fill(q, born, grants, now)
			it, run := q.Next(now, nil)
			if it == nil {
				break
			}
			i := it.Value.(int)
			out.granted[i]++
			out.longest[i] = max(out.longest[i], grants-born[it])
			delete(born, it)
			grants++
			used := -1.0
			if s.clients[i].used > 0 {
				used = s.clients[i].used
			}
			slots = append(slots, running{run, used, tick + max(1, s.clients[i].hold)})
		}
	}
	if err := q.Check(); err != nil {
		t.Error(err)
	}
	return out
}

// fill brings every client's backlog up to its length.
func (s scenario) fill(q *fairqueue.Queue, born map[*fairqueue.Item]int, grants int, now time.Time) {
	for i, c := range s.clients {
		want := c.backlog
		if c.every > 0 && grants%c.every == i%c.every {
			want = 1
		}
		for q.LenOf(c.claim.Account) < want {
			it := &fairqueue.Item{Claim: c.claim, Arrived: now, Value: i}
			if _, err := q.Push(it); err != nil {
				return
			}
			born[it] = grants
		}
	}
}

func (s scenario) expect(t *testing.T) {
	t.Helper()
	out := s.run(t)
	total := 0
	for _, n := range out.granted {
		total += n
	}
	for i, c := range s.clients {
		got := float64(out.granted[i]) / float64(total)
		if math.Abs(got-c.share) > 0.01+0.02*c.share {
			t.Errorf("%q got %.4f of the grants, expected %.4f", c.claim.Account, got, c.share)
		}
		if c.wait > 0 && out.longest[i] > c.wait {
			t.Errorf("%q: a request waited for %d grants, at most %d expected", c.claim.Account, out.longest[i], c.wait)
		}
	}
}

func account(name string) fairqueue.Claim { return fairqueue.Claim{Account: name} }

func start(q *fairqueue.Queue, c fairqueue.Claim) (run fairqueue.Running, ok bool) {
	ok = q.Start(&run, &c)
	return run, ok
}

func TestFloodTakesOnlyItsShare(t *testing.T) {
	scenario{config: roomy, slots: 4, grants: 10_000, clients: []client{
		{claim: account("flooder"), backlog: 1000, share: 0.5},
		{claim: account("other"), backlog: 10, share: 0.5},
	}}.expect(t)
}

// An account within its share is served next, whatever a flooder has waiting.
func TestAccountWithinItsShareIsServedNext(t *testing.T) {
	scenario{config: roomy, slots: 1, grants: 10_000, clients: []client{
		{claim: account("flooder"), backlog: 1000, share: 0.9},
		{claim: account("light"), every: 10, share: 0.1, wait: 1},
	}}.expect(t)
}

func TestWeights(t *testing.T) {
	scenario{config: roomy, slots: 3, grants: 10_000, clients: []client{
		{claim: fairqueue.Claim{Account: "one", Weight: 1}, backlog: 50, share: 0.25},
		{claim: fairqueue.Claim{Account: "three", Weight: 3}, backlog: 5, share: 0.75},
	}}.expect(t)
}

// An account with costs a hundred times as large is served a hundredth as often.
func TestCosts(t *testing.T) {
	scenario{config: roomy, slots: 2, grants: 20_200, clients: []client{
		{claim: fairqueue.Claim{Account: "large", Cost: 100}, backlog: 100, share: 1.0 / 101},
		{claim: fairqueue.Claim{Account: "small", Cost: 1}, backlog: 10, share: 100.0 / 101},
	}}.expect(t)
}

// Actual costs count, and not estimates.
func TestEstimatesAreCorrected(t *testing.T) {
	scenario{config: roomy, slots: 2, grants: 11_000, clients: []client{
		{claim: account("modest"), used: 10, backlog: 100, share: 1.0 / 11},
		{claim: account("honest"), used: 1, backlog: 100, share: 10.0 / 11},
	}}.expect(t)
}

func TestBandsAreStrict(t *testing.T) {
	scenario{config: roomy, slots: 2, grants: 5000, clients: []client{
		{claim: fairqueue.Claim{Account: "batch", Band: fairqueue.Batch}, backlog: 100, share: 0},
		{claim: fairqueue.Claim{Account: "interactive", Band: fairqueue.Interactive}, backlog: 2, share: 1},
	}}.expect(t)
}

func TestEveryEighthGrantPromotes(t *testing.T) {
	config := roomy
	config.PromoteAfter = 5 * time.Second
	scenario{config: config, slots: 2, grants: 8000, clients: []client{
		{claim: fairqueue.Claim{Account: "batch", Band: fairqueue.Batch}, backlog: 100, share: 0.125},
		{claim: fairqueue.Claim{Account: "interactive", Band: fairqueue.Interactive}, backlog: 2, share: 0.875},
	}}.expect(t)
}

// A band is promoted, and not the account with the oldest item: otherwise a flooder among a hundred accounts would get an
// eighth of all grants, twelve times its share.
func TestPromotionIsNotForFlooders(t *testing.T) {
	config := roomy
	config.PromoteAfter = 5 * time.Second
	s := scenario{config: config, slots: 4, grants: 20_000, clients: []client{
		{claim: account("flooder"), backlog: 1000, share: 0.01},
	}}
	for i := range 99 {
		s.clients = append(s.clients, client{claim: account(fmt.Sprint(i)), backlog: 1, share: 0.01})
	}
	out := s.run(t)
	for i, n := range out.granted {
		if n < 190 || n > 210 {
			t.Errorf("%q got %d of 20000, fair is 200", s.clients[i].claim.Account, n)
		}
	}
}

func TestFIFOIsByArrival(t *testing.T) {
	config := roomy
	config.Discipline = fairqueue.FIFO
	scenario{config: config, slots: 2, grants: 11_000, clients: []client{
		{claim: account("ten"), backlog: 10, share: 10.0 / 11},
		{claim: account("one"), backlog: 1, share: 1.0 / 11},
	}}.expect(t)
}

// Of four slots, an account with a cap of one gets a quarter, and the others share the rest.
func TestOwnCap(t *testing.T) {
	scenario{config: roomy, slots: 4, grants: 8000, clients: []client{
		{claim: fairqueue.Claim{Account: "capped", Concurrent: 1}, backlog: 100, share: 0.25},
		{claim: account("free"), backlog: 100, share: 0.75},
	}}.expect(t)
}

func TestMaxShare(t *testing.T) {
	config := roomy
	config.MaxShare, config.Slots = 0.25, 8
	scenario{config: config, slots: 8, grants: 8000, clients: []client{
		{claim: fairqueue.Claim{Account: "heavy", Weight: 100}, backlog: 100, share: 0.25},
		{claim: account("b"), backlog: 100, share: 0.25},
		{claim: account("c"), backlog: 100, share: 0.25},
		{claim: account("d"), backlog: 100, share: 0.25},
	}}.expect(t)
}

// An account that was held back by its cap has no claim to more later.
func TestCapEarnsNoCredit(t *testing.T) {
	q := fairqueue.New(roomy)
	first, _ := start(q, fairqueue.Claim{Account: "capped", Concurrent: 1})
	for range 50 {
		push(t, q, fairqueue.Claim{Account: "capped", Concurrent: 1}, 0)
		push(t, q, account("other"), 0)
	}
	for range 40 {
		wantNext(t, q, 0, "other")
	}
	q.Finish(&first, -1)
	push(t, q, account("capped"), 0) // without a cap, and with 51 waiting
	counts := map[string]int{}
	for range 20 {
		it, run := q.Next(time.Time{}, nil)
		q.Finish(&run, -1)
		counts[it.Account]++
	}
	if counts["capped"] > 11 {
		t.Errorf("of 20 turns %v, want 10 each, or 11 and 9", counts)
	}
}

// An account has no claim for the time that it was away.
func TestAbsenceEarnsNoCredit(t *testing.T) {
	q := fairqueue.New(roomy)
	for range 300 {
		push(t, q, account("steady"), 0)
	}
	for range 100 {
		wantNext(t, q, 0, "steady")
	}
	for range 100 {
		push(t, q, account("back"), 1)
	}
	counts := map[string]int{}
	for range 100 {
		it, _ := q.Next(time.Unix(2, 0), nil)
		counts[it.Account]++
	}
	if counts["steady"] != 50 || counts["back"] != 50 {
		t.Errorf("of 100 turns %v, want 50 each", counts)
	}
}

// An account that leaves with S ahead of V and comes back at once is still ahead, though accounts are forgotten while others
// come and go.
func TestLeavingDoesNotClearTheAccount(t *testing.T) {
	q := fairqueue.New(roomy)
	keep, _ := start(q, account("other")) // the band stays busy
	debt, _ := start(q, account("spender"))
	q.Finish(&debt, 100)
	for i := range 1000 {
		it := push(t, q, account(fmt.Sprint("passing", i)), 0)
		q.Remove(it)
	}
	push(t, q, account("spender"), 1)
	for range 20 {
		push(t, q, account("other"), 2)
	}
	for range 20 {
		wantNext(t, q, 2, "other")
	}
	wantNext(t, q, 2, "spender")
	q.Finish(&keep, -1)
}

// After a busy period no account is ahead: all start at the same virtual time.
func TestIdleBandClearsLeads(t *testing.T) {
	q := fairqueue.New(roomy)
	run, _ := start(q, account("spender"))
	q.Finish(&run, 1000)
	push(t, q, account("spender"), 0)
	push(t, q, account("other"), 1)
	wantNext(t, q, 1, "spender")
}

// The bound of the package comment holds over every interval of random runs, in which slots and other accounts come and go,
// and two accounts are always backlogged.
func TestUnfairnessBound(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		f := fairqueue.Claim{Account: "f", Weight: float64(1 + r.IntN(5)), Cost: float64(1 + r.IntN(20))}
		g := fairqueue.Claim{Account: "g", Weight: float64(1 + r.IntN(5)), Cost: float64(1 + r.IntN(20))}
		spread := spreadOf(t, r, f, g)
		if bound := f.Cost/f.Weight + g.Cost/g.Weight; spread > bound+1e-9 {
			t.Fatalf("seed %d: %v and %v came apart by %v, bound %v", seed, f, g, spread, bound)
		}
	}
}

// spreadOf returns the largest |W(f)/weight(f) - W(g)/weight(g)| over all intervals of a run of 500 grants.
func spreadOf(t *testing.T, r *rand.Rand, f, g fairqueue.Claim) float64 {
	q := fairqueue.New(roomy)
	var running []fairqueue.Running
	ahead, least, most := 0.0, 0.0, 0.0
	for range 500 {
		for _, c := range []fairqueue.Claim{f, g} {
			for q.LenOf(c.Account) < 2 {
				push(t, q, c, 0)
			}
		}
		if r.IntN(2) == 0 {
			push(t, q, fairqueue.Claim{Account: fmt.Sprint(r.IntN(8)), Cost: float64(1 + r.IntN(30))}, 0)
		}
		for len(running) > 0 && r.IntN(3) > 0 {
			q.Finish(&running[0], -1)
			running = running[1:]
		}
		it, run := q.Next(time.Time{}, nil)
		running = append(running, run)
		switch it.Account {
		case "f":
			ahead += f.Cost / f.Weight
		case "g":
			ahead -= g.Cost / g.Weight
		}
		least, most = min(least, ahead), max(most, ahead)
	}
	return most - least
}

func push(t *testing.T, q *fairqueue.Queue, c fairqueue.Claim, second int64) *fairqueue.Item {
	t.Helper()
	it := &fairqueue.Item{Claim: c, Arrived: time.Unix(second, 0), Value: 0}
	if victims, err := q.Push(it); err != nil || len(victims) > 0 {
		t.Fatalf("Push(%v): %d victims, %v", c, len(victims), err)
	}
	return it
}

func wantNext(t *testing.T, q *fairqueue.Queue, second int64, account string) fairqueue.Running {
	t.Helper()
	it, run := q.Next(time.Unix(second, 0), nil)
	if it == nil || it.Account != account {
		t.Fatalf("Next: got %v, want one of %q", it, account)
	}
	return run
}

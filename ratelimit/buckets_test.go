package ratelimit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"colonnade/ratelimit"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func rate(limit, amount float64) []ratelimit.Demand {
	return []ratelimit.Demand{{Key: "k", Limit: limit, Amount: amount}}
}

// A full bucket holds one minute's worth, refills evenly, and says honestly when there is room.
func TestBucket(t *testing.T) {
	t.Parallel()
	b := ratelimit.NewBuckets(nil)
	for n := range 60 {
		l := b.Take(rate(60, 1), 1, start)[0]
		if l.Wait != 0 || math.Abs(l.Remaining-float64(59-n)) > 1e-6 || l.Reset != time.Duration(n+1)*time.Second || l.Taken != 1 {
			t.Fatalf("request %d: %+v", n, l)
		}
	}
	refused := b.Take(rate(60, 1), 1, start)[0]
	if refused.Wait != time.Second || refused.Taken != 0 || refused.Remaining != 0 {
		t.Errorf("the 61st: %+v", refused)
	}
	if l := b.Take(rate(60, 1), 1, start.Add(refused.Wait-1))[0]; l.Wait != 1 {
		t.Errorf("too early: %+v", l)
	}
	if l := b.Take(rate(60, 1), 1, start.Add(refused.Wait))[0]; l.Wait != 0 {
		t.Errorf("after the wait: %+v", l)
	}
}

// Nothing is taken of any limit unless all have room.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	b := ratelimit.NewBuckets(nil)
	both := []ratelimit.Demand{{Key: "wide", Limit: 100, Amount: 1}, {Key: "narrow", Limit: 1, Amount: 1}}
	if !ratelimit.Allowed(b.Take(both, 1, start)) || ratelimit.Allowed(b.Take(both, 1, start)) {
		t.Fatal("the narrow limit allows one request")
	}
	if l := b.Take(both[:1], 1, start)[0]; math.Abs(l.Remaining-98) > 1e-6 {
		t.Errorf("the refused request has taken from the wide limit: %+v", l)
	}
}

// A demand larger than the bucket takes a full one, and the rest is taken by Settle; what is returned can be used again.
func TestSettle(t *testing.T) {
	t.Parallel()
	b := ratelimit.NewBuckets(nil)
	if l := b.Take(rate(100, 1000), 1, start)[0]; l.Wait != 0 || l.Taken != 100 {
		t.Fatalf("a large demand: %+v", l)
	}
	b.Settle(rate(100, 50), 1, start)
	if l := b.Take(rate(100, 1), 1, start)[0]; l.Wait.Round(time.Millisecond) != 30*time.Second+600*time.Millisecond {
		t.Errorf("overdrawn by 50: %+v", l)
	}
	b.Settle(rate(100, -150), 1, start)
	if l := b.Take(rate(100, 100), 1, start)[0]; l.Wait != 0 {
		t.Errorf("all was returned: %+v", l)
	}
	b.Settle(rate(100, -1e9), 1, start)
	if l := b.Take(rate(100, 1), 1, start)[0]; math.Abs(l.Remaining-99) > 1e-6 {
		t.Errorf("more was returned than taken: %+v", l)
	}
}

// In no window is more taken than the limit, and what flows in during the window: of one bucket, and of the shares of several nodes,
// whenever these replace the common bucket.
func TestNeverAboveTheBound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit, nodes := float64(1+r.IntN(100)), 1+r.IntN(3)
		common, shares := ratelimit.NewBuckets(nil), []*ratelimit.Buckets{}
		for range nodes {
			shares = append(shares, ratelimit.NewBuckets(nil))
		}
		now, alone := start, false
		var taken []time.Time
		for range 2000 {
			now = now.Add(time.Duration(r.ExpFloat64() * float64(time.Minute) / limit / float64(1+r.IntN(4))))
			if !alone && r.IntN(500) == 0 {
				alone = true
				for _, b := range shares {
					b.Restart(now)
				}
			}
			b, share := common, 1.0
			if alone {
				b, share = shares[r.IntN(nodes)], 1/float64(nodes)
			}
			if ratelimit.Allowed(b.Take(rate(limit, 1), share, now)) {
				taken = append(taken, now)
			}
		}
		atLeastOne := float64(nodes) // a share may be less than one unit, and holds one
		for i := range taken {
			for j := i; j < len(taken); j++ {
				window := taken[j].Sub(taken[i]).Minutes()
				if n := float64(j - i + 1); n > limit*(1+window)+atLeastOne+0.01 {
					t.Fatalf("seed %d, limit %v, %d nodes: %v in %v minutes", seed, limit, nodes, n, window)
				}
			}
		}
		if len(taken) < 100 {
			t.Fatalf("seed %d: only %d were taken", seed, len(taken))
		}
	}
}

// Two nodes with shares grant the same to equal clients, and together what the limit allows.
func TestSharesAreFair(t *testing.T) {
	t.Parallel()
	nodes := [2]*ratelimit.Buckets{ratelimit.NewBuckets(nil), ratelimit.NewBuckets(nil)}
	var taken [2]int
	for ms := range 10 * 60 * 1000 / 50 { // each node is asked 20 times a second, for ten minutes
		for i, b := range nodes {
			if ratelimit.Allowed(b.Take(rate(60, 1), 0.5, start.Add(time.Duration(ms)*50*time.Millisecond))) {
				taken[i]++
			}
		}
	}
	if taken[0] != taken[1] || taken[0] < 300 || taken[0] > 330 {
		t.Errorf("taken %v, want 300 to 330 of each", taken)
	}
}

// A budget allows requests until it is spent; each period begins anew.
func TestBudget(t *testing.T) {
	t.Parallel()
	b := ratelimit.NewBuckets(nil)
	day, ends := ratelimit.Day(start)
	demand := []ratelimit.Demand{{Key: "cost/" + day, Limit: 10, Ends: ends}}
	if !ratelimit.Allowed(b.Take(demand, 1, start)) {
		t.Fatal("nothing is spent yet")
	}
	demand[0].Amount = 10
	b.Settle(demand, 1, start)
	if l := b.Take(demand, 1, start)[0]; l.Wait != 12*time.Hour || l.Spent != 10 {
		t.Errorf("spent: %+v", l)
	}
	restored := ratelimit.NewBuckets(b.Spendings(start))
	if ratelimit.Allowed(restored.Take(demand, 1, start)) {
		t.Error("the sum was forgotten")
	}
	next, _ := ratelimit.Day(ends)
	if !ratelimit.Allowed(b.Take([]ratelimit.Demand{{Key: "cost/" + next, Limit: 10, Ends: ends.Add(24 * time.Hour)}}, 1, ends)) {
		t.Error("a new day has begun")
	}
	if open := b.Spendings(ends); len(open) != 0 {
		t.Errorf("the day is over: %v", open)
	}
}

// A node that knows what all have spent enforces its share of the rest.
func TestShareOfBudget(t *testing.T) {
	t.Parallel()
	b := ratelimit.NewBuckets(nil)
	_, ends := ratelimit.Month(start)
	demand := []ratelimit.Demand{{Key: "cost", Limit: 10, Amount: 2, Ends: ends}}
	b.NoteCommon(&demand[0], 6)
	if !ratelimit.Allowed(b.Take(demand, 0.5, start)) {
		t.Error("4 are left, 2 for this node")
	}
	b.Settle(demand, 0.5, start)
	if ratelimit.Allowed(b.Take(demand, 0.5, start)) {
		t.Error("this node has spent its 2")
	}
}

// Days and months are those of UTC.
func TestPeriods(t *testing.T) {
	t.Parallel()
	f := func(at, day, dayEnds, month, monthEnds string) {
		t.Helper()
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		d, de := ratelimit.Day(now)
		m, me := ratelimit.Month(now)
		if got := fmt.Sprint(d, de.Format(time.DateTime), m, me.Format(time.DateTime)); got != fmt.Sprint(day, dayEnds, month, monthEnds) {
			t.Errorf("%s: got %s", at, got)
		}
	}
	f("2026-12-31T23:59:59Z", "2026-12-31", "2027-01-01 00:00:00", "2026-12", "2027-01-01 00:00:00")
	f("2026-03-01T00:30:00+02:00", "2026-02-28", "2026-03-01 00:00:00", "2026-02", "2026-03-01 00:00:00")
}

// Buckets that are full again take no memory.
func TestFullBucketsAreForgotten(t *testing.T) {
	t.Parallel()
	b := ratelimit.NewBuckets(nil)
	for n := range 5000 {
		b.Take([]ratelimit.Demand{{Key: fmt.Sprint(n), Limit: 60, Amount: 1}}, 1, start.Add(time.Duration(n)*time.Second))
	}
	if n := b.Len(); n > 2048 {
		t.Errorf("%d are kept", n)
	}
}

func BenchmarkTake(b *testing.B) {
	b.ReportAllocs()
	buckets, now := ratelimit.NewBuckets(nil), start
	demands := []ratelimit.Demand{{Key: "requests", Limit: 1e9, Amount: 1}, {Key: "tokens", Limit: 1e12, Amount: 1000}}
	for b.Loop() {
		now = now.Add(time.Microsecond)
		buckets.Take(demands, 1, now)
	}
}

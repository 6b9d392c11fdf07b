package fairqueue_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"colonnade/fairqueue"
)

// Extreme weights and costs leave the order strict and the sums finite.
func TestExtremeNumbers(t *testing.T) {
	odd := []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, 1e-300, 3}
	q := fairqueue.New(roomy)
	pushed := 0
	for i, weight := range odd {
		for _, cost := range odd {
			c := fairqueue.Claim{Account: fmt.Sprint(i), Weight: weight, Cost: cost, Band: 200, Concurrent: -1}
			if _, err := q.Push(&fairqueue.Item{Claim: c, Bytes: -5}); err != nil {
				t.Fatal(err)
			}
			pushed++
			if ahead := q.Ahead(c); math.IsNaN(ahead) || ahead > float64(pushed) {
				t.Errorf("Ahead(%v) is %v with %d waiting", c, ahead, pushed)
			}
		}
	}
	for i := range pushed {
		it, run := q.Next(time.Time{}, nil)
		if it == nil {
			t.Fatalf("nothing left after %d of %d", i, pushed)
		}
		q.Finish(&run, odd[i%len(odd)])
		if err := q.Check(); err != nil {
			t.Fatal(err)
		}
	}
	if q.Bytes() != 0 {
		t.Errorf("%d bytes are left", q.Bytes())
	}
}

// Rounding errors of sums do not accumulate: an empty band starts from 0.
func TestRoundingErrorsDoNotAccumulate(t *testing.T) {
	q := fairqueue.New(roomy)
	large, tiny := fairqueue.Claim{Account: "large", Cost: 1e9}, fairqueue.Claim{Account: "tiny", Cost: 1e-3}
	for range 20_000 {
		a, b := push(t, q, large, 0), push(t, q, tiny, 0)
		q.Remove(a)
		q.Remove(b)
	}
	push(t, q, tiny, 0)
	for range 10 {
		push(t, q, fairqueue.Claim{Account: "other", Cost: 1e-3}, 0)
	}
	if got := q.Ahead(tiny); math.Abs(got-3) > 1e-6 {
		t.Errorf("Ahead is %v, want 3: its own, the first of the other, and one more", got)
	}
}

func TestMaxShareOfSlots(t *testing.T) {
	f := func(share float64, slots, want int) {
		t.Helper()
		config := roomy
		config.MaxShare, config.Slots = share, slots
		q := fairqueue.New(config)
		for i := range slots + 1 {
			if _, ok := start(q, account("a")); !ok {
				if i != want {
					t.Errorf("%v of %d slots: the account runs %d at once, want %d", share, slots, i, want)
				}
				return
			}
		}
		if want <= slots {
			t.Errorf("%v of %d slots: no cap, want %d", share, slots, want)
		}
	}
	f(0.29, 100, 29)
	f(0.7, 10, 7)
	f(0.5, 7, 3)
	f(0.01, 10, 1)
	f(0, 10, 11)
	f(1, 10, 11)
	f(2, 10, 11)
}

package bench

import (
	"math"
	"net/http"
	"testing"
	"time"
)

func TestJain(t *testing.T) {
	f := func(got []float64, want float64) {
		t.Helper()
		if j := jainIndex(got); math.Abs(j-want) > 1e-9 {
			t.Errorf("jain(%v) = %v, want %v", got, j, want)
		}
	}
	f([]float64{3, 3, 3, 3}, 1)
	f([]float64{5, 0, 0, 0}, 0.25)
	f([]float64{1, 2, 3}, 36.0/42)
	if j := jainIndex(nil); !math.IsNaN(j) {
		t.Errorf("jain of nothing = %v", j)
	}
}

func TestQuantile(t *testing.T) {
	f := func(x []float64, q, want float64) {
		t.Helper()
		if got := quantile(x, q); got != want {
			t.Errorf("quantile(%v, %v) = %v, want %v", x, q, got, want)
		}
	}
	f([]float64{7}, 0.99, 7)
	f([]float64{4, 1, 3, 2}, 0.5, 2)
	f([]float64{4, 1, 3, 2}, 0.51, 3)
	f([]float64{4, 1, 3, 2}, 0.99, 4)
	f([]float64{4, 1, 3, 2}, 0, 1)
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	f(hundred, 0.99, 99)
	f(hundred, 1, 100)
	if got := quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("quantile of nothing = %v", got)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f := func(want time.Duration, headers ...string) {
		t.Helper()
		h := http.Header{}
		for i := 0; i < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		if got := retryAfter(h, now); got != want {
			t.Errorf("%q: %v, want %v", headers, got, want)
		}
	}
	f(-1)
	f(3*time.Second, "Retry-After", "3")
	f(0, "Retry-After", "0")
	f(1250*time.Millisecond, "Retry-After", "2", "Retry-After-Ms", "1250")
	f(2*time.Second, "Retry-After", "2", "Retry-After-Ms", "soon")
	f(5*time.Second, "Retry-After", "Sat, 21 Nov 2026 12:00:05 GMT")
	f(0, "Retry-After", "Sat, 21 Nov 2026 11:00:05 GMT")
	f(-1, "Retry-After", "later")
	f(-1, "Retry-After", "-3")
}

// Two slots; jobs hold them from 0 to 10 and from 5 to 20, then from 12 to 30.
func TestNextSlot(t *testing.T) {
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	r := &result{
		slots: 2, trial: &trial{flows: []flow{{account: "a"}}},
		jobs: []job{{id: 1, held: interval{at(0), at(10)}}, {id: 2, held: interval{at(5), at(20)}},
			{id: 3, held: interval{at(12), at(30)}}},
		// The third was under way when the first left its slot, since 8.
		samples: [][]sample{{{id: 1, sent: at(0)}}, {{id: 2, sent: at(5)}}, {{id: 3, sent: at(8)}},
			{{id: 4, sent: at(11)}}},
	}
	r.prepare()
	n := r.slotTimeline()
	f := func(asked, want int) {
		t.Helper()
		if got := n.firstFree(4, at(asked), exemptions{}); got != at(want) {
			t.Errorf("asked at %d: the next slot is at %v, want %d", asked, got, want)
		}
	}
	f(1, 1)   // one is free
	f(6, 10)  // both are taken
	f(11, 20) // one is free, but is given to the third, which is under way
	f(15, 20)
	f(25, 25)
	f(40, 40)
	if got := n.firstFree(4, at(6), exemptions{peers: map[uint64]bool{3: true}}); got != at(20) {
		t.Errorf("behind the third, which is as quiet: %v, want 20ms", got)
	}
	if got := n.firstFree(4, at(11), exemptions{peers: map[uint64]bool{3: true}}); got != at(20) {
		t.Errorf("behind the third, which had its slot before: %v, want 20ms", got)
	}
	if got := n.firstFree(4, at(9), exemptions{transit: at(2)}); got != at(20) {
		t.Errorf("on its way when one freed: %v, want 20ms", got)
	}
	if got := n.firstFree(4, at(4), exemptions{}); got != at(4) {
		t.Errorf("one is free: %v, want 4ms", got)
	}
	if got := n.firstFree(3, at(8), exemptions{}); got != at(10) {
		t.Errorf("the third: %v, want 10ms", got)
	}
	if got := n.firstFree(3, at(11), exemptions{}); got != at(11) {
		t.Errorf("the third does not stand in its own way: %v, want 11ms", got)
	}
}

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

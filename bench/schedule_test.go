package bench

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestPoissonGapsAreExponential(t *testing.T) {
	in := interval{time.Second, 11 * time.Second}
	due := poisson(newRand(1, 2), 500, in)
	if len(due) != 5000 || !slices.IsSorted(due) || due[0] < in.start || due[len(due)-1] >= in.end {
		t.Fatalf("%d arrivals from %v to %v", len(due), due[0], due[len(due)-1])
	}
	if !slices.Equal(due, poisson(newRand(1, 2), 500, in)) || slices.Equal(due, poisson(newRand(1, 3), 500, in)) {
		t.Error("the seed does not decide")
	}
	// Gaps are exponential: a share 1/e is longer than the mean, and their deviation is the mean.
	mean, longer, squares := 1.0/500, 0, 0.0
	for i := 1; i < len(due); i++ {
		gap := (due[i] - due[i-1]).Seconds()
		if gap > mean {
			longer++
		}
		squares += (gap - mean) * (gap - mean)
	}
	if part := float64(longer) / 5000; math.Abs(part-1/math.E) > 0.03 {
		t.Errorf("%v of all gaps are longer than the mean, want 0.37", part)
	}
	if deviation := math.Sqrt(squares/5000) / mean; math.Abs(deviation-1) > 0.1 {
		t.Errorf("gaps deviate by %v of the mean, want 1", deviation)
	}
	if due := poisson(newRand(1, 2), 0, in); len(due) != 0 {
		t.Errorf("at rate 0 %d arrive", len(due))
	}
}

func TestSteady(t *testing.T) {
	due := steady(newRand(1, 1), 10, interval{0, 20 * time.Second})
	if len(due) < 195 || len(due) > 205 {
		t.Errorf("%d arrivals, want 200", len(due))
	}
	for i := 1; i < len(due); i++ {
		if gap := due[i] - due[i-1]; gap < 80*time.Millisecond || gap > 120*time.Millisecond {
			t.Errorf("a gap of %v", gap)
		}
	}
	// On a busy machine, an account may have sent no request at all in the trial that sets the rate.
	if due := steady(newRand(1, 1), 0, interval{0, time.Second}); len(due) != 0 {
		t.Errorf("at rate 0 %d arrive", len(due))
	}
}

func TestVariedTokensHaveTheirMean(t *testing.T) {
	for _, tokens := range []int{1, 2, 5, 19, 500} {
		r, sum := newRand(3, 4), 0
		for range 4000 {
			n := variedTokens(r, tokens)
			if n < 1 || n < tokens/2 || n > tokens+tokens/2 {
				t.Fatalf("%d tokens with mean %d", n, tokens)
			}
			sum += n
		}
		if mean := float64(sum) / 4000; math.Abs(mean/float64(tokens)-1) > 0.03 {
			t.Errorf("%v tokens on the average, want %d", mean, tokens)
		}
	}
}

func TestArrivalsAreInOrder(t *testing.T) {
	all := mergeArrivals([]flow{{due: []time.Duration{1, 5}}, {due: []time.Duration{0, 5, 6}}})
	if want := []arrival{{0, 1}, {1, 0}, {5, 0}, {5, 1}, {6, 1}}; !slices.Equal(all, want) {
		t.Errorf("got %v, want %v", all, want)
	}
}

package hop_test

import (
	"math/rand/v2"
	"testing"

	"colonnade/forwarding/hop"
)

// Attempts stay within 1.2 × requests + 3 in any order of requests, failures and charges.
func TestBudgetBoundsAttempts(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		b := hop.NewRetryBudget()
		requests, attempts, inFlight := 0, 0, 0
		for range 5000 {
			switch random.IntN(4) {
			case 0:
				b.Begin()
				requests++
				attempts++
				inFlight++
			case 1:
				if inFlight > 0 {
					b.End()
					inFlight--
				}
			default: // a storm: twice as many failures as requests
				if inFlight > 0 && b.Take() {
					attempts++
				}
			}
			if float64(attempts) > 1.2*float64(requests)+3 {
				t.Fatalf("seed %d: %d attempts for %d requests", seed, attempts, requests)
			}
		}
	}
}

func TestBudgetIsNotHoarded(t *testing.T) {
	b := hop.NewRetryBudget()
	for range 10_000 { // quiet times
		b.Begin()
		b.End()
	}
	n := 0
	for b.Take() {
		n++
	}
	if n != 3 {
		t.Errorf("after quiet times, %d attempts could be taken at once, want 3", n)
	}
}

func TestBudgetGrowsWithWhatIsInFlight(t *testing.T) {
	b := hop.NewRetryBudget()
	for range 100 {
		b.Begin()
	}
	if got := b.Remaining(); got != 20 {
		t.Errorf("Remaining = %d with 100 in flight, want 20", got)
	}
	b.Charge(25)
	if b.Take() {
		t.Error("an attempt could be taken though others had used more than there was")
	}
}

package oracle

import (
	"slices"
	"testing"
	"time"
)

// Times of health pages count beyond twice those of the reference server.
func TestSlowMachineIsNoProblem(t *testing.T) {
	f := func(took, reference time.Duration, want int) {
		t.Helper()
		p := &prober{times: slices.Repeat([]time.Duration{took}, 100), referenceTimes: slices.Repeat([]time.Duration{reference}, 100)}
		if found := p.problems(time.Second); len(found) != want {
			t.Errorf("%v, where the reference takes %v: %q", took, reference, found)
		}
	}
	f(900*time.Millisecond, 0, 0)
	f(1100*time.Millisecond, 0, 1)
	f(1100*time.Millisecond, 500*time.Millisecond, 0)
	f(2100*time.Millisecond, 500*time.Millisecond, 1)
}

// The reference server is requested, and ends with the prober.
func TestReferenceIsRequested(t *testing.T) {
	p := startProber([]string{"http://127.0.0.1:1"})
	for requested := 0; requested == 0; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		requested = len(p.referenceTimes)
		p.mu.Unlock()
	}
	p.end()
	if err := p.request(t.Context(), p.reference.URL); err == nil {
		t.Error("the reference server still runs")
	}
}

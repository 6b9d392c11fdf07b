package oracle

import (
	"slices"
	"testing"
	"time"
)

// A page is as slow as it is beyond what the machine makes of a server that does nothing.
func TestMachineIsNoFault(t *testing.T) {
	f := func(took, slowness time.Duration, want int) {
		t.Helper()
		p := &prober{times: slices.Repeat([]time.Duration{took}, 100), slowness: slices.Repeat([]time.Duration{slowness}, 100)}
		if found := p.problems(time.Second); len(found) != want {
			t.Errorf("%v, where a bare server takes %v: %q", took, slowness, found)
		}
	}
	f(900*time.Millisecond, 0, 0)
	f(1100*time.Millisecond, 0, 1)
	f(1100*time.Millisecond, 500*time.Millisecond, 0)
	f(2100*time.Millisecond, 500*time.Millisecond, 1)
}

// The bare server is asked, and ends with the prober.
func TestMachineIsAsked(t *testing.T) {
	p := startProber([]string{"http://127.0.0.1:1"})
	for asked := 0; asked == 0; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		asked = len(p.slowness)
		p.mu.Unlock()
	}
	p.end()
	if err := p.ask(t.Context(), p.bare.URL); err == nil {
		t.Error("it goes on")
	}
}

package testkit

import (
	"testing"
	"time"
)

// Timeout bounds waits that measure nothing. It is far longer than any of them takes.
const Timeout = 2 * time.Minute

// WaitFor waits until a condition is true, and fails the test after Timeout.
func WaitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); pause(began) {
		if time.Since(began) > Timeout {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// Within fails the test unless a condition becomes true within mark, or ten times mark outside a soak.
func Within(t testing.TB, mark time.Duration, what string, done func() bool) {
	t.Helper()
	if !Soak() {
		mark *= 10
	}
	for began := time.Now(); !done(); pause(began) {
		if took := time.Since(began); took > mark {
			t.Fatalf("%s: not after %v, want it within %v", what, took, mark)
		}
	}
}

// pause is the time between two checks of a wait that has begun then. Most checks send a request to a node, which costs the processor time
// that the node needs: the longer a wait, the fewer of them it makes in a second. In a soak, whose marks are exact, there are many.
func pause(began time.Time) {
	if Soak() {
		time.Sleep(2 * time.Millisecond)
		return
	}
	time.Sleep(min(max(8*time.Millisecond, time.Since(began)/16), 100*time.Millisecond))
}

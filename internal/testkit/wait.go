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
	for end := time.Now().Add(Timeout); !done(); time.Sleep(pollInterval()) {
		if time.Now().After(end) {
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
	for began := time.Now(); !done(); time.Sleep(pollInterval()) {
		if took := time.Since(began); took > mark {
			t.Fatalf("%s: not after %v, want it within %v", what, took, mark)
		}
	}
}

// pollInterval returns the pause between two checks. Most checks send a request to a node, which costs the node time.
func pollInterval() time.Duration { return time.Duration(AtScale(8, 2)) * time.Millisecond }

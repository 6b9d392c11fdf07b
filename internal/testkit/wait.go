package testkit

import (
	"testing"
	"time"
)

// Timeout bounds a wait by which nothing is measured; it is far more than what is waited for takes.
const Timeout = time.Minute

// WaitFor fails the test unless a condition comes true.
func WaitFor(t testing.TB, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(Timeout); !done(); time.Sleep(lookAgain()) {
		if time.Now().After(end) {
			t.Fatalf("gave up waiting for %s", what)
		}
	}
}

// Within fails the test unless a condition comes true in so much time, or in ten times as much outside a soak.
func Within(t testing.TB, mark time.Duration, what string, done func() bool) {
	t.Helper()
	if !Soak() {
		mark *= 10
	}
	for began := time.Now(); !done(); time.Sleep(lookAgain()) {
		if took := time.Since(began); took > mark {
			t.Fatalf("%s: not after %v, want it within %v", what, took, mark)
		}
	}
}

// lookAgain is how long to wait before the next look. Most looks ask a node, which takes it from whoever is waited for.
func lookAgain() time.Duration { return time.Duration(AtScale(8, 2)) * time.Millisecond }

package entry

import (
	"testing"
	"time"
)

// reached is a reach and its clock.
type reached struct {
	t *testing.T
	reach
	now time.Time
}

func newReached(t *testing.T) *reached {
	return &reached{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// fail notes n attempts that found no server, a millisecond apart.
func (r *reached) fail(n int) {
	for range n {
		r.now = r.now.Add(time.Millisecond)
		r.failed(r.now, r.now, 0.5)
	}
}

// want expects whether the colo is unreached, and if it is, after how long a ping is due.
func (r *reached) want(when string, unreached bool, due time.Duration) {
	r.t.Helper()
	if r.unreached != unreached {
		r.t.Fatalf("%s: unreached is %v", when, r.unreached)
	}
	if !unreached {
		return
	}
	if got := r.until.Sub(r.now); got != due || r.pingDue(r.until.Add(-1)) || !r.pingDue(r.until) {
		r.t.Errorf("%s: a ping is due after %s, want %s", when, got, due)
	}
}

func TestUnreachedAfterThreeInARow(t *testing.T) {
	r := newReached(t)
	r.fail(2)
	r.want("after two", false, 0)
	r.answered(r.now)
	r.fail(2)
	r.want("after an answer between", false, 0)
	r.fail(1)
	r.want("after three", true, time.Second)
	first := r.until
	r.fail(9)
	if !r.until.Equal(first) {
		t.Errorf("further attempts delay the ping from %s to %s", first, r.until)
	}
	r.answered(r.now)
	r.want("after an answer", false, 0)
}

// Each ping that fails doubles the time until the next, and one that is answered, or a request, begins anew.
func TestPingsOfAnUnreachedColo(t *testing.T) {
	r := newReached(t)
	r.fail(3)
	for _, seconds := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		r.want("unreached", true, seconds*time.Second)
		r.now = r.until
		r.pingFailed(r.now, 0.5)
	}
	r.answered(r.now)
	r.want("answered", false, 0)
	r.pingFailed(r.now, 0.5) // that began before the answer
	r.want("after a ping that was too late", false, 0)
	r.fail(3)
	r.want("again", true, time.Second)
}

// The times of entries differ, and none is above 30 s.
func TestPingsAreJittered(t *testing.T) {
	for _, f := range []struct {
		pings  int
		random float64
		want   time.Duration
	}{{0, 0, 800 * time.Millisecond}, {0, 0.75, 1100 * time.Millisecond}, {3, 0, 6400 * time.Millisecond}, {5, 0, 25600 * time.Millisecond}, {5, 0.99, 30 * time.Second}, {1000, 0, 25600 * time.Millisecond}, {1000, 0.99, 30 * time.Second}} {
		r := newReached(t)
		r.unreached, r.pings = true, f.pings
		r.wait(r.now, f.random)
		if got := r.until.Sub(r.now); got.Round(time.Microsecond) != f.want {
			t.Errorf("after %d pings and with %v: %s, want %s", f.pings, f.random, got, f.want)
		}
	}
}

// Requests that were lost before the colo answered do not make it unreached again when they end.
func TestLateFailures(t *testing.T) {
	r := newReached(t)
	before := r.now
	r.now = r.now.Add(time.Second)
	r.answered(r.now)
	for range 9 {
		r.failed(before, r.now.Add(time.Second), 0.5)
	}
	r.want("after requests that began before the answer", false, 0)
	r.fail(3)
	r.want("after requests that began since", true, time.Second)
}

package etcd

import (
	"log/slog"
	"testing"
	"time"
)

// fenceTest is a leaseFence whose clock the test moves, in seconds. Its TTL is 10 s: a confirmation is valid for 9. After a
// lapse, the failures count of calls that begin 20 s later.
type fenceTest struct {
	*leaseFence
	t       *testing.T
	began   time.Time
	until   time.Time // the deadline that it reported
	alone   bool
	vouched time.Time
}

func newFenceTest(t *testing.T) *fenceTest {
	f := &fenceTest{t: t, began: time.Now()}
	f.leaseFence = newLeaseFence(Registration{TTL: 10 * time.Second, Logger: slog.New(slog.DiscardHandler), Fence: Fence{
		SetDeadline: func(deadline time.Time) { f.until = deadline }, Alone: func() bool { return f.alone },
		Vouched: func() time.Time { return f.vouched },
	}})
	return f
}

func (f *fenceTest) at(second float64) time.Time {
	return f.began.Add(time.Duration(second * float64(time.Second)))
}

// runs lets the process run from one moment to another.
func (f *fenceTest) runs(from, to float64) {
	for ; from < to; from += 0.5 {
		f.heartbeat(f.at(from))
	}
}

// want checks the deadline.
func (f *fenceTest) want(until float64) {
	f.t.Helper()
	if got := f.until.Sub(f.began).Seconds(); got != until {
		f.t.Errorf("the deadline is %.1f, want %.1f", got, until)
	}
}

// Each renewal is valid for nine tenths of the TTL from when it began, and heartbeats add nothing to that.
func TestFenceFollowsRenewals(t *testing.T) {
	f := newFenceTest(t)
	f.alone = true // without effect while etcd answers
	f.runs(0, 3)
	if !f.until.IsZero() {
		t.Error("there is a deadline before any confirmation")
	}
	f.confirm(f.at(1), f.at(3))
	f.want(10)
	f.runs(3, 4)
	f.want(10)
	f.confirm(f.at(4), f.at(4.1))
	f.want(13)
	f.runs(4, 30)
	f.want(13)
	f.confirm(f.at(30), f.at(30.1))
	f.want(39)
}

// An answer that a stopped process finds when it continues has no effect.
func TestFenceIgnoresOldAnswer(t *testing.T) {
	f := newFenceTest(t)
	f.confirm(f.at(0), f.at(0.1))
	f.runs(0, 3)
	f.confirm(f.at(3), f.at(23))
	f.want(9)
	for second := 24.0; second < 60; second += 3.5 { // nor does it make the place ours
		f.unanswered(f.at(second), f.at(second+3.4))
		f.heartbeat(f.at(second + 3.45))
	}
	f.want(9)
	f.confirm(f.at(60), f.at(60.1))
	f.want(69)
}

// While etcd is away, a process that runs keeps the place. A process that was stopped does not, whatever it knows of others.
func TestFenceWhileStoreIsAway(t *testing.T) {
	f := newFenceTest(t)
	f.alone = true
	f.confirm(f.at(0), f.at(0.1))
	f.runs(0, 3)
	f.unanswered(f.at(3), f.at(6))
	f.runs(6, 100)
	f.want(99.5 + 9)

	f.runs(120, 125) // that etcd was away before the stop has no effect
	f.want(99.5 + 9)
	f.unanswered(f.at(99), f.at(145)) // nor has a call from before the stop
	f.runs(145, 150)
	f.want(99.5 + 9)
	f.unanswered(f.at(151), f.at(153))
	f.runs(153, 160)
	f.want(159.5 + 9)
}

// Failures soon after a stop may be those of a connection that died, so they do not count.
func TestFenceIgnoresDeadConnections(t *testing.T) {
	f := newFenceTest(t)
	f.alone = true
	f.confirm(f.at(0), f.at(0.1))
	f.heartbeat(f.at(20))
	for second := 20.0; second < 39; second += 3.5 {
		f.unanswered(f.at(second), f.at(second+3.4))
		f.runs(second+3.4, second+3.5)
	}
	f.want(9)
	f.unanswered(f.at(40), f.at(43))
	f.heartbeat(f.at(43))
	f.want(43 + 9)
}

// A node that has seen another process's key in its place, and knows of a sibling, has no deadline until etcd confirms the place to it.
func TestFenceAfterChallengeNeedsStore(t *testing.T) {
	f := newFenceTest(t)
	f.vouched = f.at(999)
	f.challenge(f.at(0))
	f.confirm(f.at(1), f.at(1.1)) // as for a node that starts and has waited for the other's end
	f.want(10)
	f.challenge(f.at(2))
	if !f.until.IsZero() {
		t.Errorf("the deadline is %v", f.until)
	}
	for second := 4.0; second < 60; second += 3 {
		f.unanswered(f.at(second), f.at(second+2))
		f.runs(second+2, second+3)
	}
	f.confirm(f.at(40), f.at(60)) // too late to count
	f.unanswered(f.at(90), f.at(91))
	f.runs(91, 95)
	if !f.until.IsZero() {
		t.Errorf("the deadline is %v, beside another process", f.until)
	}
	f.confirm(f.at(100), f.at(100.1))
	f.want(109)
	f.alone = true
	f.unanswered(f.at(103), f.at(104))
	f.runs(104, 110)
	f.want(109.5 + 9)
}

// A key in the place may be that of an earlier run, which is dead: a node that is alone has a deadline again when etcd is away.
func TestFenceAgainstOwnName(t *testing.T) {
	f := newFenceTest(t)
	f.alone = true
	f.assume(f.at(0))
	f.challenge(f.at(1))
	f.unanswered(f.at(10), f.at(11))
	f.runs(11, 15)
	if !f.until.IsZero() {
		t.Errorf("the deadline is %v", f.until)
	}
	f.unanswered(f.at(21), f.at(22))
	f.runs(22, 25)
	f.want(24.5 + 9)
}

// If another node is known that may act, only etcd can extend the deadline, or bring it back after a stop.
func TestFenceWithKnownSiblingNeedsStore(t *testing.T) {
	f := newFenceTest(t)
	f.confirm(f.at(0), f.at(0.1))
	f.unanswered(f.at(3), f.at(6))
	f.runs(6, 8)
	f.want(9)
	for second := 40.0; second < 100; second += 3 {
		f.runs(second, second+3)
		f.unanswered(f.at(second), f.at(second+3))
	}
	f.want(9)
	f.confirm(f.at(100), f.at(100.1))
	f.want(109)
}

// When etcd says that the lease is gone, the rest of the deadline is used; it is extended only while etcd is away and the
// node is alone.
func TestFenceAfterLostLease(t *testing.T) {
	f := newFenceTest(t)
	f.alone = true
	f.confirm(f.at(0), f.at(0.1))
	f.unanswered(f.at(3), f.at(6))
	f.runs(6, 8)
	f.alone = false
	f.suspect()
	f.runs(8, 12)
	f.want(7.5 + 9)
	f.unanswered(f.at(12), f.at(13))
	f.runs(13, 15)
	f.want(7.5 + 9)
	f.alone = true
	f.runs(15, 16)
	f.want(15.5 + 9)
	f.confirm(f.at(16), f.at(16.1))
	f.want(25)
}

// A node that starts without etcd has a deadline for as long as it runs and is alone.
func TestFenceOfStartWithoutStore(t *testing.T) {
	f := newFenceTest(t)
	f.alone = true
	f.assume(f.at(0))
	f.want(9)
	f.runs(0, 20)
	f.want(19.5 + 9)
	f.alone = false
	f.runs(20, 50)
	f.want(19.5 + 9)
}

// A closed fence has no deadline any more.
func TestFenceCloses(t *testing.T) {
	f := newFenceTest(t)
	f.confirm(f.at(0), f.at(0.1))
	f.close()
	if !f.until.IsZero() {
		t.Errorf("the deadline is %v", f.until)
	}
	f.runs(1, 5)
	if !f.until.IsZero() {
		t.Errorf("the deadline is %v after close", f.until)
	}
}

// While etcd is away, the words of the siblings extend the deadline of a node that etcd has confirmed, and no further.
func TestFenceLastsAsLongAsSiblingsVouch(t *testing.T) {
	f := newFenceTest(t)
	f.confirm(f.at(0), f.at(0.1))
	f.vouched = f.at(11)
	f.runs(0, 3)
	f.want(9) // etcd answers
	f.unanswered(f.at(3), f.at(5))
	f.vouched = f.at(8)
	f.runs(5, 6)
	f.want(9) // the deadline is not shortened
	f.vouched = f.at(12)
	f.runs(6, 8)
	f.want(12)
	f.vouched = time.Time{} // one of them takes its word back, or has none any more
	f.runs(8, 11)
	f.want(12)
	f.vouched = f.at(15)
	f.runs(11, 11.5)
	f.want(15)
	f.vouched = f.at(99)
	f.runs(15, 40) // it has lapsed by then
	f.unanswered(f.at(41), f.at(42))
	f.runs(42, 50)
	f.want(15)
	f.confirm(f.at(60), f.at(60.1))
	f.want(69)
}

// Siblings cannot vouch for a node that etcd has doubted, or has never confirmed.
func TestFenceNeedsStoreBeforeSiblingsVouch(t *testing.T) {
	f := newFenceTest(t)
	f.vouched = f.at(99)
	f.assume(f.at(0))
	f.want(9)
	f.runs(0, 8)
	f.want(9)

	f = newFenceTest(t)
	f.vouched = f.at(99)
	f.confirm(f.at(0), f.at(0.1))
	f.suspect()
	f.unanswered(f.at(1), f.at(3))
	f.runs(3, 8)
	f.want(9)
}

// A doubt suspends the deadline of a server with a record, which may be gone, until etcd confirms it or the server is alone.
func TestFenceOfRecordIsSuspendedByDoubt(t *testing.T) {
	f := newFenceTest(t)
	f.strict = true
	f.vouched = f.at(99)
	f.confirm(f.at(0), f.at(0.1))
	f.suspect()
	f.unanswered(f.at(1), f.at(3))
	f.runs(3, 5)
	if !f.until.IsZero() {
		t.Errorf("the deadline is %v, in doubt", f.until)
	}
	f.alone = true
	f.runs(5, 6)
	f.want(5.5 + 9)
	f.suspect()
	f.confirm(f.at(7), f.at(7.1))
	f.want(16)
	f.suspect()
	f.runs(8, 20) // stopped meanwhile, for all it knows
	f.unanswered(f.at(21), f.at(22))
	f.runs(22, 30)
	if !f.until.IsZero() {
		t.Errorf("the deadline is %v after a lapse", f.until)
	}
}

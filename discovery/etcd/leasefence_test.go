package etcd

import (
	"log/slog"
	"testing"
	"time"
)

// tenant is a tenure whose clock a test moves, in seconds. Its TTL is 10 s: a confirmation is good for 9. After a lapse, etcd
// must be away when it is asked 20 s later.
type tenant struct {
	*leaseFence
	t      *testing.T
	began  time.Time
	until  time.Time // as it was told
	vacant bool
}

func newTenant(t *testing.T) *tenant {
	n := &tenant{t: t, began: time.Now()}
	n.leaseFence = newLeaseFence(Registration{TTL: 10 * time.Second, Logger: slog.New(slog.DiscardHandler), Fence: Fence{
		SetDeadline: func(until time.Time) { n.until = until }, NoRival: func() bool { return n.vacant },
	}})
	return n
}

func (n *tenant) at(second float64) time.Time {
	return n.began.Add(time.Duration(second * float64(time.Second)))
}

// runs lets the process go on from one moment to another.
func (n *tenant) runs(from, to float64) {
	for ; from < to; from += 0.5 {
		n.heartbeat(n.at(from))
	}
}

// want says until when the node may act.
func (n *tenant) want(until float64) {
	n.t.Helper()
	if got := n.until.Sub(n.began).Seconds(); got != until {
		n.t.Errorf("may act until %.1f, want %.1f", got, until)
	}
}

// Each renewal is good for a TTL from when it was asked for, less a margin, and beats add nothing to that.
func TestTenureByRenewals(t *testing.T) {
	n := newTenant(t)
	n.vacant = true // of no account while etcd answers
	n.runs(0, 3)
	if !n.until.IsZero() {
		t.Error("may act before anything is confirmed")
	}
	n.confirm(n.at(1), n.at(3))
	n.want(10)
	n.runs(3, 4)
	n.want(10)
	n.confirm(n.at(4), n.at(4.1))
	n.want(13)
	n.runs(4, 30)
	n.want(13)
	n.confirm(n.at(30), n.at(30.1))
	n.want(39)
}

// An answer that a stopped process finds when it goes on is worth nothing.
func TestTenureOfOldAnswer(t *testing.T) {
	n := newTenant(t)
	n.confirm(n.at(0), n.at(0.1))
	n.runs(0, 3)
	n.confirm(n.at(3), n.at(23))
	n.want(9)
	for second := 24.0; second < 60; second += 3.5 { // nor does it say whose the place is since
		n.unanswered(n.at(second), n.at(second+3.4))
		n.heartbeat(n.at(second + 3.45))
	}
	n.want(9)
	n.confirm(n.at(60), n.at(60.1))
	n.want(69)
}

// While etcd is away, whoever goes on keeps the place. Who was stopped beside it does not, whatever it believes of others.
func TestTenureWithoutStore(t *testing.T) {
	n := newTenant(t)
	n.confirm(n.at(0), n.at(0.1))
	n.runs(0, 3)
	n.unanswered(n.at(3), n.at(6))
	n.runs(6, 100)
	n.want(99.5 + 9)

	n.vacant = true
	n.runs(120, 125) // that it was away before the stop says nothing
	n.want(99.5 + 9)
	n.unanswered(n.at(99), n.at(145)) // nor does what was asked before
	n.runs(145, 150)
	n.want(99.5 + 9)
	n.unanswered(n.at(151), n.at(153))
	n.runs(153, 160)
	n.want(159.5 + 9)
}

// The connection of before a stop may be dead, and only that: neither one failure on it counts, nor all there may be.
func TestTenureOnDeadConnection(t *testing.T) {
	n := newTenant(t)
	n.vacant = true
	n.confirm(n.at(0), n.at(0.1))
	n.heartbeat(n.at(20))
	for second := 20.0; second < 39; second += 3.5 {
		n.unanswered(n.at(second), n.at(second+3.4))
		n.runs(second+3.4, second+3.5)
	}
	n.want(9)
	n.unanswered(n.at(40), n.at(43))
	n.heartbeat(n.at(43))
	n.want(43 + 9)
}

// A node that has seen another in its place grants nothing until etcd says that it is its own again.
func TestTenureBesideRival(t *testing.T) {
	n := newTenant(t)
	n.vacant = true // the table may lag
	n.challenge(n.at(0), true)
	n.confirm(n.at(1), n.at(1.1)) // as for a node that starts: it had to wait for the other's end
	n.want(10)
	n.challenge(n.at(2), true)
	if !n.until.IsZero() {
		t.Errorf("may act until %v", n.until)
	}
	n.challenge(n.at(3), false) // its own name there afterwards does not change that
	for second := 4.0; second < 60; second += 3 {
		n.unanswered(n.at(second), n.at(second+2))
		n.runs(second+2, second+3)
	}
	n.confirm(n.at(40), n.at(60)) // too late to count
	n.unanswered(n.at(90), n.at(91))
	n.runs(91, 95)
	if !n.until.IsZero() {
		t.Errorf("may act until %v, beside another", n.until)
	}
	n.confirm(n.at(100), n.at(100.1))
	n.want(109)
	n.unanswered(n.at(103), n.at(104))
	n.runs(104, 110)
	n.want(109.5 + 9)
}

// What has its own name ends the tenure too, but is no rival for ever: it may be of an earlier run, which is dead.
func TestTenureBesideOwnName(t *testing.T) {
	n := newTenant(t)
	n.vacant = true
	n.assume(n.at(0))
	n.challenge(n.at(1), false)
	n.unanswered(n.at(10), n.at(11))
	n.runs(11, 15)
	if !n.until.IsZero() {
		t.Errorf("may act until %v", n.until)
	}
	n.unanswered(n.at(21), n.at(22))
	n.runs(22, 25)
	n.want(24.5 + 9)
}

// If another is known who may want the place, only etcd can give it back after a stop.
func TestTenureBesideAnother(t *testing.T) {
	n := newTenant(t)
	n.confirm(n.at(0), n.at(0.1))
	n.unanswered(n.at(3), n.at(6))
	n.runs(6, 10)
	n.want(9.5 + 9)
	for second := 40.0; second < 100; second += 3 {
		n.runs(second, second+3)
		n.unanswered(n.at(second), n.at(second+3))
	}
	n.want(9.5 + 9)
	n.confirm(n.at(100), n.at(100.1))
	n.want(109)
}

// When etcd says that the lease is gone, what is left is used and not prolonged; without etcd only if nobody is known.
func TestTenureInDoubt(t *testing.T) {
	n := newTenant(t)
	n.confirm(n.at(0), n.at(0.1))
	n.unanswered(n.at(3), n.at(6))
	n.runs(6, 8)
	n.suspect()
	n.runs(8, 12)
	n.want(7.5 + 9)
	n.unanswered(n.at(12), n.at(13))
	n.runs(13, 15)
	n.want(7.5 + 9)
	n.vacant = true
	n.runs(15, 16)
	n.want(15.5 + 9)
	n.confirm(n.at(16), n.at(16.1))
	n.want(25)
}

// A node that starts without etcd acts for as long as it goes on and knows of nobody else.
func TestTenurePresumed(t *testing.T) {
	n := newTenant(t)
	n.vacant = true
	n.assume(n.at(0))
	n.want(9)
	n.runs(0, 20)
	n.want(19.5 + 9)
	n.vacant = false
	n.runs(20, 50)
	n.want(19.5 + 9)
}

// Once it has ended, the node acts no more.
func TestTenureEnds(t *testing.T) {
	n := newTenant(t)
	n.confirm(n.at(0), n.at(0.1))
	n.close()
	if !n.until.IsZero() {
		t.Errorf("may act until %v", n.until)
	}
	n.runs(1, 5)
	if !n.until.IsZero() {
		t.Errorf("may act until %v again", n.until)
	}
}

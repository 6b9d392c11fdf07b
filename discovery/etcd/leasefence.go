package etcd

import (
	"log/slog"
	"sync"
	"time"
)

// Fence is what a lease reports to a node that may act only while no other node can have its place. The zero Fence reports
// nothing.
type Fence struct {
	// SetDeadline is called with the time by which the node must have stopped acting, each time that it changes; the zero
	// time means at once. It is called by one goroutine at a time and must not block.
	SetDeadline func(time.Time)
	// Alone reports, while etcd is away, whether no other node is known that may act: no sibling, and none that wants the place.
	// nil = there may be one.
	Alone func() bool
	// Vouched returns until when every sibling has promised that none takes over, for a node that is not alone while etcd is
	// away; zero = not all have. nil = none has. It must not block.
	Vouched func() time.Time
}

// deadConnectionTimeout is how long a dead connection, of those that [Dial] makes, can hide that etcd answers: 13 s until the
// client notices, and 4 s for another connection and a call over it. An earlier failure after a stop may be that of a
// connection of before the stop.
const deadConnectionTimeout = 20 * time.Second

// safetyMargin says how much of a TTL is not used, which is 1/safetyMargin: clocks differ a little, and an action that begins
// by the deadline takes a moment.
const safetyMargin = 10

// leaseFence keeps the deadline of a [Fence]: see the package's documentation for its states.
type leaseFence struct {
	Fence
	strict   bool          // a doubt suspends the deadline: granting also depends on a record, which may be gone
	validity time.Duration // of a confirmation
	log      *slog.Logger  // with the key

	mu        sync.Mutex // guards the fields below
	deadline  time.Time  // zero before the first one, and after close
	lapsedAt  time.Time  // when the lapse was noticed; zero = it has not lapsed
	ours      bool       // etcd's last word on the place was that it is ours
	storeAway bool       // the last call of etcd was not answered
}

func newLeaseFence(r Registration) *leaseFence {
	return &leaseFence{Fence: r.Fence, strict: r.Records != nil, validity: r.TTL - r.TTL/safetyMargin, log: r.Logger.With("key", r.Key)}
}

// confirm takes etcd's word that the place is ours, in the answer to a call that began at asked.
func (f *leaseFence) confirm(asked, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checkLapseLocked(now)
	f.storeAway = false
	if deadline := asked.Add(f.validity); now.Before(deadline) { // a later answer may be that of before a stop
		f.ours = true
		f.extendLocked(deadline)
	}
}

// assume sets the first deadline of a node that starts while etcd is away.
func (f *leaseFence) assume(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storeAway = true
	f.extendLocked(now.Add(f.validity))
}

// suspect takes etcd's word that the place is not ours as it stands: the lease expired, or our key or record was deleted. The
// rest of the deadline is used, since no other node has been seen in the place yet; but a strict fence has none until etcd
// confirms the place, or the node is alone without etcd.
func (f *leaseFence) suspect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ours, f.storeAway = false, false
	if f.strict && f.SetDeadline != nil {
		f.SetDeadline(time.Time{})
	}
}

// challenge takes etcd's word that another process's key is in the place: that process acts or will act, or is an earlier run of this
// node, which is dead.
func (f *leaseFence) challenge(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ours, f.storeAway = false, false
	if f.deadline.IsZero() || !f.lapsedAt.IsZero() {
		return
	}
	f.lapsedAt = now
	f.log.Warn("another process has this node's place; granting suspended until etcd confirms it")
	f.SetDeadline(time.Time{})
}

// unanswered notes that etcd did not answer a call that began at asked.
func (f *leaseFence) unanswered(asked, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checkLapseLocked(now)
	f.storeAway = f.lapsedAt.IsZero() || asked.Sub(f.lapsedAt) >= deadConnectionTimeout
}

// heartbeat notes that the process is running.
func (f *leaseFence) heartbeat(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checkLapseLocked(now)
	if !f.storeAway {
		return
	}
	if f.Alone != nil && f.Alone() {
		f.extendLocked(now.Add(f.validity))
	} else if f.ours && f.Vouched != nil {
		if until := f.Vouched(); until.After(f.deadline) {
			f.extendLocked(until)
		}
	}
}

// close ends the fence: the place is another node's, or was given up.
func (f *leaseFence) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ours, f.storeAway, f.deadline, f.lapsedAt = false, false, time.Time{}, time.Time{}
	if f.SetDeadline != nil {
		f.SetDeadline(time.Time{})
	}
}

// checkLapseLocked notices that the deadline has passed.
func (f *leaseFence) checkLapseLocked(now time.Time) {
	if f.deadline.IsZero() || !f.lapsedAt.IsZero() || now.Before(f.deadline) {
		return
	}
	f.lapsedAt, f.ours, f.storeAway = now, false, false
	f.log.Warn("lease not confirmed in time; granting suspended (the process was stopped, or etcd or this machine is slow)",
		"since_confirmation", now.Sub(f.deadline)+f.validity)
}

func (f *leaseFence) extendLocked(deadline time.Time) {
	if f.SetDeadline == nil {
		return
	}
	if !f.lapsedAt.IsZero() {
		f.log.Info("lease confirmed; granting resumed")
	}
	f.deadline, f.lapsedAt = deadline, time.Time{}
	f.SetDeadline(deadline)
}

package etcd

import (
	"log/slog"
	"sync"
	"time"
)

// Fence is what a node is told that may act only while nobody else can have its place.
type Fence struct {
	// Until is told, each time that it changes, by when the node must have stopped acting, unless it is told another
	// moment before that. It is called by one goroutine at a time, and must not wait.
	SetDeadline func(time.Time)
	// Vacant says, while etcd is away, whether as far as is known nobody else wants the place.
	NoRival func() bool
}

// deadConnectionTimeout is for how long a connection may be dead before the client has noticed, of those that [Dial] makes (13 s),
// made another one, and asked there (4 s). A failure that comes sooner after a stop may be only of the connection of
// before.
const deadConnectionTimeout = 20 * time.Second

// safetyMargin is the part of a lease's TTL that is not used: clocks differ a little, and what begins by the end takes a
// moment.
const safetyMargin = 10

// leaseFence follows for how long the place is certainly this node's, by this process's own clock alone: a process that was
// stopped, with everything in it, cannot see that otherwise.
//
// While etcd confirms the lease, the place is ours for its TTL from when the renewal began. While etcd is away, nobody
// can take it from a node that it has been confirmed to, as long as the process goes on: it beats, and each beat
// prolongs the tenure. If the tenure has lapsed all the same, the process was stopped in between, and others may have
// done anything: then etcd has to confirm the place, or to be away when it is asked after more than any connection of
// before could last, with nobody else known.
type leaseFence struct {
	Fence
	validity time.Duration // from a confirmation
	log      *slog.Logger  // with the key

	mu        sync.Mutex // guards the fields below
	deadline  time.Time  // zero before it begins, and once it has ended
	lapsedAt  time.Time  // when that was noticed; zero: it has not
	ours      bool       // etcd has said so, and nothing else since
	rival     bool       // etcd has shown another node in the place, and has not confirmed it to us since
	storeAway bool       // the last that was asked of etcd was not answered
}

func newLeaseFence(r Registration) *leaseFence {
	return &leaseFence{Fence: r.Fence, validity: r.TTL - r.TTL/safetyMargin, log: r.Logger.With("key", r.Key)}
}

// confirm takes word from etcd that the place is ours, of a question that was asked at asked.
func (t *leaseFence) confirm(asked, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checkLapseLocked(now)
	t.storeAway = false
	if until := asked.Add(t.validity); now.Before(until) { // else it says what was, before a stop perhaps
		t.ours, t.rival = true, false
		t.extendLocked(until)
	}
}

// assume begins the tenure of a node that starts while etcd is away.
func (t *leaseFence) assume(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.storeAway = true
	t.extendLocked(now.Add(t.validity))
}

// suspect takes word from etcd that the place is not ours as it stands there: the lease has run out, or our key was
// deleted. What is left of the tenure is used, since nobody has said yet that the place is another's.
func (t *leaseFence) suspect() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ours, t.storeAway = false, false
}

// challenge takes word from etcd that somebody's key is in the place: it grants, or will. What has our name may be of
// an earlier run of ours, which is dead: it ends the tenure, but is no rival if etcd goes away before its lease has run
// out.
func (t *leaseFence) challenge(now time.Time, another bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ours, t.storeAway, t.rival = false, false, t.rival || another
	if t.deadline.IsZero() || !t.lapsedAt.IsZero() {
		return
	}
	t.lapsedAt = now
	t.log.Warn("a node has the place of this one, which grants nothing until etcd has confirmed it again")
	t.SetDeadline(time.Time{})
}

// unanswered takes note that etcd did not answer what it was asked at asked.
func (t *leaseFence) unanswered(asked, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checkLapseLocked(now)
	t.storeAway = t.lapsedAt.IsZero() || asked.Sub(t.lapsedAt) >= deadConnectionTimeout
}

// heartbeat says that the process goes on.
func (t *leaseFence) heartbeat(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.checkLapseLocked(now)
	if t.storeAway && !t.rival && (t.ours || t.NoRival != nil && t.NoRival()) {
		t.extendLocked(now.Add(t.validity))
	}
}

// close ends it: the place is another's, or is given up.
func (t *leaseFence) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ours, t.storeAway, t.deadline, t.lapsedAt = false, false, time.Time{}, time.Time{}
	if t.SetDeadline != nil {
		t.SetDeadline(time.Time{})
	}
}

// checkLapseLocked notices a lapse.
func (t *leaseFence) checkLapseLocked(now time.Time) {
	if t.deadline.IsZero() || !t.lapsedAt.IsZero() || now.Before(t.deadline) {
		return
	}
	t.lapsedAt, t.ours, t.storeAway = now, false, false
	t.log.Warn("this node has not heard of its place for too long and grants nothing until it has; it was stopped, or etcd or this machine is slow",
		"for", now.Sub(t.deadline)+t.validity)
}

func (t *leaseFence) extendLocked(until time.Time) {
	if t.SetDeadline == nil {
		return // nobody wants to know
	}
	if !t.lapsedAt.IsZero() {
		t.log.Info("this node has its place still, and grants again")
	}
	t.deadline, t.lapsedAt = until, time.Time{}
	t.SetDeadline(until)
}

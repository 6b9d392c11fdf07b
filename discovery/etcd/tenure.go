package etcd

import (
	"log/slog"
	"sync"
	"time"
)

// Tenure is what a node is told that may act only while nobody else can have its place.
type Tenure struct {
	// Until is told, each time that it changes, by when the node must have stopped acting, unless it is told another
	// moment before that. It is called by one goroutine at a time, and must not wait.
	Until func(time.Time)
	// Vacant says, while etcd is away, whether as far as is known nobody else wants the place.
	Vacant func() bool
}

// patience is for how long a connection may be dead before the client has noticed, of those that [Dial] makes (13 s),
// made another one, and asked there (4 s). A failure that comes sooner after a stop may be only of the connection of
// before.
const patience = 20 * time.Second

// margin is the part of a lease's TTL that is not used: clocks differ a little, and what begins by the end takes a
// moment.
const margin = 10

// tenure follows for how long the place is certainly this node's, by this process's own clock alone: a process that was
// stopped, with everything in it, cannot see that otherwise.
//
// While etcd confirms the lease, the place is ours for its TTL from when the renewal began. While etcd is away, nobody
// can take it from a node that it has been confirmed to, as long as the process goes on: it beats, and each beat
// prolongs the tenure. If the tenure has lapsed all the same, the process was stopped in between, and others may have
// done anything: then etcd has to confirm the place, or to be away when it is asked after more than any connection of
// before could last, with nobody else known.
type tenure struct {
	Tenure
	length time.Duration // from a confirmation
	log    *slog.Logger  // with the key

	mu     sync.Mutex // guards the fields below
	until  time.Time  // zero before it begins, and once it has ended
	lapsed time.Time  // when that was noticed; zero: it has not
	ours   bool       // etcd has said so, and nothing else since
	rival  bool       // etcd has shown another node in the place, and has not confirmed it to us since
	away   bool       // the last that was asked of etcd was not answered
}

func newTenure(r Registration) *tenure {
	return &tenure{Tenure: r.Tenure, length: r.TTL - r.TTL/margin, log: r.Logger.With("key", r.Key)}
}

// confirmed takes word from etcd that the place is ours, of a question that was asked at asked.
func (t *tenure) confirmed(asked, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lookLocked(now)
	t.away = false
	if until := asked.Add(t.length); now.Before(until) { // else it says what was, before a stop perhaps
		t.ours, t.rival = true, false
		t.holdLocked(until)
	}
}

// presumed begins the tenure of a node that starts while etcd is away.
func (t *tenure) presumed(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.away = true
	t.holdLocked(now.Add(t.length))
}

// doubted takes word from etcd that the place is not ours as it stands there: the lease has run out, or our key was
// deleted. What is left of the tenure is used, since nobody has said yet that the place is another's.
func (t *tenure) doubted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ours, t.away = false, false
}

// contested takes word from etcd that somebody's key is in the place: it grants, or will. What has our name may be of
// an earlier run of ours, which is dead: it ends the tenure, but is no rival if etcd goes away before its lease has run
// out.
func (t *tenure) contested(now time.Time, another bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ours, t.away, t.rival = false, false, t.rival || another
	if t.until.IsZero() || !t.lapsed.IsZero() {
		return
	}
	t.lapsed = now
	t.log.Warn("a node has the place of this one, which grants nothing until etcd has confirmed it again")
	t.Until(time.Time{})
}

// unanswered takes note that etcd did not answer what it was asked at asked.
func (t *tenure) unanswered(asked, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lookLocked(now)
	t.away = t.lapsed.IsZero() || asked.Sub(t.lapsed) >= patience
}

// beat says that the process goes on.
func (t *tenure) beat(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lookLocked(now)
	if t.away && !t.rival && (t.ours || t.Vacant != nil && t.Vacant()) {
		t.holdLocked(now.Add(t.length))
	}
}

// end ends it: the place is another's, or is given up.
func (t *tenure) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ours, t.away, t.until, t.lapsed = false, false, time.Time{}, time.Time{}
	if t.Until != nil {
		t.Until(time.Time{})
	}
}

// lookLocked notices a lapse.
func (t *tenure) lookLocked(now time.Time) {
	if t.until.IsZero() || !t.lapsed.IsZero() || now.Before(t.until) {
		return
	}
	t.lapsed, t.ours, t.away = now, false, false
	t.log.Warn("this node has not heard of its place for too long and grants nothing until it has; it was stopped, or etcd or this machine is slow",
		"for", now.Sub(t.until)+t.length)
}

func (t *tenure) holdLocked(until time.Time) {
	if t.Until == nil {
		return // nobody wants to know
	}
	if !t.lapsed.IsZero() {
		t.log.Info("this node has its place still, and grants again")
	}
	t.until, t.lapsed = until, time.Time{}
	t.Until(until)
}

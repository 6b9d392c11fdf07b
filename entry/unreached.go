package entry

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"colonnade/analytics/metrics"
	"colonnade/fleet"
	"colonnade/routing"
)

// Unresponsive is a colo server that has not answered the latest request of this entry. Its colo may serve all the same, by another server.
type Unresponsive struct {
	Colo  string    `json:"colo"`
	Node  string    `json:"node"`
	Since time.Time `json:"since"` // of the first failure since the server was last reached
	Last  time.Time `json:"last"`
	Times int       `json:"times"`
	Error string    `json:"error"` // the latest
}

type serverIn struct{ colo, node string }

// maxUnresponsive bounds the servers that are noted: verdicts may name any number of them.
const maxUnresponsive = 4096

// noteUnresponsive notes a request that a server has not answered.
func (o *observations) noteUnresponsive(s *fleet.Server, why error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pruneLocked()
	u, ok := o.unresponsive[serverIn{s.Colo, s.Node}]
	if !ok && len(o.unresponsive) >= maxUnresponsive {
		return
	}
	if !ok {
		u = Unresponsive{Colo: s.Colo, Node: s.Node, Since: now}
	}
	u.Last, u.Error = now, why.Error()
	u.Times++
	o.unresponsive[serverIn{s.Colo, s.Node}] = u
}

// noteResponsive notes an answer of a server.
func (o *observations) noteResponsive(s *fleet.Server) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.unresponsive, serverIn{s.Colo, s.Node})
}

// Unresponsive returns the servers that have not answered the latest request to them, sorted by colo and node.
func (e *Entry) Unresponsive() []Unresponsive {
	e.observed.mu.Lock()
	defer e.observed.mu.Unlock()
	e.observed.pruneLocked()
	return slices.SortedFunc(maps.Values(e.observed.unresponsive),
		func(a, b Unresponsive) int { return cmp.Or(cmp.Compare(a.Colo, b.Colo), cmp.Compare(a.Node, b.Node)) })
}

// noteLeft notes that a request has left a colo without an answer of any of its servers, the last of which could not be reached.
func (c *call) noteLeft(at attempt, began time.Time) {
	if c.attempts.staysInColo() {
		return
	}
	if c.entry.observed.noteUnreached(at.Colo.Name, began, time.Now()) {
		c.entry.config.Logger.Warn("colo is not reached", "request_id", c.id, "colo", at.Colo.Name, "attempts", unreachedAfter)
	}
}

// logReached logs that a server of a colo has answered that was unreached.
func (e *Entry) logReached(s *fleet.Server) {
	e.config.Logger.Info("colo is reached again", "colo", s.Colo, "server", s.Node)
}

// noteUnreached notes an attempt at a colo, begun at a time, that found no server of it. It reports whether the colo counts as unreached
// from now on.
func (o *observations) noteUnreached(colo string, began, now time.Time) bool {
	s := o.state(colo)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.reach.unreached
	s.reach.failed(began, now, o.random())
	s.unreached.Store(s.reach.unreached)
	return s.reach.unreached && !before
}

// ObservedColo is what an entry has observed of one colo.
type ObservedColo struct {
	Colo            string     `json:"colo"`
	RoundTripMillis float64    `json:"round_trip_ms"`
	Measured        bool       `json:"measured"`      // else the round trip is guessed by positions and regions
	MeasuredAt      *time.Time `json:"measured_at"`   // the last measurement; null = none
	Unreached       bool       `json:"unreached"`     // it stands last in every step
	Failures        int        `json:"failures"`      // attempts in a row that found no server
	FailingSince    *time.Time `json:"failing_since"` // the first of them
	NextPing        *time.Time `json:"next_ping"`     // of an unreached colo, which decides
	FailedPings     int        `json:"failed_pings"`  // since it is unreached
}

// Colos returns what was observed of the colos in the table, sorted by name. Positions and regions take the place of a round trip that was
// not measured.
func (e *Entry) Colos() []ObservedColo {
	states := e.observed.states()
	all := make([]ObservedColo, 0, len(states.byName))
	for _, c := range states.table.Colos() {
		roundTrip, measured := e.planner.Distance(c, routing.Request{RoundTrip: e.observed.measured})
		observed := states.byName[c.Name].observed()
		observed.RoundTripMillis, observed.Measured = float64(roundTrip.Microseconds())/1000, measured
		all = append(all, observed)
	}
	slices.SortFunc(all, func(a, b ObservedColo) int { return cmp.Compare(a.Colo, b.Colo) })
	return all
}

// coloStates returns what was observed of the colos in the table, for metrics.
func (e *Entry) coloStates() []metrics.ColoState {
	var states []metrics.ColoState
	for _, c := range e.Colos() {
		roundTrip := time.Duration(c.RoundTripMillis * float64(time.Millisecond))
		states = append(states, metrics.ColoState{Colo: c.Colo, RoundTrip: roundTrip, Measured: c.Measured, Unreached: c.Unreached})
	}
	return states
}

// observed returns the state without the round trip.
func (s *coloState) observed() ObservedColo {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := ObservedColo{Colo: s.name, Unreached: s.reach.unreached, Failures: s.reach.failures, FailedPings: s.reach.pings}
	o.MeasuredAt, o.FailingSince, o.NextPing = unlessZero(s.estimator.Latest()), unlessZero(s.reach.since), unlessZero(s.reach.until)
	return o
}

func unlessZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

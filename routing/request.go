package routing

import (
	"time"

	"colonnade/fleet"
)

// Request is what a plan depends on besides the table and the model. A plan calls each function at most once for each colo.
type Request struct {
	Forced string // the only colo to try; empty = by the routing of the model
	// Draining plans colos with a draining server instead of those with an active one. An entry uses it to find the reason for an empty plan.
	Draining bool
	Seed     uint64 // of the random orders and draws
	// Seen returns what is known of the request's pool in a colo; nil = nothing is known.
	Seen func(*fleet.Colo) Seen
	// RoundTrip returns the measured round trip to a colo, or false if none was measured; nil = none was measured. A plan calls it only
	// for colos whose distance it needs: of steps with within or the pick latency, and of colos without a weight in a flow.
	RoundTrip func(*fleet.Colo) (time.Duration, bool)
}

// Seen is what an entry knows of a pool in a colo.
type Seen struct {
	Full      bool // it was out of capacity a moment ago
	Unreached bool // the latest attempts found no server of the colo
	Known     bool // Free and Limit were reported
	Free      int  // free slots, of Limit, as last reported
	Limit     int
}

// hasLoad reports whether the load is known. A pool without slots has none.
func (s *Seen) hasLoad() bool { return s.Known && s.Limit > 0 }

// Stop is one colo of a plan.
type Stop struct {
	Colo *fleet.Colo
	Step int    // the step that yields it, from 1
	Last Reason // why it stands behind others of its step; empty = it does not
}

// Reason is why a colo stands last in its step.
type Reason string

// The values of [Reason].
const (
	ReasonFull      Reason = "full"
	ReasonUnreached Reason = "unreached"
)

// reason returns why a colo stands last in its step.
func (s *Seen) reason() Reason {
	switch {
	case s.Unreached:
		return ReasonUnreached
	case s.Full:
		return ReasonFull
	}
	return ""
}

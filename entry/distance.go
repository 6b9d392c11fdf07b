package entry

import (
	"math"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/peer"
)

// roundTrip returns the measured round trip to a colo, or false if none was measured. It notes that a plan goes by it, so that a colo
// that has not answered for a while is pinged. It is a routing.Request.RoundTrip.
func (o *observations) roundTrip(c *fleet.Colo) (time.Duration, bool) {
	s := o.state(c.Name)
	if s == nil {
		return 0, false
	}
	if !s.asked.Load() { // which spares other processors the write
		s.asked.Store(true)
	}
	return s.measured()
}

// measured is roundTrip for other purposes than a plan.
func (o *observations) measured(c *fleet.Colo) (time.Duration, bool) {
	if s := o.state(c.Name); s != nil {
		return s.measured()
	}
	return 0, false
}

// measured returns the round trip to the colo, or false if none was measured. A colo in this process is no distance away.
func (s *coloState) measured() (time.Duration, bool) {
	if s.isLocal.Load() {
		return 0, true
	}
	d := s.roundTrip.Load()
	return time.Duration(max(d, 0)), d >= 0
}

// noteAnswer notes an answer of a server of a colo, and the round trip, if the answer shows it. It reports whether the colo was unreached
// until now.
func (o *observations) noteAnswer(server *fleet.Server, answer *peer.Answer, now time.Time) (isBack bool) {
	s := o.state(server.Colo)
	if s == nil {
		return false
	}
	if !answer.HasTook && o.isLocal(server) {
		s.isLocal.Store(true)
	}
	roundTrip, measured := answer.RoundTrip()
	return s.noteAnswered(roundTrip, measured, now)
}

// noteAnswered notes that a server of the colo has answered, and the round trip if that was measured. It reports whether the colo was
// unreached until now.
func (s *coloState) noteAnswered(roundTrip time.Duration, measured bool, now time.Time) (isBack bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answeredLocked(roundTrip, measured, now)
}

func (s *coloState) answeredLocked(roundTrip time.Duration, measured bool, now time.Time) (isBack bool) {
	isBack = s.reach.unreached
	s.reach.answered(now)
	s.noteBelievedLocked()
	s.unreached.Store(false)
	if measured {
		s.estimator.Observe(roundTrip, now)
		estimate, _ := s.estimator.Estimate()
		s.roundTrip.Store(int64(estimate))
	}
	return isBack
}

// reserved returns the part of a deadline that is kept for the way to a colo and back.
func (c *call) reserved(colo *fleet.Colo) time.Duration {
	roundTrip, _ := c.entry.observed.measured(colo)
	return max(reservedForReturn, 2*roundTrip)
}

// firstByteLeft returns how much time is left of the client's own deadline for the first byte.
func (c *call) firstByteLeft() time.Duration {
	if c.firstByteDeadline.IsZero() {
		return math.MaxInt64
	}
	return time.Until(c.firstByteDeadline)
}

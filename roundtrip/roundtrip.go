package roundtrip

import (
	"math"
	"time"
)

const (
	// slots is how many parts the window has, in which a measurement counts for nine to ten seconds. Only the least of each part is kept.
	slots     = 10
	slotWidth = time.Second
	// halfLife is how long the estimate takes for half of the way to a higher least.
	halfLife = 2 * time.Second
)

// Estimator estimates one round trip. Its memory is fixed, and an observation takes constant time. The zero value has no estimate. It is
// not safe for concurrent use.
type Estimator struct {
	began    time.Time // the first observation
	latest   time.Time // the last observation
	estimate time.Duration
	slots    [slots]slot // by number, modulo their count
}

// slot is the least measurement in a part of the window.
type slot struct {
	number int64 // since began
	least  time.Duration
	used   bool
}

// Observe adds a measurement that was made at a time. Negative ones are ignored. Times may be out of order by less than the window.
func (e *Estimator) Observe(measured time.Duration, at time.Time) {
	if measured < 0 {
		return
	}
	if e.began.IsZero() {
		e.began, e.latest, e.estimate = at, at, measured
	}
	elapsed := max(at.Sub(e.latest), 0)
	if elapsed > 0 {
		e.latest = at
	}
	number := int64(at.Sub(e.began) / slotWidth)
	e.slots[((number%slots)+slots)%slots].add(measured, number)
	e.approach(e.leastUntil(int64(e.latest.Sub(e.began)/slotWidth)), elapsed)
}

// add adds a measurement to the slot, which begins anew if it was for an earlier part of the window.
func (s *slot) add(measured time.Duration, number int64) {
	switch {
	case !s.used || s.number < number:
		*s = slot{number, measured, true}
	case s.number == number:
		s.least = min(s.least, measured)
	}
}

// leastUntil returns the least measurement of the window that ends with a slot.
func (e *Estimator) leastUntil(number int64) time.Duration {
	least := time.Duration(math.MaxInt64)
	for i := range e.slots {
		if s := &e.slots[i]; s.used && s.number > number-slots {
			least = min(least, s.least)
		}
	}
	return least
}

// approach moves the estimate towards the least measurement of the window, when so much time has passed since it was moved last.
func (e *Estimator) approach(least, elapsed time.Duration) {
	if least <= e.estimate {
		e.estimate = least
		return
	}
	share := min(1-math.Exp2(-elapsed.Seconds()/halfLife.Seconds()), 0.5)
	e.estimate += time.Duration(share * float64(least-e.estimate))
}

// Estimate returns the round trip, or false if none was observed. An estimate stays when observations end.
func (e *Estimator) Estimate() (roundTrip time.Duration, measured bool) {
	return e.estimate, !e.began.IsZero()
}

// Latest returns the time of the last observation; zero if there was none.
func (e *Estimator) Latest() time.Time { return e.latest }

package peer

import "time"

// maxTookMeasured is the longest time at a server of which a round trip is taken. The clocks of two machines may differ in rate by 500
// parts in a million, so that a longer time is not exact to a millisecond.
const maxTookMeasured = 2 * time.Second

// RoundTrip returns the round trip to the server that has answered, without the time for which that has had the request. It is not known
// of a server of this process, and of one that has not said for how long it had the request, has had it for more than two seconds, or says
// that this was longer than the whole exchange.
func (a *Answer) RoundTrip() (roundTrip time.Duration, measured bool) {
	if !a.HasTook || a.elapsed <= 0 || a.Took > a.elapsed || a.Took > maxTookMeasured {
		return 0, false
	}
	return a.elapsed - a.Took, true
}

package entry

import "time"

const (
	// unreachedAfter is how many attempts in a row must have found no server of a colo, before the colo counts as unreached.
	unreachedAfter = 3
	// minUnreached and maxUnreached bound the time before the next ping of an unreached colo, which doubles with each ping that fails.
	minUnreached = time.Second
	maxUnreached = 30 * time.Second
	// unreachedJitter is the greatest fraction by which that time is made shorter or longer, so that entries do not ping at the same time.
	unreachedJitter = 0.2
)

// reach decides whether a colo is reached, by the attempts of requests at it and by pings. It is about a whole colo; [Unresponsive] is about
// one server. It is not safe for concurrent use. The zero value stands for a reached colo.
type reach struct {
	failures   int       // attempts in a row that found no server
	since      time.Time // of the first of them
	answeredAt time.Time // the last answer
	unreached  bool
	pings      int       // that have failed since it is unreached
	until      time.Time // when the next ping is due; only of an unreached colo
}

// answered notes an answer of any server of the colo: to a request, or to a ping.
func (r *reach) answered(now time.Time) { *r = reach{answeredAt: now} }

// failed notes an attempt at the colo that found no server. random is from [0, 1).
func (r *reach) failed(began, now time.Time, random float64) {
	if began.Before(r.answeredAt) {
		return // the attempt began before the latest answer, so it says nothing about the time after
	}
	if r.failures == 0 {
		r.since = now
	}
	r.failures++
	if !r.unreached && r.failures >= unreachedAfter {
		r.unreached = true
		r.wait(now, random)
	}
}

// pingFailed notes a ping to an unreached colo that was not answered. random is from [0, 1).
func (r *reach) pingFailed(now time.Time, random float64) {
	if r.unreached { // else a request was answered meanwhile
		r.pings++
		r.wait(now, random)
	}
}

// wait sets when the next ping is due.
func (r *reach) wait(now time.Time, random float64) {
	d := minUnreached << min(r.pings, 5) // 32 s, so that the bound leaves some of the jitter
	d = time.Duration(float64(d) * (1 + unreachedJitter*(2*random-1)))
	r.until = now.Add(min(d, maxUnreached))
}

// pingDue reports whether a ping must decide now.
func (r *reach) pingDue(now time.Time) bool { return r.unreached && !now.Before(r.until) }

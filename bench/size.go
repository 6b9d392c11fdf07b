package bench

import "time"

// size says how large everything is.
type size struct {
	rough    bool // too short for a verdict; and all gateways run side by side
	engines  int
	slots    int // of each
	pace     pace
	tokens   int           // of a common answer
	costlier int           // times as costly as common are the requests of the account heavy
	louder   int           // times as often as others the account flooder asks
	clients  int           // that leave at once
	stretch  float64       // of all times
	measure  time.Duration // of capacity
	grace    time.Duration // for those that are under way when what is measured is over
	late     time.Duration // so late the load generator itself may be
	quiet    time.Duration // what is held after so long is leaked
}

// The engines are slow and few on purpose: what is measured is who waits for whom, and two cores must not be what
// limits it.
var (
	full = size{
		engines: 4, slots: 4, pace: pace{100 * time.Millisecond, 10 * time.Millisecond}, tokens: 19,
		costlier: 100, louder: 100, clients: 2000, stretch: 1, measure: 1500 * time.Millisecond,
		grace: time.Second, late: 10 * time.Millisecond, quiet: 3 * time.Second,
	}
	brief = size{
		rough: true, engines: 4, slots: 2, pace: pace{60 * time.Millisecond, 10 * time.Millisecond}, tokens: 15,
		costlier: 20, louder: 20, clients: 240, stretch: 0.16, measure: 600 * time.Millisecond,
		grace: 300 * time.Millisecond, late: 50 * time.Millisecond, quiet: 2 * time.Second,
	}
)

// under is when load is sent for a window to be measured: before it, until queues are as they stay, and after it, until
// what was due in it has had its time. What is answered because the load has stopped says nothing of overload.
func (z size) under(window span) span { return span{0, window.until + z.grace} }

// shape is the common request.
func (z size) shape() shape { return shape{z.pace, z.tokens, 8} }

// long is so many seconds of a full run.
func (z size) long(seconds float64) time.Duration {
	return time.Duration(z.stretch * seconds * float64(time.Second))
}

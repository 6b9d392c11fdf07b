package bench

import "time"

// preset says how large everything is.
type preset struct {
	quick        bool // too short for a verdict; and all gateways run side by side
	engines      int
	slots        int // of each
	timing       timing
	tokens       int           // of a common answer
	costFactor   int           // times as costly as common are the requests of the account heavy
	floodFactor  int           // times as often as others the account flooder asks
	clients      int           // that leave at once
	timeScale    float64       // of all times
	capacityTime time.Duration // of capacity
	grace        time.Duration // for those that are under way when what is measured is over
	maxLateness  time.Duration // so late the load generator itself may be
	leakWait     time.Duration // what is held after so long is leaked
}

// The engines are slow and few on purpose: what is measured is who waits for whom, and two cores must not be what
// limits it.
var (
	fullRun = preset{
		engines: 4, slots: 4, timing: timing{100 * time.Millisecond, 10 * time.Millisecond}, tokens: 19,
		costFactor: 100, floodFactor: 100, clients: 2000, timeScale: 1, capacityTime: 1500 * time.Millisecond,
		grace: time.Second, maxLateness: 10 * time.Millisecond, leakWait: 3 * time.Second,
	}
	quickRun = preset{
		quick: true, engines: 4, slots: 2, timing: timing{60 * time.Millisecond, 10 * time.Millisecond}, tokens: 15,
		costFactor: 20, floodFactor: 20, clients: 240, timeScale: 0.16, capacityTime: 600 * time.Millisecond,
		grace: 300 * time.Millisecond, maxLateness: 50 * time.Millisecond, leakWait: 2 * time.Second,
	}
)

// loadInterval is when load is sent for a window to be measured: before it, until queues are as they stay, and after it, until
// what was due in it has had its time. What is answered because the load has stopped says nothing of overload.
func (z preset) loadInterval(window interval) interval { return interval{0, window.end + z.grace} }

// shape is the common request.
func (z preset) shape() requestShape { return requestShape{z.timing, z.tokens, 8} }

// seconds is so many seconds of a full run.
func (z preset) seconds(seconds float64) time.Duration {
	return time.Duration(z.timeScale * seconds * float64(time.Second))
}

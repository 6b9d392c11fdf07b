package bench

import "time"

// preset is the size of a run.
type preset struct {
	quick        bool // too short for a verdict, and all gateways run side by side
	engines      int
	slots        int // of each engine
	timing       timing
	tokens       int           // of a common answer
	costFactor   int           // how many times as costly as common ones the requests of heavyAccount are
	floodFactor  int           // how many times as many requests as others floodAccount sends
	clients      int           // of the crowd that leaves
	backlog      time.Duration // work that the burst of the retry scenario brings, in time that the engines need for it
	retryCutoff  time.Duration // end of that scenario, also for clients with a later Retry-After; 0: none
	timeScale    float64
	capacityTime time.Duration // of one measurement of the capacity
	grace        time.Duration // for requests in flight at the end of a window
	maxLateness  time.Duration // of the load generator, before a note says so
	leakWait     time.Duration // see runner
}

// The engines are slow and few on purpose: waiting is measured, and the two cores of a small machine must not limit it.
var (
	fullRun = preset{
		engines: 4, slots: 4, timing: timing{100 * time.Millisecond, 10 * time.Millisecond}, tokens: 19,
		costFactor: 100, floodFactor: 100, clients: 2000, backlog: 6 * time.Second, timeScale: 1,
		capacityTime: 1500 * time.Millisecond,
		grace:        time.Second, maxLateness: 10 * time.Millisecond, leakWait: 3 * time.Second,
	}
	quickRun = preset{
		quick: true, engines: 4, slots: 2, timing: timing{60 * time.Millisecond, 10 * time.Millisecond}, tokens: 15,
		costFactor: 20, floodFactor: 20, clients: 240, backlog: 1800 * time.Millisecond, retryCutoff: 7 * time.Second, timeScale: 0.16,
		capacityTime: 600 * time.Millisecond,
		grace:        300 * time.Millisecond, maxLateness: 50 * time.Millisecond, leakWait: 2 * time.Second,
	}
)

// loadInterval is when load is sent for a window: from before it, until queues have their lasting length, to after it, until
// the requests that were due in it have had their time.
func (p preset) loadInterval(window interval) interval { return interval{0, window.end + p.grace} }

// shape is that of the common request.
func (p preset) shape() requestShape { return requestShape{p.timing, p.tokens, 8} }

// seconds is the duration that takes so many seconds in a full run.
func (p preset) seconds(n float64) time.Duration {
	return time.Duration(p.timeScale * n * float64(time.Second))
}

// queue bounds the queue of a gateway. Six times the slots are enough that no slot runs empty by chance, and are served
// in six times the duration of a request.
func (p preset) queue(long bool) Queue {
	slots := p.engines * p.slots
	if long {
		return Queue{Limit: 2 * p.clients, PerAccount: 2 * p.clients, MaxWait: 10 * time.Minute}
	}
	return Queue{Limit: 6 * slots, PerAccount: 2 * slots, MaxWait: 5 * time.Second}
}

package bench

import (
	"time"
)

// outcome is how a request ended, as its client saw it.
type outcome uint8

const (
	failed       outcome = iota // no whole answer: an error, a cut stream, or none in time
	completed                   // a whole stream
	refused                     // 429 or 503
	disconnected                // its client left first, as it was meant to
	expired                     // begun, and given up when the deadline that it carried had passed: 504
	unfinished                  // still under way when the trial was over
)

// sample is one request as its client saw it. Moments count from the trial's beginning; negative ones did not come.
type sample struct {
	id      uint64
	flow    int
	attempt int // from 0

	due   time.Duration // when it was to be sent
	sent  time.Duration // when it was
	first time.Duration // first event with data
	ended time.Duration // end of the answer, or of the connection

	outcome outcome
	status  int
	tokens  int // events with data

	retryAfter time.Duration // as told; negative: nothing was told
	reason     string
	queued     time.Duration // as told by a refusal; negative: nothing was told
	problem    string        // of a failed one
	message    string        // as the body of a refusal that is none of load says
}

// ttft is the time to the first token, counted from when the request was due. It is negative if none came.
func (s *sample) ttft() time.Duration {
	if s.first < 0 {
		return -1
	}
	return s.first - s.due
}

// job is one request as an engine saw it. Moments count from the trial's beginning.
type job struct {
	id      uint64
	engine  int
	arrived time.Duration // at the engine
	held    interval      // its slot; empty if it never had one
	tokens  int
	input   int
	served  bool
}

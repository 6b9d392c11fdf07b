package bench

import (
	"fmt"
	"strings"
	"time"
)

// outcome is how a request ended, as its client saw it.
type outcome uint8

const (
	failed       outcome = iota // no complete answer: an error, a cut stream, or none in time
	completed                   // a complete stream
	refused                     // 429 or 503
	disconnected                // its client left first, as intended
	expired                     // 504: it began, and was given up at its deadline
	unfinished                  // still in flight at the end of the trial
)

// sample is one request as its client saw it. Moments count from the beginning of the trial; negative ones did not come.
type sample struct {
	id      uint64
	flow    int
	attempt int // from 0

	due   time.Duration // when it was to be sent
	sent  time.Duration // when it was sent
	first time.Duration // first event with data
	ended time.Duration // end of the answer, or of the connection

	outcome outcome
	status  int
	tokens  int // events with data

	retryAfter time.Duration // as told; negative: nothing
	reason     string
	queued     time.Duration // as told by a refusal; negative: nothing
	problem    string        // of a failed request
	message    string        // in the body of a client error
}

// ttft is the time to first token since the request was due, negative if none came.
func (s *sample) ttft() time.Duration {
	if s.first < 0 {
		return -1
	}
	return s.first - s.due
}

// describe says what came of a request that was not answered.
func (s *sample) describe() string {
	text := s.problem
	if text == "" {
		text = fmt.Sprintf("status %d", s.status)
	}
	return strings.TrimSpace(text + " " + s.reason)
}

// isClientError reports whether the gateway objected to the request itself, so that sending it again is of no use.
func (s *sample) isClientError() bool { return s.status >= 400 && s.status < 500 && s.status != 429 }

// served reports whether the request got an answer, or was getting it at the end of the trial.
func (s *sample) served() bool { return s.outcome == completed || s.outcome == unfinished }

// job is one request as an engine saw it. Moments count from the beginning of the trial.
type job struct {
	id      uint64
	engine  int
	arrived time.Duration // at the engine
	held    interval      // its slot; empty if it never had one
	tokens  int
	input   int
	served  bool
}

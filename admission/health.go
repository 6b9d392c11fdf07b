package admission

import (
	"math/rand/v2"
	"strings"
	"time"
)

const (
	failuresToEject    = 5 // in a row
	checksToTakeDown   = 2 // failed, in a row; one of an engine that has never answered
	minEjection        = time.Second
	maxEjection        = 60 * time.Second
	forgetEjectsAfter  = 5 * time.Minute        // without another ejection
	firstCheckInterval = 100 * time.Millisecond // of an engine that has never answered, or refuses connections: it may start in a moment
)

// health is the health of one engine, by its health checks (active) and by the requests sent to it (passive). Time is
// passed in. Its owner locks.
type health struct {
	failures  int    // of requests, in a row
	failure   string // the last of these
	ejections int    // with less than forgetEjectsAfter between them
	ejectedAt time.Time
	until     time.Time // ejected up to then at least, and until a health check succeeds
	ejected   bool
	refusing  bool // the last connection was refused, and no health check or request has succeeded since

	answered      bool // it has answered a health check or a request as it should, at any time
	checkFailures int  // of health checks, in a row
	down          bool
	checkError    string // of the last health check; empty if it succeeded

	silence silence
}

// The states of an endpoint by its health, the worst first.
const (
	stateDown    = "down"
	stateSilent  = "silent"
	stateEjected = "ejected"
	stateUp      = "up"
	// stateDraining is that of an engine whose document takes it out, however its health is.
	stateDraining = "draining"
)

func (h *health) usable() bool { return h.state() == stateUp }

// failed counts one failed request. It ejects after failuresToEject in a row, if it may.
func (h *health) failed(now time.Time, reason string, may func() bool) {
	h.failures++
	h.failure = truncate(reason)
	if h.ejected || h.failures < failuresToEject || !may() {
		return
	}
	if now.Sub(h.ejectedAt) > forgetEjectsAfter {
		h.ejections = 0
	}
	out := min(minEjection<<min(h.ejections, 10), maxEjection)
	h.ejections++
	h.ejected, h.ejectedAt = true, now
	h.until = now.Add(out + rand.N(out/4))
}

// refused takes a connection that was refused or reset before anything was sent: no request can be the cause. It ejects at once, if it
// may, for a second that does not double, and has the engine checked soon.
func (h *health) refused(now time.Time, reason string, may func() bool) {
	h.failures = max(h.failures+1, failuresToEject)
	h.failure, h.refusing = truncate(reason), true
	if h.ejected || !may() {
		return
	}
	h.ejected = true
	h.until = now.Add(minEjection + rand.N(minEjection/4))
}

func (h *health) succeeded() { h.failures, h.answered, h.refusing = 0, true, false }

// checked takes the result of one health check. An engine that has never answered is down after the first failure: as a
// rule its URL is wrong, or it has yet to start.
func (h *health) checked(now time.Time, err error) {
	if err != nil {
		h.checkFailures++
		h.checkError = truncate(err.Error())
		h.down = h.down || !h.answered || h.failsChecks()
		if h.ejected {
			h.until = now.Add(minEjection)
		}
		return
	}
	h.answered, h.checkFailures, h.down, h.checkError, h.refusing = true, 0, false, "", false
	if h.ejected && !now.Before(h.until) {
		h.readmit()
	}
}

// flawless reports whether a request that succeeds changes nothing.
func (h *health) flawless() bool { return h.failures == 0 && h.answered && !h.refusing }

func (h *health) failsChecks() bool { return h.checkFailures >= checksToTakeDown }

// fails reports whether the health checks of an engine that is out have failed again and again.
func (h *health) fails() bool {
	return h.down && h.failsChecks() || h.silence.silent && h.silence.timeouts >= checksToTakeDown
}

// checkInterval is the time to the next health check, where the document says interval.
func (h *health) checkInterval(interval time.Duration) time.Duration {
	switch {
	case h.silence.suspect() && !h.silence.silent:
		return min(interval, suspectInterval)
	case h.answered && !h.refusing:
		return interval
	}
	return min(interval, firstCheckInterval<<min(max(h.checkFailures-1, 0), 10))
}

// maxReason bounds what is kept of an error, in bytes: it may repeat what an engine has said.
const maxReason = 200

func truncate(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// readmit ends an ejection. One more failed request ejects the engine again.
func (h *health) readmit() { h.ejected, h.failures = false, failuresToEject-1 }

// reason returns the error behind the state; empty if there is none.
func (h *health) reason() string {
	switch h.state() {
	case stateSilent:
		return h.silence.reason()
	case stateEjected:
		return h.failure
	}
	return h.checkError
}

// state names the state in metrics and logs.
func (h *health) state() string {
	switch {
	case h.down:
		return stateDown
	case h.silence.silent:
		return stateSilent
	case h.ejected:
		return stateEjected
	}
	return stateUp
}

package admission

import (
	"math/rand/v2"
	"strings"
	"time"
)

const (
	failuresToEject    = 5 // in a row
	probesToTakeDown   = 2 // failed, in a row; one for an engine that has never answered
	minEjection        = time.Second
	maxEjection        = 60 * time.Second
	forgetEjectsAfter  = 5 * time.Minute        // of success
	firstProbeInterval = 100 * time.Millisecond // from one probe of it to the next, at first: it may begin a moment after us
)

// health is what is known of one engine. Time is passed in. Its owner locks.
type health struct {
	failures  int    // passive, in a row
	failure   string // the last of them
	ejections int    // without a long time of success between them
	ejectedAt time.Time
	until     time.Time // ejected until then at least, and until a probe succeeds
	ejected   bool

	known         bool // it has answered something, as it should
	probeFailures int  // in a row
	down          bool
	probeError    string // the last probe failed
}

func (h *health) usable() bool { return !h.ejected && !h.down }

// failed counts one failure. It ejects after five in a row, if it may.
func (h *health) failed(now time.Time, why string, may func() bool) {
	h.failures++
	h.failure = truncate(why)
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

func (h *health) succeeded() { h.failures, h.known = 0, true }

// probed takes the result of one health check. Of an engine that has never answered nothing speaks for a second try: as
// a rule its URL is wrong, or it has yet to start.
func (h *health) probed(now time.Time, err error) {
	if err != nil {
		h.probeFailures++
		h.probeError = truncate(err.Error())
		h.down = h.down || !h.known || h.failsProbes()
		if h.ejected {
			h.until = now.Add(minEjection)
		}
		return
	}
	h.known, h.probeFailures, h.down, h.probeError = true, 0, false, ""
	if h.ejected && !now.Before(h.until) {
		h.readmit()
	}
}

func (h *health) failsProbes() bool { return h.probeFailures >= probesToTakeDown }

// probeInterval is how long after a probe comes the next, of an engine whose document says so.
func (h *health) probeInterval(interval time.Duration) time.Duration {
	if h.known {
		return interval
	}
	return min(interval, firstProbeInterval<<min(max(h.probeFailures-1, 0), 10))
}

// maxReason bounds what is kept of an error, which may repeat what an engine has said.
const maxReason = 200

func truncate(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
}

// readmit ends an ejection. One more failure ejects it again.
func (h *health) readmit() { h.ejected, h.failures = false, failuresToEject-1 }

// reason says why h is as it is; empty if nothing is the matter.
func (h *health) reason() string {
	if h.ejected && !h.down {
		return h.failure
	}
	return h.probeError
}

// state names h in metrics.
func (h *health) state() string {
	switch {
	case h.down:
		return "down"
	case h.ejected:
		return "ejected"
	}
	return "up"
}

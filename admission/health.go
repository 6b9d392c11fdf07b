package admission

import (
	"math/rand/v2"
	"time"
)

const (
	failuresToEject   = 5 // in a row
	probesToTakeDown  = 2 // failed, in a row
	ejectFirst        = time.Second
	ejectLongest      = 60 * time.Second
	forgetEjectsAfter = 5 * time.Minute // of success
)

// health is what is known of one engine. Time is passed in. Its owner locks.
type health struct {
	failures  int // passive, in a row
	ejections int // without a long time of success between them
	ejectedAt time.Time
	until     time.Time // ejected until then at least, and until a probe succeeds
	ejected   bool

	probeFailures int // in a row
	down          bool
}

func (h *health) usable() bool { return !h.ejected && !h.down }

// failed counts one failure. It ejects after five in a row, if it may.
func (h *health) failed(now time.Time, may func() bool) {
	h.failures++
	if h.ejected || h.failures < failuresToEject || !may() {
		return
	}
	if now.Sub(h.ejectedAt) > forgetEjectsAfter {
		h.ejections = 0
	}
	out := min(ejectFirst<<min(h.ejections, 10), ejectLongest)
	h.ejections++
	h.ejected, h.ejectedAt = true, now
	h.until = now.Add(out + rand.N(out/4))
}

func (h *health) succeeded() { h.failures = 0 }

// probed takes the result of one health check.
func (h *health) probed(now time.Time, err error) {
	if err != nil {
		h.probeFailures++
		h.down = h.down || h.probeFailures >= probesToTakeDown
		if h.ejected {
			h.until = now.Add(ejectFirst)
		}
		return
	}
	h.probeFailures, h.down = 0, false
	if h.ejected && !now.Before(h.until) {
		h.recall()
	}
}

// recall ends an ejection. One more failure ejects it again.
func (h *health) recall() { h.ejected, h.failures = false, failuresToEject-1 }

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

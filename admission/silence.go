package admission

import (
	"fmt"
	"sync/atomic"
	"time"

	"colonnade/permits"
)

const (
	listenInterval = 250 * time.Millisecond // between two looks at what engines have sent
	// maxListenGap is the most that one interval between two looks counts. A node that was stopped, or had no processor, could not hear.
	maxListenGap     = time.Second
	clientsToSuspect = 3 // gave up, in a row, without a byte to anyone: half the silence suffices
	suspectInterval  = time.Second
)

// signsOfLife is what requests tell of their engine without the manager's mutex. It is safe for concurrent use.
type signsOfLife struct {
	received atomic.Bool  // bytes have arrived since the last look
	gaveUp   atomic.Int32 // requests whose client has left, or whose time has run out, since the last look
	flawless atomic.Bool  // health.flawless, which the manager sets
}

// silence finds that an engine hangs: that it works on requests, sends nothing to any of them, and answers no health check. An engine
// that is slow streams bytes or answers health checks. Only time in which this node itself ran counts. Its owner locks.
type silence struct {
	mute       time.Duration // since the engine was asked for anything and gave no sign of life
	unanswered time.Duration // of that, since a health check began that timed out
	timeouts   int           // health checks that timed out, in a row
	gaveUp     int           // requests that gave up
	checking   bool          // a health check was ordered because of the silence
	silent     bool
}

// heard takes a sign of life: bytes of any request, or a health check that was answered.
func (s *silence) heard() { *s = silence{} }

// passed takes the time since the last look, in which nothing was heard. held says that requests are on the engine, and bound is the
// silence of its document. It reports whether to check the engine's health at once.
func (s *silence) passed(d time.Duration, held bool, gaveUp int, bound time.Duration) (check bool) {
	s.gaveUp += gaveUp
	if !held && s.mute == 0 {
		return false // nothing was asked of it
	}
	d = min(d, maxListenGap)
	s.mute += d
	if s.timeouts > 0 {
		s.unanswered += d
	}
	bound = s.bound(bound)
	s.silent = s.silent || s.timeouts > 0 && s.mute >= bound && s.unanswered >= bound/2
	if s.checking || !held || s.mute < bound/2 && s.gaveUp < clientsToSuspect {
		return false
	}
	s.checking = true
	return true
}

// timedOut takes a health check that timed out after a time.
func (s *silence) timedOut(after time.Duration) {
	if s.timeouts++; s.timeouts == 1 {
		s.unanswered = min(after, s.mute)
	}
}

// bound is the silence after which an engine hangs, if its document says so much.
func (s *silence) bound(document time.Duration) time.Duration {
	if s.gaveUp >= clientsToSuspect {
		return document / 2
	}
	return document
}

// suspect reports whether the engine may hang: what it holds may never be released by itself.
func (s *silence) suspect() bool { return s.mute > 0 && s.timeouts > 0 }

// reason says what shows that the engine hangs.
func (s *silence) reason() string {
	text := fmt.Sprintf("no byte to any request, and %s timed out", count(s.timeouts, "health check"))
	if s.gaveUp > 0 {
		text += fmt.Sprintf("; %s gave up", count(s.gaveUp, "client"))
	}
	return text
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// listenLocked looks at what every engine has sent since the last look, and takes out those that are silent.
func (m *Manager) listenLocked(now time.Time) {
	passed := now.Sub(m.listened)
	if passed < listenInterval {
		return
	}
	m.listened = now
	for _, e := range m.engines {
		if e.pool != nil && e.granted {
			m.listenToLocked(e, now, passed)
		}
	}
}

func (m *Manager) listenToLocked(e *engine, now time.Time, passed time.Duration) {
	received, gaveUp := e.signs.received.Swap(false), int(e.signs.gaveUp.Swap(0))
	life := permits.Unheard
	switch {
	case received:
		life = permits.Alive
	case e.health.silence.suspect():
		life = permits.Doubtful
	}
	held := e.pool.permits.ReportLife(e.endpoint.URL, life) > 0
	m.changeLocked(e, now, func(h *health) {
		if received {
			h.silence.heard()
			return
		}
		if h.silence.passed(passed, held, gaveUp, e.endpoint.Health.Silence.Std()) {
			e.checkDue = true
			e.wake()
		}
	})
}

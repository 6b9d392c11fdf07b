package entry

import (
	"time"
)

// sweep looks at all servers. It gives up the attempts at those that have become silent, and returns the servers to ask for a sign of life.
func (l *liveness) sweep(now time.Time) (ask []*watchedServer) {
	var silent []*unanswered
	l.mu.Lock()
	l.followTableLocked()
	if !l.swept.IsZero() && now.Sub(l.swept) >= l.timings.ask {
		l.startAgainLocked(now) // this process was stopped, or is short of processor time: the silence was its own
	}
	l.swept = now
	anySilent := false
	for _, w := range l.servers {
		if w.heard.Swap(false) {
			w.alive(now)
		}
		silent = append(silent, w.takeSilent(now, &l.timings)...)
		if w.shouldAsk(now, &l.timings) {
			w.asking, w.askedAt = true, now
			ask = append(ask, w)
		}
		anySilent = anySilent || w.silent
	}
	l.anySilent.Store(anySilent)
	l.mu.Unlock()
	for _, u := range silent {
		u.cancel(errSilent)
	}
	return ask
}

// followTableLocked forgets servers that have left the table, and learns which of the others have lost their lease.
func (l *liveness) followTableLocked() {
	if l.markDead == nil && len(l.servers) == 0 {
		return
	}
	t := l.table()
	if t == l.known {
		return
	}
	l.known = t
	inTable := map[process]bool{}
	for _, c := range t.Colos() {
		for _, s := range t.Servers(c.Name) {
			inTable[processOf(s)] = true
			expired := isExpired(t, s)
			if w := l.servers[processOf(s)]; w != nil || expired {
				w = l.watchedLocked(s)
				w.server, w.expired = s, expired
			}
		}
	}
	for p, w := range l.servers {
		if !inTable[p] && len(w.waiting) == 0 {
			delete(l.servers, p)
		}
	}
}

// startAgainLocked makes every silence begin now.
func (l *liveness) startAgainLocked(now time.Time) {
	for _, w := range l.servers {
		if !w.silent {
			w.quietSince, w.askedAt, w.failed = now, now, 0
		}
	}
}

// shouldAsk reports whether the server is to be asked for a sign of life now.
func (w *watchedServer) shouldAsk(now time.Time, t *livenessTimings) bool {
	switch sinceAsked := now.Sub(w.askedAt); {
	case w.asking:
		return false
	case w.silent, w.expired:
		return sinceAsked >= t.again
	default:
		return len(w.waiting) > 0 && now.Sub(w.quietSince) >= t.ask && sinceAsked >= t.ask
	}
}

// takeSilent returns the attempts to give up: all of a server that is silent for long enough although it was asked.
func (w *watchedServer) takeSilent(now time.Time, t *livenessTimings) (given []*unanswered) {
	if len(w.waiting) == 0 || now.Sub(w.quietSince) < t.giveUp || w.failed == 0 && (!w.asking || now.Sub(w.askedAt) < t.giveUp-t.ask) {
		return nil
	}
	w.silent = true
	for u := range w.waiting {
		u.givenUp = true
		given = append(given, u)
	}
	clear(w.waiting)
	return given
}

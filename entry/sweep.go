package entry

import (
	"time"

	"colonnade/fleet"
)

// question is a question for a sign of life. The server of a table that follows may be another one of the same process.
type question struct {
	of     *watchedServer
	server *fleet.Server
}

// sweep looks at all servers. It gives up the attempts at those that have become silent, and returns which servers to ask for a sign of life.
func (l *liveness) sweep(now time.Time) (ask []question) {
	var silent []*unanswered
	l.mu.Lock()
	l.followTableLocked()
	l.discountLocked(now)
	l.swept = now
	anySilent := false
	for _, w := range l.servers {
		if w.heard.Swap(false) {
			w.alive(now)
		}
		silent = append(silent, w.takeSilent(now, &l.timings)...)
		if w.shouldAsk(now, &l.timings) {
			w.asking, w.askedAt = true, now
			ask = append(ask, question{w, w.server})
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

// discountLocked takes the time by which this sweep is late off every silence: this process was stopped, or is short of processor time, and so
// may be the servers on its machine.
func (l *liveness) discountLocked(now time.Time) {
	late := now.Sub(l.swept) - l.timings.sweep
	if l.swept.IsZero() || late < l.timings.sweep {
		return
	}
	for _, w := range l.servers {
		switch {
		case w.silent:
		case late >= l.timings.ask:
			w.quietSince, w.askedAt, w.failed = now, now, 0
		default:
			w.quietSince, w.askedAt = earliest(w.quietSince.Add(late), now), earliest(w.askedAt.Add(late), now)
		}
	}
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
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

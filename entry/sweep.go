package entry

import (
	"time"

	"colonnade/fleet"
)

// probe is one probe of a server. It keeps the server document of its table, since a later table may have another one for the same process.
type probe struct {
	watched *watchedServer
	server  *fleet.Server
}

// sweep checks all servers. It gives up the attempts at those that have become silent, and returns the probes to make.
func (l *liveness) sweep(now time.Time) (probes []probe) {
	var silent []*pendingAttempt
	l.mu.Lock()
	l.followTableLocked(now)
	l.discountLocked(now)
	l.swept = now
	anySilent := false
	for _, w := range l.servers {
		if w.heard.Swap(false) {
			w.noteAlive(now)
		}
		silent = append(silent, w.takeSilent(now, &l.timings)...)
		if w.shouldProbe(now, &l.timings) {
			w.probing, w.probedAt = true, now
			probes = append(probes, probe{w, w.server})
		}
		anySilent = anySilent || w.silent
	}
	l.anySilent.Store(anySilent)
	l.mu.Unlock()
	for _, u := range silent {
		u.cancel(errSilent)
	}
	return probes
}

// followTableLocked forgets servers that are not in the table, and learns which of the others have lost their lease. A server that only
// verdicts have named is forgotten with its last attempt, or, if it is silent, after silentLifetime: there is no bound on how many there are.
func (l *liveness) followTableLocked(now time.Time) {
	if l.markDead == nil && len(l.servers) == 0 {
		return
	}
	t := l.table()
	changed := t != l.known
	if changed {
		l.learnLocked(t)
	}
	for p, w := range l.servers {
		if !l.inTable[p] && len(w.waiting) == 0 && (changed || !w.silent || now.Sub(w.quietSince) >= silentLifetime) {
			delete(l.servers, p)
		}
	}
}

// learnLocked learns which servers are in a table, and which of these have lost their lease.
func (l *liveness) learnLocked(t *fleet.Table) {
	l.known, l.inTable = t, map[process]bool{}
	for _, c := range t.Colos() {
		for _, s := range t.Servers(c.Name) {
			l.inTable[processOf(s)] = true
			expired := isExpired(t, s)
			if w := l.servers[processOf(s)]; w != nil || expired {
				w = l.watchedLocked(s)
				w.server, w.expired = s, expired
			}
		}
	}
}

// discountLocked subtracts the time by which this sweep is late from every silence: this process was stopped, or is short of processor time,
// and so may be the servers on its machine.
func (l *liveness) discountLocked(now time.Time) {
	late := now.Sub(l.swept) - l.timings.sweep
	if l.swept.IsZero() || late < l.timings.sweep {
		return
	}
	for _, w := range l.servers {
		switch {
		case w.silent:
		case late >= l.timings.probeAfter:
			w.quietSince, w.probedAt, w.failed = now, now, 0
		default:
			w.quietSince, w.probedAt = earliest(w.quietSince.Add(late), now), earliest(w.probedAt.Add(late), now)
		}
	}
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// shouldProbe reports whether the server must be probed now.
func (w *watchedServer) shouldProbe(now time.Time, t *livenessTimings) bool {
	switch sinceProbe := now.Sub(w.probedAt); {
	case w.probing:
		return false
	case w.silent, w.expired:
		return sinceProbe >= t.probeInterval
	default:
		return len(w.waiting) > 0 && now.Sub(w.quietSince) >= t.probeAfter && sinceProbe >= t.probeAfter
	}
}

// takeSilent returns the attempts to give up: all of a server that has been silent for giveUpAfter although it was probed.
func (w *watchedServer) takeSilent(now time.Time, t *livenessTimings) (given []*pendingAttempt) {
	if len(w.waiting) == 0 || now.Sub(w.quietSince) < t.giveUpAfter || w.failed == 0 && (!w.probing || now.Sub(w.probedAt) < t.giveUpAfter-t.probeAfter) {
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

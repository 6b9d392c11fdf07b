package liveness

import (
	"time"

	"colonnade/forwarding/peer"
)

// probe is one probe of a server. It keeps the server as it is now, since another registration may follow for the same process.
type probe struct {
	watched *watchedServer
	server  peer.Server
}

// sweep checks all servers. It gives up the attempts at those that have become silent, and returns the probes to make.
func (w *Watcher) sweep(now time.Time) (probes []probe) {
	timings := &w.config.Timings
	var silent []*pendingAttempt
	w.mu.Lock()
	w.followLocked(now)
	w.discountLocked(now)
	w.swept = now
	anySilent := false
	for _, s := range w.servers {
		if s.heard.Swap(false) {
			s.noteAlive(now)
		}
		silent = append(silent, s.takeSilent(now, timings)...)
		if s.shouldProbe(now, timings) {
			s.probing, s.probedAt = true, now
			probes = append(probes, probe{s, s.server})
		}
		anySilent = anySilent || s.silent
	}
	w.anySilent.Store(anySilent)
	w.mu.Unlock()
	for _, a := range silent {
		a.abort.End(peer.ErrSilent)
	}
	return probes
}

// followLocked forgets servers that are not registered, and learns which of the others have lost their lease. There is no bound on how many
// servers verdicts and hop tokens name, so a server that is known only by them is forgotten in time; see [Watcher.isForgottenLocked].
func (w *Watcher) followLocked(now time.Time) {
	if w.config.MarkDead == nil && len(w.servers) == 0 {
		return
	}
	changed := false
	if w.config.Registered != nil {
		var registered []Registered
		if registered, changed = w.config.Registered(); changed {
			w.learnLocked(registered)
		}
	}
	for p, s := range w.servers {
		if len(s.waiting) > 0 {
			s.usedAt = now
		} else if !w.registered[p] && (changed || w.isForgottenLocked(s, now)) {
			delete(w.servers, p)
		}
	}
}

// isForgottenLocked reports whether a server that is not registered, and has no pending attempt, is forgotten. A silent one is forgotten after
// silentLifetime. Any other is forgotten with its last attempt if the watcher knows registrations, and otherwise after idleLifetime.
func (w *Watcher) isForgottenLocked(s *watchedServer, now time.Time) bool {
	switch {
	case s.silent:
		return now.Sub(s.quietSince) >= silentLifetime
	case w.config.Registered == nil:
		return now.Sub(s.usedAt) >= idleLifetime
	}
	return true
}

// learnLocked learns which servers are registered, and which of these have lost their lease.
func (w *Watcher) learnLocked(servers []Registered) {
	w.registered = make(map[process]bool, len(servers))
	for i := range servers {
		r := &servers[i]
		p := processOf(&r.Server)
		w.registered[p] = true
		if s := w.servers[p]; s != nil || r.Expired {
			s = w.watchedLocked(&r.Server)
			s.server, s.expired = r.Server, r.Expired
		}
	}
}

// discountLocked subtracts the time by which this sweep is late from every silence: this process was stopped, or is short of processor time,
// and so may be the servers on its machine.
func (w *Watcher) discountLocked(now time.Time) {
	timings := &w.config.Timings
	late := now.Sub(w.swept) - timings.Sweep
	if w.swept.IsZero() || late < timings.Sweep {
		return
	}
	for _, s := range w.servers {
		switch {
		case s.silent:
		case late >= timings.ProbeAfter:
			s.quietSince, s.probedAt, s.failed = now, now, 0
		default:
			s.quietSince, s.probedAt = earliest(s.quietSince.Add(late), now), earliest(s.probedAt.Add(late), now)
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
func (s *watchedServer) shouldProbe(now time.Time, t *Timings) bool {
	switch sinceProbe := now.Sub(s.probedAt); {
	case s.probing:
		return false
	case s.silent, s.expired:
		return sinceProbe >= t.ProbeInterval
	default:
		return len(s.waiting) > 0 && now.Sub(s.quietSince) >= t.ProbeAfter && sinceProbe >= t.ProbeAfter
	}
}

// takeSilent returns the attempts to give up: all of a server that has been silent for GiveUpAfter although it was probed.
func (s *watchedServer) takeSilent(now time.Time, t *Timings) (given []*pendingAttempt) {
	if len(s.waiting) == 0 || now.Sub(s.quietSince) < t.GiveUpAfter || s.failed == 0 && (!s.probing || now.Sub(s.probedAt) < t.GiveUpAfter-t.ProbeAfter) {
		return nil
	}
	s.silent = true
	for a := range s.waiting {
		a.givenUp = true
		given = append(given, a)
	}
	clear(s.waiting)
	return given
}

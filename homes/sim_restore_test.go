package homes_test

import (
	"slices"
	"time"
)

// restoreWindow is how long a restored store may be wrong about processes: until the leases of before have expired, and what siblings said
// until then holds no more.
const restoreWindow = 2*ttl + 3*time.Second

// restore says that the store was restored from a snapshot. The promise holds only if every process is in touch with the store before and
// afterwards, and none starts: no other process knows what one holds that the store has forgotten, and one that starts does not know
// that anything was forgotten. Otherwise the promise does not hold in the window, nor for what began in it, and the window is as long as a process
// stays out of touch afterwards: it may be granting, and the store has forgotten that.
type restore struct {
	at       time.Duration
	excepted bool
	over     bool
}

// restoreStore takes a snapshot, and some time later brings the store back as it was then.
func (s *simulation) restoreStore() {
	snapshot := s.store.clone()
	s.after(s.between(time.Second, 15*time.Second), func() {
		if s.store.away || s.healed {
			return
		}
		inTouch := s.inTouch()
		s.store.setAway(true)
		s.after(s.between(0, 10*time.Second), func() {
			if s.healed {
				return
			}
			s.tracef("the store is restored: revision %d becomes %d; all in touch: %v", s.store.revision, snapshot.revision, inTouch)
			s.restored = restore{at: s.now, excepted: !inTouch || !s.inTouch() || s.namesReturn(snapshot)}
			s.store.restore(snapshot)
			s.store.setAway(false)
			for _, p := range s.processes {
				p.writtenOff = false
			}
			s.endRestoreLater(s.now)
		})
	})
}

// restoreAfter brings the store back after a moment, as it is now.
func (s *simulation) restoreAfter(d time.Duration) {
	snapshot := s.store.clone()
	s.after(d, func() {
		s.restored = restore{at: s.now, excepted: !s.inTouch()}
		s.store.restore(snapshot)
		s.store.setAway(false)
		s.endRestoreLater(s.now)
	})
}

// inTouch reports whether every process lives, runs, is not cut from anything, and knows the newest revision of the store.
func (s *simulation) inTouch() bool {
	for _, p := range s.processes {
		if p.dead && len(p.held()) > 0 || !p.dead && (p.stopped || p.host.storeCut.holds || p.newest != s.store.revision) {
			return false
		}
	}
	return len(s.net.cuts) == 0 && s.slowCalls == 0
}

// namesReturn reports whether a process must wait for its name, which a dead one has again by the snapshot: nothing knows for so long what
// the living one holds.
func (s *simulation) namesReturn(snapshot storeState) bool {
	return slices.ContainsFunc(s.living(), func(p *process) bool {
		server, found := snapshot.servers[p.Node]
		return found && server.Boot != p.Boot
	})
}

// restoring reports whether the store was restored a moment ago.
func (s *simulation) restoring() bool { return s.restored.at > 0 && !s.restored.over }

// endRestoreLater ends the window of the restore that began at a time.
func (s *simulation) endRestoreLater(at time.Duration) {
	s.after(restoreWindow, func() {
		switch {
		case s.restored.at != at: // there was another one
		case s.restored.excepted && slices.ContainsFunc(s.living(), (*process).outOfTouch):
			s.endRestoreLater(at)
		default:
			s.endRestore()
		}
	})
}

// outOfTouch reports whether the process is stopped, or cut from the store.
func (p *process) outOfTouch() bool { return p.stopped || p.host.storeCut.holds }

// endRestore takes what was begun meanwhile out of the count, if the promise did not hold.
func (s *simulation) endRestore() {
	s.restored.over = true
	if !s.restored.excepted {
		return
	}
	for _, p := range s.processes {
		p.except()
	}
}

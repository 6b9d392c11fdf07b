package entry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/peer"
)

const (
	// disbelievedAfter is how many answers of a colo in a row must have rejected this entry, before the colo counts as one that does not believe it.
	disbelievedAfter = 3
	// believedFor is for how long one answer of any colo shows that this entry is believed. After that, an entry without requests pings.
	believedFor = 30 * time.Second
)

// The values of coloState.belief.
const (
	beliefUnknown int32 = iota // the colo has never answered, or has not rejected this entry often enough
	beliefYes
	beliefNo
)

// noteBelievedLocked notes an answer to a request or a ping, other than a rejection.
func (s *coloState) noteBelievedLocked() {
	s.rejections = 0
	s.belief.Store(beliefYes)
}

// noteRejectedLocked notes an answer by which a server rejects this entry.
func (s *coloState) noteRejectedLocked() {
	if s.rejections++; s.rejections >= disbelievedAfter {
		s.belief.Store(beliefNo)
	}
}

// noteRejected notes a request that a server of a colo has rejected.
func (o *observations) noteRejected(colo string) {
	if s := o.state(colo); s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.noteRejectedLocked()
	}
}

// isRejected reports whether the error of a ping is an answer by which the server rejects this entry.
func isRejected(err error) bool {
	var answered *peer.NoVerdictError
	return errors.As(err, &answered) && answered.Rejected
}

// Disbelieving returns the colos that reject the hop tokens of this entry, sorted, and whether every colo that answers does so.
func (e *Entry) Disbelieving() (colos []string, all bool) {
	return e.observed.disbelieving()
}

func (o *observations) disbelieving() (colos []string, all bool) {
	states := o.states()
	if states.table == nil {
		return nil, false
	}
	all = true
	for _, c := range states.table.Colos() {
		s := states.byName[c.Name]
		switch belief := s.belief.Load(); {
		case c.State != fleet.StateActive:
		case belief == beliefNo:
			colos = append(colos, c.Name)
		case s.isLocal.Load(), belief == beliefYes && !s.unreached.Load():
			all = false
		case belief == beliefUnknown && !s.wasTried() && serverToPing(states.table, c.Name, 0) != nil:
			all = false // its first ping is due
		}
	}
	slices.Sort(colos)
	return colos, all && len(colos) > 0
}

// wasTried reports whether a request or a ping has shown anything of the colo, if only that it does not answer.
func (s *coloState) wasTried() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rejections > 0 || s.reach.failures > 0 || s.pings.sent > 0 && !s.pings.underWay
}

// notBelieved returns the reason why this entry is not ready, if every colo that answers rejects its hop tokens.
func (e *Entry) notBelieved() error {
	if colos, all := e.observed.disbelieving(); all {
		return fmt.Errorf("every colo that answers rejects the hop tokens of this entry (%s): its fleet key (-key-file) is another one than theirs, "+
			"or its clock is more than ten minutes off", strings.Join(colos, ", "))
	}
	return nil
}

// nextBeliefPing begins a ping of a colo if no colo has shown for believedFor whether it believes this entry: without requests, a wrong key
// would show only when the first client comes. The colos take turns until one believes; then one ping in believedFor is enough.
func (o *observations) nextBeliefPing(now time.Time) (p ping, ok bool) {
	states := o.states()
	if states.table == nil {
		return ping{}, false
	}
	var next *coloState
	var server *fleet.Server
	var last time.Time
	for _, c := range states.table.Colos() {
		s := states.byName[c.Name]
		if s.isLocal.Load() || s.hasBelievedAt(now) {
			return ping{}, false
		}
		at, n, due := s.beliefPingDue(now)
		if !due || c.State != fleet.StateActive || next != nil && !at.Before(last) {
			continue
		}
		if to := serverToPing(states.table, s.name, n); to != nil {
			next, server, last = s, to, at
		}
	}
	if next == nil {
		return ping{}, false
	}
	next.beginPing(now)
	return ping{next, server}, true
}

// hasBelievedAt reports whether the colo has believed this entry a short time ago.
func (s *coloState) hasBelievedAt(now time.Time) bool {
	if s.belief.Load() != beliefYes {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return now.Sub(s.reach.answeredAt) < believedFor
}

// beliefPingDue reports whether the colo may be pinged now, with the time of the last ping and the number of pings so far. Pings that fail
// become rarer.
func (s *coloState) beliefPingDue(now time.Time) (last time.Time, sent int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.pings
	switch {
	case p.underWay, s.reach.unreached: // of which the other pings take care
	case p.failed > 0:
		due = now.Sub(p.at) >= min(minUnreached<<min(p.failed-1, 10), believedFor)
	default:
		due = true
	}
	return p.at, p.sent, due
}

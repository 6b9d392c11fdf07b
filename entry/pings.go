package entry

import (
	"context"
	"errors"
	"sync"
	"time"

	"colonnade/fleet"
	"colonnade/forwarding/netconn"
	"colonnade/forwarding/peer"
)

const (
	// pingInterval is the least time between two pings of one entry.
	pingInterval = 100 * time.Millisecond
	// pingTimeout bounds one ping, which may need a new connection.
	pingTimeout = 2 * time.Second
	// measuredFor is for how long a round trip needs no ping after it was measured.
	measuredFor = 30 * time.Second
)

// pings is the state of the pings to one colo. It is not safe for concurrent use.
type pings struct {
	underWay bool
	sent     int       // number of pings so far; they take turns at the servers of the colo
	at       time.Time // when the last one began
	failed   int       // in a row
}

// ping is one ping under way.
type ping struct {
	state  *coloState
	server *fleet.Server
}

// runPings pings colos until ctx ends: unreached ones, those whose distance plans need and whose round trip was not measured for
// measuredFor, and one if it is not known whether any believes this entry. A ping asks a server for a sign of life, without a request; the server answers at once.
func (e *Entry) runPings(ctx context.Context) {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	var underWay sync.WaitGroup
	defer underWay.Wait()
	for {
		select {
		case <-tick.C:
			now := time.Now()
			p, ok := e.observed.nextPing(now)
			if !ok {
				p, ok = e.observed.nextBeliefPing(now)
			}
			if ok {
				underWay.Go(func() { e.ping(ctx, p) })
			}
		case <-ctx.Done():
			return
		}
	}
}

// nextPing begins a ping of the colo whose last ping is the longest ago, among those whose ping is due. ok is false if no ping is due.
func (o *observations) nextPing(now time.Time) (p ping, ok bool) {
	states := o.states()
	var next *coloState
	var server *fleet.Server
	var last time.Time
	for _, c := range states.table.Colos() {
		s := states.byName[c.Name]
		at, n, due := s.pingDue(now)
		if !due || next != nil && !at.Before(last) {
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

// serverToPing returns the active server of a colo whose turn it is after n pings, or nil if there is none.
func serverToPing(t *fleet.Table, colo string, n int) *fleet.Server {
	var active []*fleet.Server
	for _, s := range t.Servers(colo) {
		if s.State == fleet.StateActive {
			active = append(active, s)
		}
	}
	if len(active) == 0 {
		return nil
	}
	return active[n%len(active)]
}

// pingDue reports whether the colo must be pinged now, with the time of the last ping and the number of pings so far.
func (s *coloState) pingDue(now time.Time) (last time.Time, sent int, due bool) {
	if s.isLocal.Load() || !s.unreached.Load() && !s.asked.Load() {
		return time.Time{}, 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := &s.pings; {
	case p.underWay:
	case s.reach.unreached:
		due = s.reach.pingDue(now)
	case s.isMeasuredAt(now):
	case p.failed > 0:
		due = now.Sub(p.at) >= min(minUnreached<<min(p.failed-1, 10), measuredFor)
	default:
		due = p.at.IsZero() || now.Sub(p.at) >= measuredFor
	}
	return s.pings.at, s.pings.sent, due
}

// isMeasuredAt reports whether the round trip was measured a short time ago.
func (s *coloState) isMeasuredAt(now time.Time) bool {
	at := s.estimator.Latest()
	return !at.IsZero() && now.Sub(at) < measuredFor
}

func (s *coloState) beginPing(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pings.underWay, s.pings.at = true, now
	s.pings.sent++
	s.asked.Store(false)
}

// ping asks one server for a sign of life, and notes the result.
func (e *Entry) ping(ctx context.Context, p ping) {
	if e.local(p.server) != nil { // since the table was applied
		p.state.isLocal.Store(true)
		p.state.endPing(pingResult{noEvidence: true})
		return
	}
	within, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	roundTrip, measured, err := e.sender.Client.Ping(within, peerOf(p.server))
	isBack := p.state.endPing(pingResult{
		roundTrip: roundTrip, measured: measured, failed: err != nil, rejected: isRejected(err), at: time.Now(), random: e.observed.random(),
		noEvidence: ctx.Err() != nil || netconn.IsLocalShortage(err) || errors.Is(err, peer.ErrNotSigned),
	})
	if isBack {
		e.logReached(p.server)
	}
}

// pingResult is the result of a ping.
type pingResult struct {
	roundTrip  time.Duration // if measured
	measured   bool
	failed     bool
	rejected   bool // the server has answered that it rejects this entry
	noEvidence bool // the result says nothing about the colo: this process ends, or this machine lacks a resource
	at         time.Time
	random     float64 // from [0, 1)
}

// endPing notes the result of a ping, and reports whether the colo was unreached until now.
func (s *coloState) endPing(r pingResult) (isBack bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pings.underWay = false
	switch {
	case r.noEvidence:
	case r.failed:
		s.pings.failed++
		if r.rejected {
			s.noteRejectedLocked()
		}
		s.reach.pingFailed(r.at, r.random)
	default:
		s.pings.failed = 0
		isBack = s.answeredLocked(r.roundTrip, r.measured, r.at)
	}
	return isBack
}

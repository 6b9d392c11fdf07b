package colo

import (
	"context"
	"errors"
	"slices"
	"time"

	"colonnade/forwarding/hop"
	"colonnade/internal/ctxtime"
	"colonnade/permits"
)

// homePoll is how often a request looks again which server is the home of its pool.
const homePoll = 20 * time.Millisecond

// Home is the home of a pool, as this server knows it.
type Home struct {
	Node     string // empty = no home is known
	Address  string // of another server's peer listener, as registered: host:port
	Boot     string // of another server's process
	Protocol int    // the newest that another server speaks
	Here     bool   // the home is this server
	Dead     bool   // the home is another server, which gossip has found dead
	// Revision is that of the newest change of the colo's servers that this server knows. Verdicts carry it.
	Revision int64
	// Known is the revision up to which this server knows all such changes, at least Revision.
	Known int64
}

// home returns the home of a pool: this server if no other is known to be it.
func (s *Server) home(pool string) Home {
	if s.config.Homes == nil {
		return Home{Here: true}
	}
	h := s.config.Homes(pool)
	h.Here = h.Here || h.Node == ""
	return h
}

// reachHome returns nil once the request may ask for a permit here, since this server is the home of its pool, or the home did not answer
// the sender or is dead; else it returns moved. A request whose sender knows newer changes of the servers waits until this one knows them
// too, for at most tableSkew. A request that takes no slot is served by any server.
//
// If the home changes before the request asks for a permit, the pool refuses the request as moved.
func (c *call) reachHome() *refusal {
	if c.request.Route.Free() {
		return nil
	}
	home := c.server.home(c.pool.Name())
	if c.mayAskHere(home) {
		return nil
	}
	if c.token.Revision <= home.Known {
		return c.moved()
	}
	began := time.Now()
	defer func() { c.queued += time.Since(began) }()
	return c.inTime(c.awaitHome)
}

// mayAskHere reports whether the request may ask for a permit here: at its home, or as a stand-in, which it notes in c.standIn.
func (c *call) mayAskHere(home Home) bool {
	c.standIn = !home.Here && !c.homeAnswers && (home.Dead || slices.Contains(c.token.Unanswered, home.Node))
	return home.Here || c.standIn
}

// awaitHome is the rest of reachHome, for a request that waits.
func (c *call) awaitHome(ctx context.Context) *refusal {
	tick := time.NewTicker(homePoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return c.cancelled(ctx)
		}
		home := c.server.home(c.pool.Name())
		switch {
		case c.mayAskHere(home):
			return nil
		case c.token.Revision <= home.Known, time.Since(c.arrived) >= tableSkew:
			return c.moved()
		}
	}
}

// moved returns the refusal of a request whose pool has its home at another server. If an attempt has failed before, the refusal has the
// error of that attempt, which the client gets if no other server serves the request.
func (c *call) moved() *refusal {
	refused := *refusalWithoutPool(permits.Moved)
	if c.lastFailure != nil {
		refused.err, refused.verdict.Reason = c.lastFailure.err, c.lastFailure.verdict.Reason
	}
	return &refused
}

// mayAskAgain reports whether a request that was refused with err must go through reachHome again, since its pool has moved: the pool may be
// back here by then, or else reachHome refuses the request.
func (c *call) mayAskAgain(err error) bool {
	var refused *permits.Refusal
	if !errors.As(err, &refused) || refused.Reason != permits.Moved {
		return false
	}
	c.homeAnswers = c.homeAnswers || c.standIn // that is why a stand-in is refused
	if !c.server.home(c.pool.Name()).Here {
		return true
	}
	// In a moment, either the pool accepts requests, or the home is known to be another server.
	if c.refusedSince.IsZero() {
		c.refusedSince = time.Now()
	}
	began := time.Now()
	defer func() { c.queued += time.Since(began) }()
	return !ctxtime.Sleep(c.Context, homePoll) || time.Since(c.refusedSince) < tableSkew
}

// addHome adds to the verdict moved whether this server drains, the home of the pool with its address, for a sender whose table does not have
// it yet, and whether the request keeps its place in the queue there. A sender of an older version sends no revision, and could not read these.
func (c *call) addHome(v *hop.Verdict) {
	v.Drains = c.server.Draining()
	if c.token.Revision == 0 || c.pool == nil {
		return
	}
	v.Waited = c.keepsPlace()
	if home := c.server.home(c.pool.Name()); !home.Here {
		v.To, v.Address, v.Boot, v.Protocol, v.Revision = home.Node, home.Address, home.Boot, home.Protocol, home.Revision
	}
}

// keepsPlace reports whether the request has held a permit or a place in a queue of its pool.
func (c *call) keepsPlace() bool { return c.attempts > 0 || c.hadPlace || c.token.Rejoin }

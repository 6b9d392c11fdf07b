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

// Home is which server is the home of a pool, as this server knows it.
type Home struct {
	Node string // empty = no server is known to be
	Here bool   // it is this server
	Dead bool   // it is another server, which gossip has found dead
	// Revision is that of the newest change of the colo's servers that this server knows. Verdicts carry it.
	Revision int64
	// Known is the revision up to which no such change can have escaped this server, at least Revision.
	Known int64
}

// home returns the home of a pool. Without another server that is the home, this one serves the pool.
func (s *Server) home(pool string) Home {
	if s.config.Homes == nil {
		return Home{Here: true}
	}
	h := s.config.Homes(pool)
	h.Here = h.Here || h.Node == ""
	return h
}

// reachHome returns nil once the request may ask for a permit here: this server is the home of its pool, or the home did not answer the
// sender. A request whose sender knows newer changes of the servers waits until this one knows them too, for at most tableSkew.
//
// The home may change between this and the request for a permit; then the pool refuses the request, and none waits here.
func (c *call) reachHome() *refusal {
	home := c.server.home(c.pool.Name())
	if c.mayAskAt(home) {
		return nil
	}
	if c.token.Revision <= home.Known {
		return c.moved()
	}
	began := time.Now()
	defer func() { c.queued += time.Since(began) }()
	return c.inTime(c.awaitHome)
}

// mayAskAt reports whether the request may ask for a permit here, as the stand-in of another home or not.
func (c *call) mayAskAt(home Home) bool {
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
		case c.mayAskAt(home):
			return nil
		case c.token.Revision <= home.Known, time.Since(c.arrived) >= tableSkew:
			return c.moved()
		}
	}
}

// moved returns the refusal of a request whose pool has its home at another server. If an attempt has failed before, its client learns
// that, unless another server serves it.
func (c *call) moved() *refusal {
	refused := *refusalWithoutPool(permits.Moved)
	if c.lastFailure != nil {
		refused.err, refused.verdict.Reason = c.lastFailure.err, c.lastFailure.verdict.Reason
	}
	return &refused
}

// comesBack reports whether a request that was refused with err asks again here. Its pool is no longer this server's, but may be again, or
// reachHome answers the request.
func (c *call) comesBack(err error) bool {
	var refused *permits.Refusal
	if !errors.As(err, &refused) || refused.Reason != permits.Moved {
		return false
	}
	c.homeAnswers = c.homeAnswers || c.standIn // that is why a stand-in is refused
	if !c.server.home(c.pool.Name()).Here {
		return true
	}
	// The pool will accept requests, or the home will be elsewhere, in a moment.
	if c.refusedSince.IsZero() {
		c.refusedSince = time.Now()
	}
	began := time.Now()
	defer func() { c.queued += time.Since(began) }()
	return !ctxtime.Sleep(c.Context, homePoll) || time.Since(c.refusedSince) < tableSkew
}

// direct adds to the verdict moved where the request may go on, and whether it keeps its place. A sender of an older version names no
// revision, and could not read the verdict.
func (c *call) direct(v *hop.Verdict) {
	if c.token.Revision == 0 || c.pool == nil {
		return
	}
	v.Waited = c.keepsPlace()
	if home := c.server.home(c.pool.Name()); !home.Here {
		v.To, v.Revision = home.Node, home.Revision
	}
}

// keepsPlace reports whether the request has held a permit or a place in a queue of its pool.
func (c *call) keepsPlace() bool { return c.attempts > 0 || c.hadPlace || c.token.Rejoin }

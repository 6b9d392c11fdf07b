package colo

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"colonnade/forwarding/hop"
	"colonnade/forwarding/server"
	"colonnade/openai"
	"colonnade/permits"
)

// receive checks who speaks, and reads what is asked for. Nothing is believed, and no body read, before the token is.
func (c *call) receive() *refusal {
	s := c.server
	read, e, err := s.readHead(&c.rc.Request.Header, c.arrived)
	if e != nil {
		return &refusal{err: e, plain: true}
	}
	if err != nil {
		return c.forbid(err)
	}
	if err := server.VerifyTokenSource(s.config.Peers, c.rc.Conn(), &read.said.Token); err != nil {
		c.rc.SetConnectionClose() // whoever may come with another certificate must show it
		return c.forbid(err)
	}
	c.route = read.route
	if c.raw, e = c.ReadBody(c.rc, s.maxBody()); e != nil {
		// Another colo may get it, or know already that the model takes so much.
		return &refusal{err: e, verdict: hop.Verdict{Kind: hop.VerdictError, Reason: cmp.Or(e.Reason, e.Code)}}
	}
	if err := read.said.VerifyBody(c.raw); err != nil {
		return c.forbid(err)
	}
	s.budget.Begin()
	hop := read.said.Token
	c.arrived, c.budgeted = time.Now(), true
	c.hop, c.retries, c.broken = hop, hop.Retries, hop.EndpointsFailed
	c.end = c.arrived.Add(time.Duration(hop.Total))
	if hop.FirstByte > 0 {
		c.firstBy = c.arrived.Add(time.Duration(hop.FirstByte))
	}
	return c.resolve()
}

// head is what the head of a request tells, of which no table is asked.
type head struct {
	route openai.Route
	said  hop.Verified
}

// readHead runs the guard and reads the token: err says that nobody of the fleet has sent it. How long the body may be
// is for later: the other node's table may be newer than ours.
func (s *Server) readHead(h *fasthttp.RequestHeader, now time.Time) (read head, e *openai.Error, err error) {
	if e = server.CheckHead(h, 0); e != nil {
		return read, e, nil
	}
	if read.route, e = openai.ParseRoute(h.Method(), h.RequestURI()); e != nil {
		return read, e, nil
	}
	read.said, err = s.config.Keys.VerifyHead(string(h.Peek(hop.HeaderToken)), hop.Binding{
		Audience: s.config.Node, Method: string(h.Method()), Path: read.route.Path,
	}, now)
	return read, nil, err
}

// unwanted says by the head alone that a request will be refused.
func (s *Server) unwanted(h *fasthttp.RequestHeader) bool {
	_, e, err := s.readHead(h, time.Now())
	return e != nil || err != nil
}

// forbid refuses a request that is not one of the fleet's.
func (c *call) forbid(reason error) *refusal {
	c.server.config.Logger.Warn("request refused on the peer listener",
		"from", c.rc.RemoteAddr().String(), "reason", reason)
	return &refusal{err: forbidden(), plain: true}
}

// resolve finds the model and its pool, and looks into the body.
func (c *call) resolve() *refusal {
	s := c.server
	if astray := c.astray(); astray != "" {
		s.config.Logger.Error("request goes no further",
			"request_id", c.hop.RequestID, "reason", astray, "visited", c.hop.Visited)
		return &refusal{
			err:     openai.Unavailable(astray, 0),
			verdict: hop.Verdict{Kind: hop.VerdictError, Reason: astray, Final: true},
		}
	}
	if err := c.WatchClient(c.rc.Conn()); err != nil {
		s.config.Logger.Error("cannot watch the client", "reason", err)
		return &refusal{err: openai.Internal(), verdict: hop.Verdict{Kind: hop.VerdictError}}
	}
	if refused := c.findInTime(); refused != nil {
		return refused
	}
	if c.route.API == openai.Realtime && s.Draining() {
		return unreachable(permits.Draining) // it would last longer than this server
	}
	var e *openai.Error
	if c.route.API == openai.Realtime {
		e = c.readHandshake()
	} else {
		c.body, e = openai.Peek(c.route.API, string(c.rc.Request.Header.ContentType()), c.raw)
	}
	if e != nil {
		return &refusal{err: e, verdict: hop.Verdict{Kind: hop.VerdictError, Final: true}}
	}
	return nil
}

// errLate is the cause of a request's end that has run out of time while its model was looked for.
var errLate = errors.New("request has run out of time")

// findInTime is find within the time that the request has.
func (c *call) findInTime() *refusal {
	whole, end, reason := c.Context, c.end, "total"
	if !c.firstBy.IsZero() && c.firstBy.Before(c.end) {
		end, reason = c.firstBy, "first_byte"
	}
	within, cancel := context.WithDeadlineCause(whole, end, errLate)
	defer cancel()
	c.Context = within
	refused := c.find()
	c.Context = whole
	switch cause := context.Cause(within); {
	case refused != nil && errors.Is(cause, errLate):
		return timedOut(reason)
	case refused != nil && errors.Is(cause, server.ErrClientGone):
		return clientGone()
	}
	return refused
}

// astray says why a request has come too far, or nothing.
func (c *call) astray() string {
	switch {
	case slices.Contains(c.hop.Visited, c.server.config.Node):
		return "routing_loop"
	case c.hop.Hops < 0:
		return "hop_limit"
	}
	return ""
}

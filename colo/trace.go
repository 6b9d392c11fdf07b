package colo

import (
	"errors"
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/permits"
	"colonnade/reasons"
	"colonnade/tracing"
)

// continueTrace reads whether spans of the request are recorded.
func (c *call) continueTrace() {
	if t := c.server.config.Tracer; t != nil {
		parent := c.request.Field(hop.HeaderTraceParent)
		c.trace, c.untraced = t.Continue(parent), parent == ""
	}
}

// headerToPassOn returns a header line of the request by its name, as it is passed on to an engine or to another colo.
func (c *call) headerToPassOn(name string) string {
	switch {
	case c.untraced && name == hop.HeaderTraceParent:
		return tracing.Unrecorded(c.token.RequestID)
	case c.untraced && name == hop.HeaderTraceState:
		return ""
	}
	return c.trace.Header(name, c.request.Field(name))
}

// traceQueue records the span of a request that has asked for a permit, and has got one, or waited and got err.
func (c *call) traceQueue(err error) {
	if !c.trace.Recorded() || err == nil && c.grant.Queued() == 0 {
		return
	}
	s := tracing.QueueSpan{
		RequestID: c.token.RequestID, Account: c.token.Account, Pool: c.pool.Name(), Colo: c.server.config.Colo, Priority: c.token.Priority,
		Start: c.asked, End: time.Now(), Length: -1,
	}
	var refused *permits.Refusal
	switch {
	case err == nil:
		s.Length = c.grant.QueueLenAtArrival()
	case errors.As(err, &refused):
		s.Reason = string(refused.Reason)
	case errors.Is(err, errDrained):
		s.Reason = reasons.Draining
	default:
		s.Reason = reasons.ClientGone
	}
	c.trace.RecordQueue(&s)
}

// traceAttempt records the span of an attempt at an engine, whose final event is e.
func (c *call) traceAttempt(e *analytics.Event) {
	if !c.trace.Recorded() {
		return
	}
	s := tracing.EngineSpan{API: c.request.Route.API, MaxTokens: c.body.MaxTokens, Start: c.granted, FirstByte: c.firstByte, End: e.Time, Event: e}
	if c.sent.After(c.granted) {
		s.Start = c.sent
	}
	if target, err := c.table.target(c.grant.Endpoint.URL); err == nil {
		s.Address = target.Address
	}
	c.trace.RecordEngine(&s)
}

// traceForward records the span of a request that this server has forwarded to another colo, and whose final event is e.
func (c *call) traceForward(e *analytics.Event) {
	h := c.trace.Hop()
	if h == nil {
		return
	}
	h.Reason = e.Reason
	if h.Verdict == "" {
		h.Error = tracing.ServerError(e)
	}
	c.trace.EndHop(c.token.RequestID, time.Now())
}

// noteForwardedTo notes the server to which the request was forwarded, and what it has answered.
func (c *call) noteForwardedTo(to peer.Server, answer *peer.Answer) {
	h := c.trace.Hop()
	if h == nil {
		return
	}
	h.Colo, h.Server, h.Address = to.Colo, hop.NodeName(to.Colo, to.Node), to.Address
	if answer != nil && answer.Response == nil {
		h.SetVerdict(answer.Verdict)
	}
}

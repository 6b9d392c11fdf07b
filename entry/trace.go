package entry

import (
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/peer"
	"colonnade/tracing"
)

// beginTrace decides whether spans of the request are recorded.
func (c *call) beginTrace() {
	t := c.entry.config.Tracer
	if t == nil {
		return
	}
	c.trace = t.Begin(c.header(traceParentHeader), c.id)
	c.trace.BeginEntry(c.arrived, string(c.rc.Method()))
}

// endTrace records the span of the request, whose final event is e.
func (c *call) endTrace(e *analytics.Event) {
	s := c.trace.Entry()
	if s == nil {
		return
	}
	now := time.Now()
	if last := c.trace.Hop(); last != nil { // to the server that has served the request, or that was asked when it was cancelled
		last.Reason, last.Error = e.Reason, tracing.ServerError(e)
		c.trace.EndHop(c.id, now)
	}
	s.API, s.Route, s.TLS, s.End, s.Event = c.route.API, c.route.Path, c.entry.config.TLS != nil, now, e
	c.trace.EndEntry()
}

// beginHop begins the span of an attempt.
func (c *call) beginHop(to *attempt, began time.Time) {
	c.trace.BeginHop(began)
	h, s := c.trace.Hop(), to.server()
	if h == nil {
		return
	}
	h.Colo, h.Server = to.Colo.Name, hop.NodeName(to.Colo.Name, s.Node)
	if c.entry.local(s) == nil {
		h.Address = s.Address
	}
}

// endUnserved records the span of an attempt that has not served the request. That of one that serves it ends with the request.
func (c *call) endUnserved(answer *peer.Answer, err error) {
	h := c.trace.Hop()
	switch {
	case h == nil || err == nil && answer.Response != nil:
		return
	case err == nil:
		h.SetVerdict(answer.Verdict)
	default:
		f := peer.ClassifyFailure(err, c.deadline)
		h.Error = f.Kind.String()
	}
	c.trace.EndHop(c.id, c.firstByte)
}

package colo

import (
	"slices"
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/transport"
	"colonnade/reasons"
)

// newEvent describes the request. id is the event's: that of the permit or of the forward.
func (c *call) newEvent(id string, kind analytics.Kind, phase analytics.Phase) analytics.Event {
	return analytics.Event{
		EventID:         id,
		RequestID:       c.token.RequestID,
		ClientRequestID: c.token.ClientRequestID,
		TraceID:         c.trace.ID(),
		Kind:            kind,
		Phase:           phase,
		ColoID:          c.server.config.Colo,
		SourceColoID:    c.token.Source,
		ColoPath:        c.coloPath(),
		Account:         c.token.Account,
		Key:             c.token.Key,
		Model:           c.model.Name,
		Pool:            c.pool.Name(),
		QueuingTime:     analytics.Milliseconds(c.queued),
		QueuedInColo:    c.queued > 0,
		BytesIn:         int64(len(c.raw)),
		Streamed:        c.body.Stream,
		Beta:            c.model.Beta,
	}
}

// event describes the attempt under way.
func (c *call) event(phase analytics.Phase) analytics.Event {
	event, e := c.newEvent(c.eventID, analytics.KindInference, phase), c.grant.Endpoint
	event.Endpoint, event.Engine, event.ExternalEndpoint = e.ID, e.Engine, e.External
	event.Attempts, event.LocalQueueSize = c.token.Attempt+c.attempts, c.queueLen
	event.WebSocket = c.request.Handshake != nil
	return event
}

// coloPath returns the servers that the request has visited, with this one.
func (c *call) coloPath() []string {
	if len(c.token.Visited) == 0 {
		return c.server.path
	}
	return append(slices.Clip(c.token.Visited), c.server.name)
}

// logBegin logs that a permit was granted.
func (c *call) logBegin() {
	c.beginLogged = true
	permit := int(c.server.granted.Add(1))
	c.eventID = analytics.EventID(c.token.RequestID, c.server.process, permit, analytics.KindInference)
	e := c.event(analytics.PhaseBegin)
	c.server.config.Log.Append(&e)
}

// log writes the attempt's final event, unless there is one already.
func (c *call) log(e *analytics.Event) {
	if !c.beginLogged {
		return
	}
	c.beginLogged = false
	if e.Time = c.releasedAt; e.Time.IsZero() || c.servedAhead {
		e.Time = time.Now()
	}
	released := c.releasedAt
	if released.IsZero() {
		released = e.Time
	}
	e.RequestTime = analytics.Milliseconds(e.Time.Sub(c.arrived))
	e.InferenceTime = analytics.Milliseconds(released.Sub(c.granted))
	c.server.config.Log.Append(e)
	if c.trace.Recorded() {
		c.traceAttempt(new(*e)) // a copy: a span is on the heap, and e is not
	}
	c.server.metrics.Finished(e)
}

// logFailed logs the end of an attempt of which nothing was relayed.
func (c *call) logFailed(n *decision) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Partial = n.outcome, n.failure, true
	if n.outcome != analytics.OutcomeClientGone { // otherwise no error was sent
		e.Status, e.Code = n.err.Status, n.err.Code
	}
	c.log(&e)
}

// logCrash logs the end of an attempt whose handler or relay has panicked; any other attempt has its final event already.
func (c *call) logCrash() {
	if !c.beginLogged {
		return
	}
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Partial = analytics.OutcomeCrashed, reasons.Panic, true
	c.log(&e)
}

// logWhole logs the end of an attempt whose answer came in one piece.
func (c *call) logWhole(status int, body []byte) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Status, e.BytesOut = analytics.OutcomeCompleted, status, int64(len(body))
	if c.endUnknown {
		e.Reason = reasons.CloseDelimited
	}
	e.TimeToFirstToken = analytics.Milliseconds(c.firstByte.Sub(c.arrived))
	c.addUsage(&e)
	c.log(&e)
}

// logStream logs the end of an attempt whose answer was relayed as it came.
func (c *call) logStream(answer *transport.Response, end relay.Outcome) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Status, e.BytesOut = analytics.Outcome(end.Kind), end.Reason, answer.Status(), answer.Size()
	e.TimeToFirstToken = analytics.Milliseconds(c.firstByte.Sub(c.arrived))
	e.Partial = end.Kind != relay.OutcomeCompleted
	c.addUsage(&e)
	c.log(&e)
}

// addUsage adds the usage and its cost to an event. Estimated tokens are priced too: a client that leaves early has used the engine.
func (c *call) addUsage(e *analytics.Event) {
	if !c.usage.known() {
		return
	}
	u, estimated := c.usage.engine, c.usage.unreportedTokens
	e.PromptTokens, e.CompletionTokens, e.CachedTokens, e.AudioSeconds = u.Prompt, u.Completion, u.Cached, u.Seconds
	e.TokensEstimated = estimated
	if price := c.model.Cost; price.Per > 0 {
		e.CostUnit = price.Unit
		e.Cost = price.Of(float64(u.Prompt), float64(u.Cached), float64(u.Completion+estimated))
	}
}

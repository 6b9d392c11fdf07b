package colo

import (
	"errors"
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/relay"
	"colonnade/openai"
	"colonnade/reasons"
)

// forward is what is known of a request that this server forwards to another colo.
type forward struct {
	at      time.Time // when it was sent
	eventID string
	begun   bool // an end event must follow
}

// forwardEvent describes a request that this server forwards to another colo. It counts nothing of the answer, since the server that has the
// engine does.
func (c *call) forwardEvent(phase analytics.Phase) analytics.Event {
	return c.newEvent(c.forward.eventID, analytics.KindForward, phase)
}

// logForwardBegin logs that a request is about to be forwarded. If this process is killed, the next one logs the end.
func (c *call) logForwardBegin() {
	forward := int(c.server.forwards.Add(1))
	c.forward.eventID = analytics.EventID(c.token.RequestID, c.server.process, forward, analytics.KindForward)
	c.forward.begun = true
	e := c.forwardEvent(analytics.PhaseBegin)
	c.server.config.Log.Append(&e)
}

// logForward writes the final event of a request that was forwarded, unless there is one already.
func (c *call) logForward(e *analytics.Event) {
	if !c.forward.begun {
		return
	}
	c.forward.begun = false
	e.RequestTime = analytics.Milliseconds(time.Since(c.arrived))
	c.server.config.Log.Append(e)
	c.traceForward(e)
	c.server.metrics.Forwarded(e)
}

// logForwarded logs the end of an answer that was relayed from another colo.
func (c *call) logForwarded(status int, size int64, end relay.Outcome) {
	e := c.forwardEvent(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Partial = analytics.Outcome(end.Kind), end.Reason, end.Kind != relay.OutcomeCompleted
	e.Status, e.BytesOut = status, size
	e.TimeToFirstToken = analytics.Milliseconds(c.firstByte.Sub(c.arrived))
	c.logForward(&e)
}

// logForwardRefused logs the end of a request that no other colo has served.
func (c *call) logForwardRefused(why *openai.Error) {
	e := c.forwardEvent(analytics.PhaseEnd)
	e.Outcome, e.Status, e.Code, e.Reason = analytics.OutcomeRefused, why.Status, why.Code, why.Reason
	switch why.Status {
	case 502:
		e.Outcome = analytics.OutcomeEngineError
	case 504:
		e.Outcome = analytics.OutcomeTimeout
	}
	c.logForward(&e)
}

// logForwardCancelled logs the end of a request that was cancelled before the first byte.
func (c *call) logForwardCancelled(cause error) {
	e := c.forwardEvent(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Partial = analytics.OutcomeClientGone, reasons.ClientGone, true
	if errors.Is(cause, errDrained) {
		e.Outcome, e.Reason = analytics.OutcomeDrained, reasons.Draining
	}
	c.logForward(&e)
}

// logForwardCrash logs the end of a forwarded request whose handler or relay has panicked; any other has its final event already.
func (c *call) logForwardCrash() {
	if c.forward != nil && c.forward.begun {
		e := c.forwardEvent(analytics.PhaseEnd)
		e.Outcome, e.Reason, e.Partial = analytics.OutcomeCrashed, reasons.Panic, true
		c.logForward(&e)
	}
}

package entry

import (
	"time"

	"colonnade/analytics"
	"colonnade/forwarding"
	"colonnade/openai"
)

// event describes the request so far.
func (c *call) event(phase analytics.Phase) *analytics.Event {
	e := &analytics.Event{
		EventID:         analytics.EventID(c.id, c.entry.config.Node, 0, analytics.KindRequest),
		RequestID:       c.id,
		ClientRequestID: c.clientID,
		Kind:            analytics.KindRequest,
		Phase:           phase,
		ColoID:          c.colo,
		SourceColoID:    c.entry.config.Node,
		ColoPath:        c.path,
		Model:           c.asked,
		Attempts:        c.attempts,
		BytesIn:         int64(len(c.raw)),
		Streamed:        c.body.Stream,
		WebSocket:       c.route.API == openai.Realtime,
	}
	if c.caller.Account != nil {
		e.Account = c.caller.Account.Name
	}
	if c.model != nil {
		e.Model, e.Pool, e.Beta = c.model.Name, c.model.Pool, c.model.Beta
	}
	return e
}

// log writes the request's final event.
func (c *call) log(e *analytics.Event) {
	e.RequestTime = analytics.Milliseconds(time.Since(c.arrived))
	e.QueuingTime = analytics.Milliseconds(c.waited)
	c.entry.config.Log.Append(e)
	c.entry.metrics.Finished(e)
}

// logBegin says that a stream has begun to reach the client, so that a crash can be told from silence.
func (c *call) logBegin() { c.entry.config.Log.Append(c.event(analytics.PhaseBegin)) }

// logRefusal ends a request that was answered with an error of ours.
func (c *call) logRefusal(err *openai.Error) {
	e := c.event(analytics.PhaseEnd)
	e.Status, e.Code, e.Reason = err.Status, err.Code, err.Reason
	switch err.Status {
	case 502:
		e.Outcome = analytics.OutcomeEngineError
	case 504:
		e.Outcome = analytics.OutcomeTimeout
	default:
		e.Outcome = analytics.OutcomeRefused
		reason := err.Reason
		if reason == "" {
			reason = err.Code
		}
		c.entry.metrics.Refused(reason)
	}
	c.log(e)
}

// logGone ends a request that was cancelled before the first byte, by its client or by us.
func (c *call) logGone(outcome analytics.Outcome) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Partial = outcome, true
	c.log(e)
}

// logWhole ends a request whose answer came in one piece.
func (c *call) logWhole(answer *forwarding.Answer) {
	e := c.event(analytics.PhaseEnd)
	body, _ := answer.Whole()
	e.Outcome, e.Status, e.BytesOut = analytics.OutcomeCompleted, answer.Status(), int64(len(body))
	e.TimeToFirstToken = analytics.Milliseconds(c.firstByte.Sub(c.arrived))
	c.log(e)
}

// logStream ends a request whose answer was relayed as it came.
func (c *call) logStream(answer *forwarding.Answer, end forwarding.End) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Partial = analytics.Outcome(end.Kind), end.Reason, end.Kind != forwarding.EndComplete
	e.Status, e.BytesOut = answer.Status(), answer.Size()
	e.TimeToFirstToken = analytics.Milliseconds(c.firstByte.Sub(c.arrived))
	c.log(e)
}

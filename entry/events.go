package entry

import (
	"cmp"
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/transport"
	"colonnade/openai"
	"colonnade/reasons"
)

// event describes the request so far.
func (c *call) event(phase analytics.Phase) analytics.Event {
	e := analytics.Event{
		EventID:         c.eventID,
		RequestID:       c.id,
		ClientRequestID: c.clientID,
		TraceID:         c.trace.ID(),
		Kind:            analytics.KindRequest,
		Phase:           phase,
		SourceColoID:    c.entry.config.Node,
		ColoPath:        c.path,
		Model:           modelLabel(c.askedModel),
		Attempts:        c.engineAttempts,
		BytesIn:         int64(len(c.raw)),
		QueuedInColo:    c.waited > 0,
		Streamed:        c.body.Stream,
		WebSocket:       c.route.API == openai.Realtime,
		RefusedByEntry:  len(c.path) == 0 && c.attempts != nil && c.attempts.ofEntry,
		RequestedModel:  c.requestedModel(),
	}
	if c.servedBy != nil {
		e.ColoID = c.servedBy.Name
	}
	if c.caller.Account != nil {
		e.Account, e.Key = c.caller.Account.Name, c.caller.KeyID
	}
	if c.model != nil {
		e.Model, e.Pool, e.Beta = c.model.Name, c.model.Pool, c.model.Beta
	}
	return e
}

// log writes the request's final event, unless there is one already.
func (c *call) log(e *analytics.Event) {
	if c.endLogged {
		return
	}
	c.endLogged = true
	c.settleLimits(e.Outcome)
	e.Time = time.Now()
	e.RequestTime = analytics.Milliseconds(e.Time.Sub(c.arrived))
	e.QueuingTime = analytics.Milliseconds(c.waited)
	c.entry.config.Log.Append(e)
	if c.trace.Recorded() {
		c.endTrace(new(*e)) // a copy: a span is on the heap, and e is not
	}
	if !c.route.API.AboutModels() || e.Outcome != analytics.OutcomeCompleted {
		c.entry.metrics.Finished(e)
	}
}

// logBegin logs that the request is about to be forwarded. If this process is killed, the next one logs the end.
func (c *call) logBegin() {
	c.beginLogged = true
	e := c.event(analytics.PhaseBegin)
	c.entry.config.Log.Append(&e)
}

// logCrash logs the end of a request whose handler or relay has panicked.
func (c *call) logCrash() {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Code, e.Partial = analytics.OutcomeCrashed, openai.Internal().Code, true
	c.log(&e)
}

// logRefusal logs the end of a request that was answered with our own error.
func (c *call) logRefusal(err *openai.Error) {
	e := c.event(analytics.PhaseEnd)
	e.Status, e.Code, e.Reason = err.Status, err.Code, err.Reason
	e.Partial = c.beginLogged && err.Status >= 500 && err.Status != 503
	switch err.Status {
	case 500:
		e.Outcome = analytics.OutcomeCrashed
	case 502:
		e.Outcome = analytics.OutcomeEngineError
	case 504:
		e.Outcome = analytics.OutcomeTimeout
	default:
		e.Outcome = analytics.OutcomeRefused
		c.entry.metrics.Refused(refusalLabel(err))
	}
	c.log(&e)
}

// refusalLabel returns the label of a refusal in metrics.
func refusalLabel(err *openai.Error) string { return cmp.Or(err.Reason, err.Code) }

// logCancelled logs the end of a request that was cancelled before the first byte, by its client or by a drain.
func (c *call) logCancelled(outcome analytics.Outcome) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Partial = outcome, true
	c.log(&e)
}

// logOwnAnswer logs the end of a request that the entry itself has answered.
func (c *call) logOwnAnswer(body []byte) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Status, e.BytesOut = analytics.OutcomeCompleted, 200, int64(len(body))
	c.log(&e)
}

// logWhole logs the end of a request whose answer came in one piece.
func (c *call) logWhole(answer *transport.Response) {
	e := c.event(analytics.PhaseEnd)
	body, _ := answer.Body()
	e.Outcome, e.Status, e.BytesOut = analytics.OutcomeCompleted, answer.Status(), int64(len(body))
	c.noteUsage(answer)
	e.TimeToFirstToken = analytics.Milliseconds(c.firstByte.Sub(c.arrived))
	c.log(&e)
}

// logStream logs the end of a request whose answer was relayed as it came.
func (c *call) logStream(answer *transport.Response, end relay.Outcome) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Partial = analytics.Outcome(end.Kind), end.Reason, end.Kind != relay.OutcomeCompleted
	c.noteUsage(answer)
	if stream := answer.Stream(); stream != nil && end.Kind == relay.OutcomeEngineError {
		outcomeOfError(&e, stream.LastError())
	}
	e.Status, e.BytesOut = answer.Status(), answer.Size()
	e.TimeToFirstToken = analytics.Milliseconds(c.firstByte.Sub(c.arrived))
	c.log(&e)
}

// outcomeOfError takes the outcome of a stream that was cut from the colo's error event, since the colo knows why it was cut. An engine
// may send such an event too, so no text of it is kept.
func outcomeOfError(e *analytics.Event, reported openai.EngineError) {
	switch reported.Number {
	case openai.NumberInferenceTimeout:
		e.Outcome, e.Reason = analytics.OutcomeTimeout, reasons.TotalTimeout
		if reported.Reason == reasons.IdleTimeout {
			e.Reason = reasons.IdleTimeout
		}
	case openai.NumberUnavailable:
		e.Outcome, e.Reason = analytics.OutcomeDrained, reasons.Draining
	}
}

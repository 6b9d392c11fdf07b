package colo

import (
	"time"

	"colonnade/analytics"
	"colonnade/forwarding"
	"colonnade/openai"
)

// event describes the attempt under way.
func (c *call) event(phase analytics.Phase) *analytics.Event {
	s, e := c.server, c.grant.Endpoint
	return &analytics.Event{
		EventID:          analytics.EventID(c.hop.RequestID, s.config.Node, c.hop.Attempt+c.attempts, analytics.KindInference),
		RequestID:        c.hop.RequestID,
		ClientRequestID:  c.hop.ClientRequestID,
		Kind:             analytics.KindInference,
		Phase:            phase,
		ColoID:           s.config.Colo,
		SourceColoID:     c.hop.Source,
		ColoPath:         c.hop.Visited,
		Account:          c.hop.Account,
		Model:            c.model.Name,
		Pool:             c.pool.Name(),
		Endpoint:         e.ID,
		Engine:           e.Engine,
		Attempts:         c.hop.Attempt + c.attempts,
		QueuingTime:      analytics.Milliseconds(c.queued),
		LocalQueueSize:   c.queueLen,
		QueuedInColo:     c.queued > 0,
		BytesIn:          int64(len(c.raw)),
		Streamed:         c.body.Stream,
		WebSocket:        c.handshake != nil,
		Beta:             c.model.Beta,
		ExternalEndpoint: e.External,
	}
}

// log writes the attempt's final event.
func (c *call) log(e *analytics.Event) {
	now := time.Now()
	e.RequestTime = analytics.Milliseconds(now.Sub(c.arrived))
	e.InferenceTime = analytics.Milliseconds(now.Sub(c.granted))
	c.server.config.Log.Append(e)
	c.server.metrics.Finished(e)
}

// logEnd ends an attempt of which nothing was relayed.
func (c *call) logEnd(outcome analytics.Outcome, reason string) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Partial = outcome, reason, true
	c.log(e)
}

// logWhole ends an attempt whose answer came in one piece.
func (c *call) logWhole(status int, body []byte) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Status, e.BytesOut = analytics.OutcomeCompleted, status, int64(len(body))
	e.TimeToFirstToken = analytics.Milliseconds(c.firstByte.Sub(c.arrived))
	if u, ok := openai.BodyUsage(body); ok {
		c.bill(e, u)
	}
	c.log(e)
}

// logStreamEnd ends an attempt whose answer was relayed as it came.
func (c *call) logStreamEnd(answer *forwarding.Answer, end forwarding.End) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Status, e.BytesOut = analytics.Outcome(end.Kind), end.Reason, answer.Status(), answer.Size()
	e.TimeToFirstToken = analytics.Milliseconds(c.firstByte.Sub(c.arrived))
	e.Partial = end.Kind != forwarding.EndComplete
	if stream := answer.Stream(); stream != nil {
		if u, ok := stream.Usage(); ok {
			c.bill(e, u)
		} else {
			e.TokensEstimated = stream.Deltas()
		}
	}
	switch {
	case end.Kind == forwarding.EndComplete:
		c.pool.Succeeded(c.grant.Endpoint)
	case end.Kind == forwarding.EndFailed || end.Reason == forwarding.ReasonIdle:
		c.pool.Failed(c.grant.Endpoint) // but not for a request that took all its time: the client may have been slow
	}
	c.log(e)
}

// bill enters what was used, and what it costs.
func (c *call) bill(e *analytics.Event, u openai.Usage) {
	e.PromptTokens, e.CompletionTokens, e.CachedTokens = u.Prompt, u.Completion, u.Cached
	if price := c.model.Cost; price.Per > 0 {
		e.CostUnit = price.Unit
		e.Cost = (float64(u.Prompt)*price.Input + float64(u.Completion)*price.Output) / float64(price.Per)
	}
}

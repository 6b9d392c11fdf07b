package colo

import (
	"net/url"
	"slices"
	"strings"

	"colonnade/analytics"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

// realtimeProtocol is the subprotocol that is answered if it was offered, whatever the engine makes of it.
const realtimeProtocol = "realtime"

// toHandshake makes r, which was built as for any request, one that asks the engine for a WebSocket.
func (c *call) toHandshake(r *transport.Request, model string) {
	separator := "?"
	if strings.Contains(r.Path, "?") {
		separator = "&"
	}
	r.Method, r.Path, r.Body = "GET", r.Path+separator+"model="+url.QueryEscape(model), nil
	r.Handshake = transport.NewHandshake(c.request.Handshake.Protocols)
	r.FirstByteTimeout = c.model.Timeouts.FirstByte.Std()
}

// classify says what an engine's answer means. One that answers a handshake but does not switch speaks no WebSocket
// there, and whoever serves pages, or compresses what it should not, is no engine.
func (c *call) classify(answer *transport.Response) openai.EngineClass {
	class := openai.ClassifyStatus(answer.Status())
	switch {
	case answer.Upgraded():
		return openai.Relay
	case class == openai.Relay && (c.request.Handshake != nil || answer.NotAPI()):
		return openai.Misconfigured
	}
	return class
}

// session is the WebSocket between the client and an engine that has switched. The permit is held until the engine's connection has
// ended. Nothing is tried again from here on.
func (c *call) session(response *transport.Response) *realtime.Session {
	s := &realtime.Session{
		Context:   c.Context,
		Response:  response,
		Buffers:   &c.server.buffers,
		Handshake: c.request.Handshake,
		Limits:    realtime.SessionLimits{MaxDuration: c.model.Timeouts.WebSocket.Std(), WriteStall: c.server.config.WriteStall},
		OnClose: func(end realtime.SessionOutcome) {
			c.spent = spent{usage: end.Usage, told: end.HasUsage, untold: end.UnreportedDeltas}
			c.release()
			c.logSession(end)
		},
	}
	if slices.Contains(c.request.Handshake.Protocols, realtimeProtocol) {
		s.Protocol = realtimeProtocol
	}
	return s
}

// logSession ends an attempt that was a WebSocket.
func (c *call) logSession(end realtime.SessionOutcome) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Status = analytics.Outcome(end.Kind), end.Reason, 101
	e.Partial = end.Kind != relay.OutcomeCompleted
	e.MessagesIn, e.MessagesOut = end.MessagesIn, end.MessagesOut
	e.BytesIn, e.BytesOut = end.BytesIn, end.BytesOut
	c.bill(e)
	switch {
	case end.EngineFault:
		c.pool.Failed(c.grant.Endpoint, end.Reason)
	case end.Kind == relay.OutcomeCompleted:
		c.pool.Succeeded(c.grant.Endpoint)
	}
	c.log(e)
}

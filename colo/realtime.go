package colo

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"colonnade/analytics"
	"colonnade/forwarding/hop"
	"colonnade/forwarding/realtime"
	"colonnade/forwarding/relay"
	"colonnade/forwarding/transport"
	"colonnade/openai"
)

// toHandshake turns request r into a WebSocket handshake with the engine.
func (c *call) toHandshake(r *transport.Request, model string) {
	separator := "?"
	if strings.Contains(r.Path, "?") {
		separator = "&"
	}
	r.Method, r.Path, r.Body = "GET", r.Path+separator+"model="+url.QueryEscape(model), nil
	r.Handshake = transport.NewHandshake(c.request.Handshake.Protocols)
	r.FirstByteTimeout = c.model.Timeouts.FirstByte.Std()
}

// responseClass classifies an engine's response. An answer to a handshake that does not switch protocols, a web page, and a body in a coding
// that was not asked for come from a URL that is not an engine's.
func (c *call) responseClass(answer *transport.Response) openai.EngineClass {
	class := openai.ClassifyStatus(answer.Status())
	switch {
	case answer.Upgraded():
		return openai.Relay
	case class == openai.Relay && (c.request.Handshake != nil || answer.NotAPI()):
		return openai.Misconfigured
	}
	return class
}

// session returns the WebSocket session between the client and an engine that has switched protocols. The permit is held until the
// engine's connection has ended. There is no retry from here on.
func (c *call) session(response *transport.Response) *realtime.Session {
	s := &realtime.Session{
		Context:   c.Context,
		Response:  response,
		Buffers:   &c.server.buffers,
		Handshake: c.request.Handshake,
		Models:    append([]string{c.model.Name, c.grant.Endpoint.NameOf(c.model)}, c.model.Aliases...),
		Limits:    realtime.SessionLimits{MaxDuration: c.model.Timeouts.WebSocket.Std(), WriteStall: c.server.config.WriteStall},
		OnClose: func(end realtime.SessionOutcome) {
			c.usage = tokenUsage{engine: end.Usage, reported: end.HasUsage, unreportedTokens: end.UnreportedDeltas}
			c.server.sessions.put(c.token.RequestID, sessionUsage{
				SessionUsage: hop.SessionUsage{Prompt: end.Usage.Prompt, Completion: end.Usage.Completion, Unreported: end.UnreportedDeltas, Reported: end.HasUsage},
				source:       c.token.Source, at: time.Now(),
			})
			c.release()
			c.logSession(end)
		},
	}
	if slices.Contains(c.request.Handshake.Protocols, realtime.Subprotocol) {
		s.Protocol = realtime.Subprotocol // whatever the engine answers
	}
	return s
}

// logSession logs the end of an attempt that was a WebSocket.
func (c *call) logSession(end realtime.SessionOutcome) {
	e := c.event(analytics.PhaseEnd)
	e.Outcome, e.Reason, e.Status = analytics.Outcome(end.Kind), end.Reason, 101
	e.Partial = end.Kind != relay.OutcomeCompleted
	e.MessagesIn, e.MessagesOut = end.MessagesIn, end.MessagesOut
	e.BytesIn, e.BytesOut = end.BytesIn, end.BytesOut
	c.addUsage(&e)
	switch {
	case end.EngineFault:
		c.pool.Failed(c.grant.Endpoint, end.Reason)
	case end.Kind == relay.OutcomeCompleted:
		c.pool.Succeeded(c.grant.Endpoint)
	}
	c.log(&e)
}

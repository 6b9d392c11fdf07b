package entry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"colonnade/analytics"
	"colonnade/fleet"
	"colonnade/forwarding"
	"colonnade/openai"
)

// forward sends the request to the home of the model's pool in one colo, and returns its answer up to the first byte.
func (c *call) forward(to try) (*forwarding.Answer, error) {
	began := time.Now()
	hop := forwarding.Hop{
		RequestID:       c.id,
		ClientRequestID: c.clientID,
		Source:          c.entry.config.Node,
		Account:         c.caller.Account.Name,
		Weight:          c.caller.Account.Weight,
		Priority:        c.priority,
		Concurrent:      c.caller.Account.Limits.Concurrent,
		Model:           c.model.Name,
		Hops:            max(c.model.Retry.Hops-1, 0), // without further hops there is still this one
		Attempt:         c.attempts,
		Retries:         min(c.tries.errors, c.entry.budget.Left()),
		Broken:          c.tries.broken,
		Wait:            to.wait,
		WaitBelow:       forwarding.Millis(to.below),
		Waited:          forwarding.Millis(c.waited),
		Chance:          to.chance,
		Total:           forwarding.Millis(max(c.end.Sub(began)-holdBack, time.Millisecond)),
		Events:          c.prelude != nil,
	}
	if !c.firstBy.IsZero() {
		hop.FirstByte = forwarding.Millis(max(c.firstBy.Sub(began)-holdBack, time.Millisecond))
	}
	method, path := c.line()
	token, err := c.entry.config.Keys.Sign(hop, forwarding.HopTarget{
		Audience: to.Home.Node, Method: method, Path: c.route.Path, Body: c.raw,
	}, began)
	if err != nil {
		return nil, &forwarding.ExchangeError{Phase: forwarding.PhaseConnect, Err: fmt.Errorf("%w: %w", errNotSigned, err)}
	}
	c.path = append(c.path, to.Home.Node)
	r := forwarding.Request{
		Target:    forwarding.PeerTarget(c.entry.config.Peers, to.Home.Address, identityOf(to.Home)),
		Method:    method,
		Path:      path,
		Fields:    c.fields(token),
		Body:      c.raw,
		Handshake: c.handshakeOn(),
		Connect:   c.model.Timeouts.Connect.Std(),
		FirstByte: c.untilFirstBy(began),
		Idle:      c.idle(),
		End:       c.end,
	}
	if c.prelude != nil {
		c.prelude.Elsewhere()
		r.Progress, r.Pulse = c.prelude.Progress, c.prelude.Pulse
	}
	answer, err := c.entry.transport.Do(c.Context, &r, forwarding.Shape{API: c.route.API})
	c.firstByte = time.Now()
	return answer, err
}

// errNotSigned is a fault of this entry: nobody was asked.
var errNotSigned = errors.New("the request could not be signed")

// identityOf is who must be met at a server's address.
func identityOf(s *fleet.Server) forwarding.Identity {
	return forwarding.Identity{Role: forwarding.RoleColo, Colo: s.Colo, Node: s.Node}
}

// untilFirstBy is how long to wait for what the client wants by then, if it said so: a little longer than the colo,
// which knows better what it waited for.
func (c *call) untilFirstBy(now time.Time) time.Duration {
	if c.firstBy.IsZero() {
		return 0
	}
	return max(c.firstBy.Sub(now), 0) + time.Second
}

// idle is the longest silence of a stream, likewise.
func (c *call) idle() time.Duration {
	if c.body.Stream {
		return c.model.Timeouts.Idle.Std() + time.Second
	}
	return 0
}

// fields are the headers that go on: what is on the list, and nothing else that a client sent.
func (c *call) fields(token string) []forwarding.Field {
	fields := make([]forwarding.Field, 0, 8)
	contentType := c.header("Content-Type")
	if contentType == "" && len(c.raw) > 0 {
		contentType = "application/json" // as it was read; engines insist on being told
	}
	fields = append(fields, forwarding.Field{Name: forwarding.HeaderHop, Value: token},
		forwarding.Field{Name: "Content-Type", Value: contentType})
	for _, name := range [...]string{"Accept", "User-Agent", forwarding.HeaderTraceParent} {
		fields = append(fields, forwarding.Field{Name: name, Value: c.header(name)})
	}
	for _, name := range c.model.ForwardHeaders {
		fields = append(fields, forwarding.Field{Name: name, Value: c.header(name)})
	}
	return fields
}

// relay answers the client with what the colo sent. It reports whether that goes on after the handler has returned.
func (c *call) relay(answer *forwarding.Answer) (streaming bool) {
	if answer.Switched() {
		c.tunnel(answer)
		return true
	}
	c.headers()
	relay := c.newRelay()
	relay.Answer = answer
	if forwarding.WriteAnswer(c.rc, answer, relay) {
		return true
	}
	c.logWhole(answer)
	return false
}

// newRelay is how the client gets its answer, of which nothing is known yet.
func (c *call) newRelay() *forwarding.Relay {
	relay := &forwarding.Relay{
		Context: c.Context, Client: c.rc.Conn(), Stall: c.entry.config.WriteStall, RequestID: c.id, Ended: c.leave,
	}
	relay.Known = func(end forwarding.End) {
		if relay.Answer == nil {
			c.logGone(analytics.Outcome(end.Kind))
			return
		}
		c.logStream(relay.Answer, end)
	}
	return relay
}

// headers sets what every answer to a client carries.
func (c *call) headers() {
	h := &c.rc.Response.Header
	h.Set(forwarding.HeaderRequestID, c.id)
	if c.colo != "" {
		h.Set(forwarding.HeaderColo, c.colo)
	}
	if c.colo != "" || c.waited > 0 { // who is refused is told, too, that it has waited
		h.Set(forwarding.HeaderQueuedMS, strconv.FormatInt(c.waited.Milliseconds(), 10))
	}
	h.Set(forwarding.HeaderAttempts, strconv.Itoa(c.attempts))
}

// refuse answers with an error, and logs the request as refused or failed.
func (c *call) refuse(e *openai.Error) {
	forwarding.WriteError(c.rc, e, c.id)
	c.headers()
	c.logRefusal(e)
}

// gone ends a request whose context has ended before the first byte: its client has left, unless we are shutting down.
func (c *call) gone() {
	e, outcome := openai.Unavailable("draining", time.Second), analytics.OutcomeDrained
	if c.hasLeft() {
		// It may have closed only its sending side: then it must not take silence for an answer.
		e, outcome = openai.Unavailable("client_gone", 0), analytics.OutcomeClientGone
	}
	forwarding.WriteError(c.rc, e, c.id)
	c.logGone(outcome)
	c.rc.SetConnectionClose()
}

// hasLeft says that the context has ended since the client has gone.
func (c *call) hasLeft() bool { return errors.Is(context.Cause(c.Context), forwarding.ErrClientGone) }

// verdictError is what a client would be told of a verdict.
func verdictError(v forwarding.Verdict) *openai.Error {
	switch v.Number {
	case 42902:
		return openai.OutOfCapacity(v.Reason, v.RetryAfter)
	case 50401:
		return openai.InferenceTimeout(v.Reason)
	case 50301:
		return openai.Unavailable(v.Reason, max(v.RetryAfter, time.Second))
	case 50000:
		return openai.Internal()
	case 40801, 41301: // it has not come through to the colo, or the colo's table is older than ours
		return openai.Unavailable(v.Reason, time.Second)
	}
	e := openai.EngineFailed(v.Reason)
	e.NoRetry = v.Reason != forwarding.ReasonConnect // nothing was generated by an engine that could not be reached
	return e
}
